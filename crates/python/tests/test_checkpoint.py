"""Trained values as arrays: vectors and lookups out of checkpoints."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import clicks
import numpy as np
import pytest
from conftest import ran

import trainyard
from trainyard import fingerprint64, toml

BUCKETS = 50


def premade(folder: Path, **dynamic: Any) -> dict[str, Any]:
    """Returns a job whose items are a dynamic table and whose users are buckets."""
    job = clicks.write(folder, rows=600)
    embedding = {"embedding": 3}
    job["run"] = {"seed": 3, "save_checkpoints_steps": 10}
    job["train"] = {"max_steps": 20}
    job["feature"] += [
        {"column": "user_id", "kind": "hashed", "buckets": BUCKETS, "deep": embedding},
        {"column": "item_id", "kind": "dynamic", "rows_max": 1000, "deep": embedding, **dynamic},
    ]
    job["model"] = {"kind": "dnn_classifier", "hidden_units": [4]}
    return job


def table_of(model_dir: str, feature: str) -> str:
    """Returns the name of the variable of a feature's table."""
    with pytest.raises(trainyard.CheckpointError) as failed:
        trainyard.vectors(model_dir)
    found = re.findall(rf"(\S*{feature}\S*embedding_weights) \[", str(failed.value))
    assert len(found) == 1, failed.value
    return str(found[0])


@pytest.fixture
def trained(folder: Path) -> str:
    """The model directory of a premade model, with checkpoints of several steps."""
    job = premade(folder)
    trainyard.train(job)
    return str(job["model_dir"])


