"""How good the models of `trainyard init` and `trainyard train` are on rows that training never sees, and the least that a release must hold.

    python3 tests/peers/quality.py [TABLE ...] [--program target/release/trainyard] [--runs 3] [--seconds 30] [--plot FILE.svg] [--peers]
        [--adult FOLDER] [--movielens FOLDER] [--clicks FOLDER]

Needs nothing but Python; `--peers` also trains LightGBM on the same rows (lightgbm, pandas). A folder of the adult census holds `train.csv` and
`eval.csv` with names of columns, one of MovieLens-100k the files `ml-100k.inter`, `.user` and `.item` of RecBole's example data, one of clicks `train.csv`
and `test.csv`: a `label`, counts `I1` to `I13` and names `C1` to `C26` that are whole numbers. Without its folder a table is skipped, and told. The exit code is 1 if a table is below its threshold.
"""

import argparse
import csv
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable

Row = list[object]


@dataclass(frozen=True)
class Table:
    """A data set: its rows, and the least AUC on the rows that are held out."""

    name: str
    label: str
    positive: str
    least: float
    goal: float
    # Columns of names, for peers that are told which they are; empty: those of texts.
    names: tuple[str, ...]
    write: Callable[[Path, argparse.Namespace], bool]
    # The option that names its folder.
    source: str = ""
    # The column that says when a record was made: `init` holds out the latest, and peers do without.
    time: str = ""


