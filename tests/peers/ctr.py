"""The job `configs/ctr-tensorflow.toml` as the peers see it: columns, sizes and rows. Read from the job file, so that both sides train the same model."""

import glob
import os

try:
    import tomllib
except ImportError:  # Python before 3.11
    import tomli as tomllib

REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
with open(os.path.join(REPOSITORY, "configs", "ctr-tensorflow.toml"), "rb") as _file:
    JOB = tomllib.load(_file)

COLUMNS = JOB["input"]["columns"]
LABEL = JOB["input"]["label"]["column"]
_numeric, _hashed = JOB["feature"]
NUMBERS = _numeric["columns"]
CATEGORIES = _hashed["columns"]
BUCKETS = _hashed["buckets"]
DIMENSION = _hashed["deep"]["embedding"]
HIDDEN_UNITS = JOB["model"]["hidden_units"]
LEARNING_RATE = JOB["model"]["dnn_optimizer"]["learning_rate"]
SEED = JOB["run"]["seed"]

# Rows that a peer holds in memory, parsed. Ours reads, parses and shuffles the files all the time.
CACHED_ROWS = 65536


def training_files():
    """Returns the files that `trainyard datagen ctr` has written below $PEER_DATA (default: data/ctr)."""
    folder = os.environ.get("PEER_DATA", os.path.join(REPOSITORY, "data", "ctr"))
    files = sorted(glob.glob(os.path.join(folder, "ctr-train-*.tsv")))
    if not files:
        raise SystemExit(f"no ctr-train-*.tsv in {folder}: run `trainyard datagen ctr --out {folder} --rows 1000000`")
    return files


def own_files(index, count):
    """Returns the files of one of `count` readers. With fewer files than readers, all have the same."""
    files = training_files()
    return files[index::count] if len(files) >= count else files


def first_row_of_tables():
    """Returns where each table begins if all are one table, and the rows of that table."""
    begins, total = [], 0
    for buckets in BUCKETS:
        begins.append(total)
        total += buckets
    return begins, total