def exported(folder: Path, job: dict[str, Any], **export: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the tensors of an export, by another reader than the package's."""
    trainyard.export(job, str(folder / "exported"), **export)
    path = next((folder / "exported").rglob("model.safetensors"))
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    kinds = {"F32": np.float32, "U64": np.uint64, "I64": np.int64}
    out = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            values = np.frombuffer(raw[8 + length + begin : 8 + length + end], dtype=kinds[tensor["dtype"]])
            out[name] = values.reshape(tensor["shape"])
    return out


def test_vectors_are_those_of_the_export_for_tables_and_dense_variables(folder: Path) -> None:
    job = premade(folder)
    trainyard.train(job)
    model_dir = job["model_dir"]
    expected = exported(folder, job)
    users, items = table_of(model_dir, "user_id"), table_of(model_dir, "item_id")
    ids, values = trainyard.vectors(model_dir, users)
    assert ids.dtype == np.uint64 and ids.tolist() == list(range(BUCKETS))
    assert values.dtype == np.float32 and values.shape == (BUCKETS, 3)
    assert np.array_equal(values, expected[users])
    ids, values = trainyard.vectors(model_dir, items)
    assert ids.dtype == np.uint64 and ids.tolist() == sorted(fingerprint64([f"i{n}" for n in range(clicks.ITEMS)]).tolist())
    assert np.array_equal(ids, expected[f"{items}/ids"].view(np.uint64))
    assert values.dtype == np.float32 and np.array_equal(values, expected[items])
    kernel = next(name for name in expected if name.endswith("hiddenlayer_0/kernel"))
    bias = kernel.replace("kernel", "bias")
    assert np.array_equal(trainyard.vectors(model_dir, kernel).values, expected[kernel])
    ids, values = trainyard.vectors(model_dir, bias)
    assert np.array_equal(values, expected[bias]) and ids.tolist() == list(range(4))


def test_a_table_of_several_servers_is_one_table(folder: Path) -> None:
    job = premade(folder)
    # Tables are cut into slices of at least one row.
    job["strategy"] = {"partitioner": {"kind": "fixed", "num_shards": 2}}
    (folder / "job.toml").write_text(toml.dumps(job))
    ended = ran(sys.executable, "-m", "trainyard", "up", "job.toml", "--cluster", "local:ps=2,worker=1", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert len(list((Path(job["model_dir"]) / "model.ckpt-20").glob("shard-*.safetensors"))) == 2
    expected = exported(folder, job)
    for feature in ("user_id", "item_id"):
        table = table_of(job["model_dir"], feature)
        ids, values = trainyard.vectors(job["model_dir"], table)
        assert np.array_equal(values, expected[table])
        assert np.array_equal(trainyard.lookup(job["model_dir"], table, ids[::-1]), values[::-1])


def test_a_lookup_has_the_rows_in_the_order_of_the_ids(trained: str) -> None:
    items, users = table_of(trained, "item_id"), table_of(trained, "user_id")
    ids, values = trainyard.vectors(trained, items)
    row = dict(zip(ids.tolist(), values, strict=True))
    asked = fingerprint64(["i7", "i39", "i7", "i0"])
    found = trainyard.lookup(trained, items, asked)
    assert found.dtype == np.float32
    assert np.array_equal(found, np.stack([row[each] for each in asked.tolist()]))
    assert np.array_equal(trainyard.lookup(trained, items, asked.tolist()), found)
    of_users = trainyard.vectors(trained, users).values
    assert np.array_equal(trainyard.lookup(trained, users, [49, 0, 1, 2, 49]), of_users[[49, 0, 1, 2, 49]])
    assert trainyard.lookup(trained, users, []).shape == (0, 3)
    assert trainyard.lookup(trained, items, np.zeros(0, dtype=np.uint64)).shape == (0, 3)


def test_an_unknown_id_is_an_error_that_names_it_unless_zeros_are_asked_for(trained: str) -> None:
    items, users = table_of(trained, "item_id"), table_of(trained, "user_id")
    known, unknown = fingerprint64("i1"), fingerprint64("an unknown item")
    with pytest.raises(KeyError, match=f"{items}` has no row of {unknown}: .*missing") as failed:
        trainyard.lookup(trained, items, [known, unknown, unknown])
    assert isinstance(failed.value, trainyard.UnknownIdError)
    assert failed.value.ids == [unknown] and failed.value.args == (unknown,)
    row = trainyard.lookup(trained, items, [known])[0]
    found = trainyard.lookup(trained, items, [unknown, known], missing="zeros")
    assert np.array_equal(found, np.stack([np.zeros(3, dtype=np.float32), row]))
    for missing in ("error", "as_predicted"):
        with pytest.raises(KeyError, match="has no row of 50, 70: its ids are 0 to 49"):
            trainyard.lookup(trained, users, [3, 70, 50], missing=missing)
    last = trainyard.vectors(trained, users).values[49]
    found = trainyard.lookup(trained, users, [50, 49], missing="zeros")
    assert np.array_equal(found, np.stack([np.zeros(3, dtype=np.float32), last]))


def test_ids_without_a_row_read_what_predictions_read(folder: Path) -> None:
    job = premade(folder, shared_row=True)
    trainyard.train(job)
    model_dir = job["model_dir"]
    items = table_of(model_dir, "item_id")
    shared = trainyard.vectors(model_dir, f"{items}/shared_row")
    assert shared.values.shape == (1, 3)
    known = fingerprint64("i1")
    found = trainyard.lookup(model_dir, items, [7, known, 9], missing="as_predicted")
    row = trainyard.lookup(model_dir, items, [known])[0]
    assert np.array_equal(found, np.stack([shared.values[0], row, shared.values[0]]))
    with pytest.raises(KeyError, match="no row of 7"):
        trainyard.lookup(model_dir, items, [7])


def test_ids_without_a_row_have_their_initial_values_in_predictions(folder: Path) -> None:
    job = premade(folder, admit_after=1000)
    trainyard.train(job)
    items = table_of(job["model_dir"], "item_id")
    assert trainyard.vectors(job["model_dir"], items).values.shape == (0, 3)
    found = trainyard.lookup(job["model_dir"], items, fingerprint64(["i1", "i2"]), missing="as_predicted")
    # A run of another length with the same seed gives rows to the ids at their first batch.
    other = premade(folder)
    other["model_dir"] = str(folder / "other")
    other["model"]["dnn_optimizer"] = {"kind": "sgd", "learning_rate": 1e-30}
    trainyard.train(other)
    assert np.array_equal(trainyard.lookup(other["model_dir"], items, fingerprint64(["i1", "i2"])), found)


def test_a_step_chooses_the_checkpoint(trained: str) -> None:
    users = table_of(trained, "user_id")
    first, last = (trainyard.vectors(trained, users, step=step).values for step in (10, 20))
    assert not np.array_equal(first, last)
    assert np.array_equal(trainyard.vectors(trained, users).values, last)
    assert np.array_equal(trainyard.lookup(trained, users, [5], step=10), first[5:6])
    with pytest.raises(trainyard.CheckpointError, match=r"(?s)no checkpoint of step 7 in .*steps: .*10, 20"):
        trainyard.vectors(trained, users, step=7)
    with pytest.raises(ValueError, match="step must be >= 0, given -1"):
        trainyard.vectors(trained, users, step=-1)


def test_a_wrong_table_is_an_error_that_lists_the_variables(trained: str) -> None:
    users, items = table_of(trained, "user_id"), table_of(trained, "item_id")
    with pytest.raises(trainyard.CheckpointError) as failed:
        trainyard.vectors(trained, "users")
    assert "there is no variable `users`" in str(failed.value)
    assert f"{users} [{BUCKETS}, 3]" in str(failed.value) and f"{items} [{clicks.ITEMS} ids, 3]" in str(failed.value)
    with pytest.raises(trainyard.CheckpointError, match="there is no variable `users`"):
        trainyard.lookup(trained, "users", [1])


def test_a_folder_without_checkpoint_is_named(folder: Path) -> None:
    for path in (folder, folder / "absent"):
        with pytest.raises(trainyard.CheckpointError, match=f"no checkpoint in {path}"):
            trainyard.vectors(str(path), "users")
    with pytest.raises(trainyard.CheckpointError, match=f"no checkpoint in {folder}"):
        trainyard.lookup(folder, "users", [1], step=3)


def damaged(checkpoint: Path, wanted: str) -> None:
    """Flips a bit in the first value of a tensor."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    for shard in manifest["shards"]:
        for tensor in shard["tensors"]:
            if tensor["variable"] == wanted and tensor.get("slot") is None:
                path = checkpoint / shard["file"]
                raw = bytearray(path.read_bytes())
                raw[tensor["offset"]] ^= 1
                path.write_bytes(raw)
                return
    raise AssertionError(f"no tensor {wanted}")


def test_a_damaged_checkpoint_is_refused_with_the_file_and_the_other_steps(trained: str) -> None:
    users, items = table_of(trained, "user_id"), table_of(trained, "item_id")
    newest = Path(trained) / "model.ckpt-20"
    kept = shutil.copytree(newest, Path(trained).parent / "kept")
    for table, ids in ((users, [0]), (items, trainyard.vectors(trained, items).ids[:1])):
        damaged(newest, table)
        with pytest.raises(trainyard.CheckpointError, match=rf"{table}\S* at byte .*crc32c"):
            trainyard.vectors(trained, table)
        with pytest.raises(trainyard.CheckpointError, match=rf"{table}\S* at byte .*crc32c"):
            trainyard.lookup(trained, table, ids)
    trainyard.vectors(trained, users, step=10)
    shard = json.loads((newest / "manifest.json").read_text())["shards"][0]["file"]
    (newest / shard).write_bytes((kept / shard).read_bytes()[:-1])
    with pytest.raises(trainyard.CheckpointError, match=r"(?s)bytes, expected .*steps: .*10"):
        trainyard.vectors(trained, users)
    (newest / "manifest.json").write_text("{")
    with pytest.raises(trainyard.CheckpointError, match=r"(?s)manifest.*steps: .*10"):
        trainyard.vectors(trained, users)


def test_incremental_checkpoints_have_the_rows_of_base_and_increment(folder: Path) -> None:
    job = premade(folder)
    # Each item of the first ten batches occurs once, and the others have two items.
    rows = [f"u{number % 7},x{number},,0.5,{number % 2}" for number in range(1000)]
    rows += [f"u{number % 2},x{number % 2},,0.5,{number % 2}" for number in range(1000)]
    (folder / "train.csv").write_text("\n".join(["user_id,item_id,history,price,clicked", *rows]) + "\n")
    trainyard.train(job)
    newest = Path(job["model_dir"]) / "model.ckpt-20"
    assert list(newest.glob("base-*.safetensors")), "the checkpoint is whole"
    expected = exported(folder, job)
    for feature in ("user_id", "item_id"):
        table = table_of(job["model_dir"], feature)
        ids, values = trainyard.vectors(job["model_dir"], table)
        assert np.array_equal(values, expected[table])
        assert np.array_equal(trainyard.lookup(job["model_dir"], table, ids[::-1]), values[::-1])
    assert len(ids) == 1000


def test_ids_are_whole_numbers_of_64_bits(trained: str) -> None:
    items = table_of(trained, "item_id")
    for ids, error, message in (
        (["i1"], TypeError, "whole numbers, given <U2: trainyard.fingerprint64 returns"),
        ([0.5], TypeError, "whole numbers"),
        (np.array([1.0]), TypeError, "given float64"),
        ([True], TypeError, "whole numbers"),
        ([-1], ValueError, "given -1"),
        ([1 << 64], ValueError, f"given {1 << 64}"),
        (3, ValueError, "the shape"),
        ([[3]], ValueError, "the shape"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            trainyard.lookup(trained, items, ids)
    with pytest.raises(ValueError, match="missing must be one of error, zeros, as_predicted, given 'none'"):
        trainyard.lookup(trained, items, [1], missing="none")
    # Both sides of 2^63, which arrays of floats would merge.
    asked = [1, (1 << 64) - 1]
    with pytest.raises(trainyard.UnknownIdError) as failed:
        trainyard.lookup(trained, items, asked)
    assert failed.value.ids == asked


def test_fingerprints_are_those_of_tensorflow() -> None:
    # tf.strings.to_hash_bucket_fast and tf.fingerprint use the same function.
    assert fingerprint64("") == 0x9AE16A3B2F90404F
    assert fingerprint64(b"7") == fingerprint64("7") == fingerprint64(7) == fingerprint64(np.int64(7))
    found = fingerprint64(["7", b"7", 7])
    assert found.dtype == np.uint64 and found.tolist() == [fingerprint64("7")] * 3
    with pytest.raises(TypeError, match="given a float"):
        fingerprint64([0.5])