def written(path: Path, header: list[str], rows: Iterable[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(header)
        out.writerows(rows)


def divided(folder: Path, header: list[str], rows: list[Row], seed: int) -> None:
    """Writes four fifths of the rows to train.csv, the others to test.csv."""
    random.Random(seed).shuffle(rows)
    end = len(rows) * 4 // 5
    written(folder / "train.csv", header, rows[:end])
    written(folder / "test.csv", header, rows[end:])


def exclusive_or(folder: Path, _: argparse.Namespace) -> bool:
    """Two whole numbers that are names: the label is whether exactly one is in its half."""
    draw = random.Random(11)
    halves = [{name for name in range(250) if draw.random() < 0.5} for _ in range(2)]
    rows: list[Row] = []
    for _ in range(120_000):
        site, ad = draw.randrange(250), draw.randrange(250)
        rows.append([int((site in halves[0]) != (ad in halves[1])), site, ad])
    divided(folder, ["label", "site", "ad"], rows, 1)
    return True


def two_factors(folder: Path, _: argparse.Namespace) -> bool:
    """Two whole numbers that are names, of which neither says anything alone: the logit is the product of two vectors of 4."""
    draw = random.Random(12)
    users, items = ([[draw.gauss(0, 1) for _ in range(4)] for _ in range(count)] for count in (4000, 1500))
    rows: list[Row] = []
    for _ in range(250_000):
        user, item = draw.randrange(len(users)), draw.randrange(len(items))
        logit = sum(left * right for left, right in zip(users[user], items[item]))
        rows.append([user, item, int(draw.random() < 1 / (1 + math.exp(-logit)))])
    divided(folder, ["user", "item", "click"], rows, 2)
    return True


def adult(folder: Path, arguments: argparse.Namespace) -> bool:
    """The census of 1994, in the division of its authors."""
    if arguments.adult is None:
        return False
    for part, name in (("train", "train"), ("eval", "test")):
        with (arguments.adult / f"{part}.csv").open(encoding="utf-8") as file:
            rows = [[field.strip() for field in row] for row in csv.reader(file) if row]
        place = rows[0].index("Salary")
        for row in rows[1:]:
            row[place] = row[place].rstrip(".")
        written(folder / f"{name}.csv", rows[0], rows[1:])
    return True


def ratings(source: Path) -> list[tuple[float, Row]]:
    """Returns 100,000 ratings of films, liked (4 or 5) or not, each with its time."""

    def records(kind: str) -> list[dict[str, str]]:
        with (source / f"ml-100k.{kind}").open(encoding="utf-8") as file:
            header, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        names = [name.split(":")[0] for name in header]
        return [dict(zip(names, row)) for row in rows]

    users = {user["user_id"]: user for user in records("user")}
    items = {item["item_id"]: item for item in records("item")}
    rows: list[tuple[float, Row]] = []
    for rating in records("inter"):
        user, item = users[rating["user_id"]], items[rating["item_id"]]
        of_user = [user[name] for name in ("user_id", "age", "gender", "occupation")]
        of_item = [item["item_id"], item["release_year"], item["class"].replace(" ", "|")]
        rows.append((float(rating["timestamp"]), [*of_user, *of_item, int(float(rating["rating"]) >= 4)]))
    return rows


RATINGS = ["user_id", "age", "gender", "occupation", "item_id", "release_year", "genre", "liked"]


def movielens(folder: Path, arguments: argparse.Namespace) -> bool:
    """Ratings of films, divided at random."""
    if arguments.movielens is None:
        return False
    divided(folder, RATINGS, [row for _, row in ratings(arguments.movielens)], 3)
    return True


def movielens_by_time(folder: Path, arguments: argparse.Namespace) -> bool:
    """Ratings of films, the latest fifth held out: most of its users are not in training. The time is a column, which `init` is told."""
    if arguments.movielens is None:
        return False
    rows = [[int(when), *row] for when, row in sorted(ratings(arguments.movielens), key=lambda rating: rating[0])]
    end = len(rows) * 4 // 5
    for part, some in (("train", rows[:end]), ("test", rows[end:])):
        written(folder / f"{part}.csv", ["when", *RATINGS], some)
    return True


def clicks(folder: Path, arguments: argparse.Namespace) -> bool:
    """A million rows of 13 counts and 26 columns of whole numbers that are names, of which some matter together alone."""
    if arguments.clicks is None:
        return False
    for part in ("train", "test"):
        (folder / f"{part}.csv").symlink_to((arguments.clicks / f"{part}.csv").resolve())
    return True


TABLES = [
    Table("rule", "label", "1", 0.999, 0.999, ("site", "ad"), exclusive_or),
    Table("factors", "click", "1", 0.775, 0.80, ("user", "item"), two_factors),
    Table("adult", "Salary", ">50K", 0.925, 0.925, (), adult, "adult"),
    Table("movielens", "liked", "1", 0.783, 0.787, ("user_id", "item_id"), movielens, "movielens"),
    Table("movielens by time", "liked", "1", 0.700, 0.7146, ("user_id", "item_id"), movielens_by_time, "movielens", "when"),
    Table("clicks", "label", "1", 0.775, 0.75, tuple(f"C{number}" for number in range(1, 27)), clicks, "clicks"),
]


def auc(labels: list[bool], scores: list[float]) -> float:
    """Returns the probability that a positive row has a higher score than another one, ties half (Mann and Whitney 1947)."""
    assert len(labels) == len(scores), f"{len(labels)} rows, {len(scores)} predictions"
    order = sorted(range(len(scores)), key=scores.__getitem__)
    area = below = 0.0
    place = 0
    while place < len(order):
        end = place
        while end < len(order) and scores[order[end]] == scores[order[place]]:
            end += 1
        tied = sum(labels[row] for row in order[place:end])
        area += tied * (below + (end - place - tied) / 2)
        below += end - place - tied
        place = end
    return area / (sum(labels) * below)


def labels_of(folder: Path, table: Table) -> list[bool]:
    with (folder / "test.csv").open(encoding="utf-8") as file:
        return [row[table.label] == table.positive for row in csv.DictReader(file)]


def run(program: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run([program.resolve(), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"trainyard {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def ours(program: Path, folder: Path, table: Table, number: int, seconds_of_init: int) -> tuple[float, float, str]:
    """Returns the AUC of a job that `init` writes and `train` runs, the seconds of both, and the kind of the model."""
    out = f"job-{number}"
    begun = time.monotonic()
    time_column = ["--time", table.time] if table.time else []
    settings = ["--label", table.label, *time_column, "--seconds", str(seconds_of_init), "--out", out]
    told = run(program, folder, "init", "train.csv", *settings)
    run(program, folder, "train", f"{out}/job.toml", "--set", f"run.seed={number}")
    seconds = time.monotonic() - begun
    run(program, folder, "predict", f"{out}/job.toml", "--input", "test.csv", "--output", "predictions.jsonl")
    with (folder / "predictions.jsonl").open(encoding="utf-8") as file:
        scores = [json.loads(line)["logistic"][0] for line in file]
    kind = next(line.rsplit(" ", 1)[1] for line in told.splitlines() if line.startswith("wrote") and "job.toml" in line)
    return auc(labels_of(folder, table), scores), seconds, kind


def lightgbm(folder: Path, table: Table) -> float:
    """Returns the AUC of LightGBM with its default settings, which is told the columns of names."""
    import lightgbm
    import pandas

    train, test = (pandas.read_csv(folder / f"{part}.csv", skipinitialspace=True) for part in ("train", "test"))
    columns = [name for name in train.columns if name not in (table.label, table.time)]
    named = [name for name in columns if name in table.names or train[name].dtype.kind not in "iufb"]
    for name in named:
        both = pandas.concat([train[name], test[name]]).astype(str)
        kinds = pandas.CategoricalDtype(both.unique())
        train[name], test[name] = (part[name].astype(str).astype(kinds) for part in (train, test))
    labels = train[table.label].astype(str) == table.positive
    model = lightgbm.LGBMClassifier(verbose=-1, random_state=1).fit(train[columns], labels)
    return auc(labels_of(folder, table), model.predict_proba(test[columns])[:, 1].tolist())


def plot(path: Path, results: list[tuple[Table, float, float | None]]) -> None:
    """Draws a bar for us and one for the peer, for each table."""
    height, left, scale = 44 * len(results) + 60, 140, 860.0
    x = lambda value: left + (value - 0.5) * scale
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="640" height="{height}" fill="white"/>',
    ]
    for tick in range(50, 101, 10):
        place = x(tick / 100)
        parts.append(f'<line x1="{place}" y1="24" x2="{place}" y2="{height - 26}" stroke="#ddd"/>')
        parts.append(f'<text x="{place}" y="16" text-anchor="middle">{tick / 100:.1f}</text>')
    for number, (table, own, peer) in enumerate(results):
        top = 32 + 44 * number
        parts.append(f'<text x="{left - 8}" y="{top + 20}" text-anchor="end">{table.name}</text>')
        for place, (value, colour) in enumerate(((own, "#1f6feb"), (peer, "#999"))):
            if value is not None:
                y = top + 16 * place
                parts.append(f'<rect x="{left}" y="{y}" width="{max(1.0, x(value) - left)}" height="13" fill="{colour}"/>')
                parts.append(f'<text x="{x(value) + 4}" y="{y + 11}">{value:.4f}</text>')
    legend = "AUC on rows never shown: blue Trainyard, grey LightGBM, told which columns are names"
    parts.append(f'<text x="10" y="{height - 8}">{legend}</text></svg>')
    path.write_text("\n".join(parts), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", metavar="TABLE")
    parser.add_argument("--program", type=Path, default=Path("target/release/trainyard"))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=30, help="longest search of init: a slow or busy machine needs more for the same")
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--movielens", type=Path)
    parser.add_argument("--clicks", type=Path)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    unknown = set(arguments.tables) - {table.name for table in TABLES}
    if unknown or arguments.runs < 1:
        sys.exit(f"tables: {', '.join(table.name for table in TABLES)}; given {unknown}. --runs is 1 or more")
    print("| table | AUC, mean of runs (range) | a release must have | goal | LightGBM | seconds | model |\n|---|---|---|---|---|---|---|")
    results = []
    failed = []
    for table in TABLES:
        if arguments.tables and table.name not in arguments.tables:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if not table.write(folder, arguments):
                print(f"| {table.name} | skipped: --{table.source} names no folder | {table.least} | {table.goal} | | | |", flush=True)
                continue
            found = [ours(arguments.program, folder, table, number + 1, arguments.seconds) for number in range(arguments.runs)]
            peer = lightgbm(folder, table) if arguments.peers else None
        aucs = [one[0] for one in found]
        mean = statistics.fmean(aucs)
        seconds = statistics.fmean(one[1] for one in found)
        shown = "" if peer is None else f"{peer:.4f}"
        print(
            f"| {table.name} | {mean:.4f} ({min(aucs):.4f} to {max(aucs):.4f}) | {table.least} | {table.goal} | {shown} | {seconds:.0f} "
            f"| {found[0][2]} |",
            flush=True,
        )
        results.append((table, mean, peer))
        if min(aucs) < table.least:
            failed.append(f"{table.name}: {min(aucs):.4f} is less than {table.least}")
    if arguments.plot:
        plot(arguments.plot, results)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
