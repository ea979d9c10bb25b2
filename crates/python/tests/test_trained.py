"""Trained modules: outputs beside predictions, files of PyTorch alone, graphs, and errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import clicks
import numpy as np
import pytest

import trainyard
from trainyard import fingerprint64

torch = pytest.importorskip("torch", reason="torch is not installed")

import two_tower
import with_tables

import trainyard.torch as ty
from trainyard.torch.main import program
from trainyard.torch.trained import IdTable

LOSS = torch.nn.BCEWithLogitsLoss(reduction="none")
CLOSE = 1e-6
"""Largest difference between the logits of a loaded module and those of predictions."""


@pytest.fixture
def graphs() -> Any:
    """The part of PyTorch that exports graphs, which earlier releases lack."""
    return pytest.importorskip("torch.export", reason="this PyTorch has no torch.export")


def logits(job: Mapping[str, Any], build: Callable[[Mapping[str, Any]], ty.Module], step: int | None = None) -> Any:
    """Returns the logits that predictions give for the evaluation's records."""
    found = trainyard.predict(job, step=step, runner=program(build, LOSS, ()))
    return torch.tensor([row["logits"][0] for row in found])


def padded(rows: Sequence[Sequence[int]]) -> Any:
    """Returns ids as a tensor, filled up with -1."""
    length = max(len(row) for row in rows)
    return torch.tensor([[*row, *[-1] * (length - len(row))] for row in rows])


def signed(texts: Sequence[str]) -> list[int]:
    """Returns the fingerprints of texts as signed numbers."""
    return [int(each) for each in fingerprint64(list(texts)).view(np.int64)] if texts else []


def of_clicks(folder: Path) -> dict[str, Any]:
    """Returns the records of the evaluation as tensors."""
    lines = [line.split(",") for line in (folder / "eval.csv").read_text().splitlines()[1:]]
    users, items, histories, prices, _ = zip(*lines, strict=True)
    return {
        "user_id": torch.from_numpy(fingerprint64(list(users)).astype(np.int64)),
        "item_id": torch.from_numpy(fingerprint64(list(items)).view(np.int64)),
        "history": padded([signed([item for item in history.split("|") if item]) for history in histories]),
        "price": torch.tensor([float(price) for price in prices]),
    }


def of_tables(records: Sequence[Mapping[str, str]], is_weighted: bool = False) -> dict[str, Any]:
    """Returns records as tensors."""
    users = fingerprint64([record["user"] for record in records]) % with_tables.BUCKETS
    texts = [[item for item in record["items"].split("|") if item] for record in records]
    items = padded([[with_tables.ITEMS.index(item) for item in row] for row in texts])
    weights = torch.zeros(items.shape)
    for row, record in enumerate(records):
        for place, weight in enumerate(each for each in record["weights"].split("|") if each):
            weights[row, place] = float(weight)
    return {
        "user": torch.from_numpy(users.astype(np.int64)),
        "items": (items, weights) if is_weighted else items,
        "day": torch.tensor([int(record["day"]) for record in records]),
        "size": torch.tensor([[float(record["size"])] for record in records]),
        "height": torch.tensor([[float(record["height"])] for record in records]),
    }


def tabled(folder: Path, combiner: str | None = "mean", is_weighted: bool = False) -> tuple[dict[str, Any], Any]:
    """Trains a module of tables, and returns its job, and the records of the evaluation as tensors."""
    job, records = with_tables.write(folder, combiner, is_weighted)
    trainyard.train(job, runner=program(with_tables.build, LOSS, ()))
    return job, of_tables(records, is_weighted)


def clicked(folder: Path, **dynamic: Any) -> dict[str, Any]:
    """Trains a module of dynamic tables, and returns its job."""
    job = clicks.write(folder, rows=1000)
    job["train"] = {"max_steps": 40}
    job["run"]["save_checkpoints_steps"] = 20
    if dynamic:
        each = {"kind": "dynamic", "rows_max": 100, **dynamic}
        job["feature"] += [{"column": column, **each} for column in ("user_id", "item_id")]
        job["feature"].append({"column": "history", "separator": "|", **each})
    trainyard.train(job, runner=program(two_tower.Net, LOSS, ()))
    return job


def test_a_module_of_dynamic_tables_has_the_outputs_of_predictions(folder: Path) -> None:
    job = clicked(folder)
    batch = of_clicks(folder)
    for step in (20, 40, None):
        module = ty.load(job["model_dir"], two_tower.Net, step=step)
        assert not module.training
        with torch.no_grad():
            found = module(batch)
        assert found.shape == (600,) and float((found - logits(job, two_tower.Net, step)).abs().max()) <= CLOSE
    assert type(module.module.mlp[0]) is torch.nn.Linear
    assert module.module.item.table is module.module.history.table


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn", None])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_module_of_plain_tables_has_the_outputs_of_predictions(
    folder: Path, combiner: str | None, is_weighted: bool
) -> None:
    job, batch = tabled(folder, combiner, is_weighted)
    module = ty.load(job["model_dir"], with_tables.build)
    with torch.no_grad():
        found = module(batch)
    assert float((found - logits(job, with_tables.build)).abs().max()) <= CLOSE
    assert type(module.module.user.table) is torch.nn.Embedding
    mean = module.module.normalization.running_mean
    assert np.array_equal(mean, trainyard.vectors(job["model_dir"], "normalization/running_mean").values)
    assert bool(mean.any())


def test_a_value_that_occurs_twice_in_a_row_counts_twice(folder: Path) -> None:
    job, records = with_tables.write(folder, "sqrtn", is_weighted=False)
    trainyard.train(job, runner=program(with_tables.build, LOSS, ()))
    for record in records:
        record["items"], record["weights"] = "i1|i1|i2", "1|1|1"
    lines = [",".join(record[column] for column in with_tables.COLUMNS) for record in records]
    (folder / "eval.csv").write_text("\n".join([",".join(with_tables.COLUMNS), *lines]) + "\n")
    with torch.no_grad():
        found = ty.load(job["model_dir"], with_tables.build)(of_tables(records))
    assert float((found - logits(job, with_tables.build)).abs().max()) <= CLOSE


ALONE = """
import sys
import torch

program, state, batch, expected = (torch.load(name, weights_only=True) if name.endswith(".pt") else name for name in sys.argv[1:])
found = torch.export.load(program).module()(batch)
assert float((found - expected).abs().max()) <= 1e-6
assert all(isinstance(each, torch.Tensor) for each in state.values())
assert not any(name.startswith("trainyard") for name in sys.modules)
"""


def test_a_module_is_exported_and_its_files_are_read_by_pytorch_alone(folder: Path, graphs: Any) -> None:
    job, batch = tabled(folder)
    module = ty.load(job["model_dir"], with_tables.build)
    with torch.no_grad():
        expected = module(batch)
    rows = graphs.Dim("rows", min=2)
    shapes = {name: {0: rows} for name in batch}
    exported = graphs.export(module, (batch,), dynamic_shapes=(shapes,))
    few = {name: each[:7] for name, each in batch.items()}
    with torch.no_grad():
        assert float((exported.module()(few) - expected[:7]).abs().max()) <= CLOSE
    graphs.save(exported, "program.pt2")
    for name, each in (("state", dict(module.state_dict())), ("batch", batch), ("expected", expected)):
        torch.save(each, f"{name}.pt")
    Path("alone.py").write_text(ALONE)
    ended = subprocess.run(
        [sys.executable, "alone.py", "program.pt2", "state.pt", "batch.pt", "expected.pt"],
        capture_output=True, text=True, check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.filterwarnings("ignore")
def test_a_module_is_traced(folder: Path) -> None:
    job, batch = tabled(folder)
    module = ty.load(job["model_dir"], with_tables.build)
    traced = torch.jit.trace(module, (batch,))
    traced.save("traced.pt")
    few = {name: each[:7] for name, each in batch.items()}
    with torch.no_grad():
        assert float((torch.jit.load("traced.pt")(few) - module(few)).abs().max()) <= CLOSE


def test_the_state_of_a_module_is_loaded_into_another_one(folder: Path) -> None:
    job = clicked(folder)
    batch = of_clicks(folder)
    torch.save(ty.load(job["model_dir"], two_tower.Net).state_dict(), "state.pt")
    other = ty.load(job["model_dir"], two_tower.Net)
    expected = other(batch)
    with torch.no_grad():
        for each in other.parameters():
            each.zero_()
    assert not torch.equal(other(batch), expected)
    other.load_state_dict(torch.load("state.pt", weights_only=True))
    assert torch.equal(other(batch), expected)


def test_a_loaded_module_can_be_trained_on(folder: Path) -> None:
    job, batch = tabled(folder)
    module = ty.load(job["model_dir"], with_tables.build)
    module.train()
    module(batch).sum().backward()
    assert all(each.grad is not None for each in module.parameters())


def test_an_id_without_a_row_is_refused_unless_zeros_are_asked_for(folder: Path) -> None:
    job = clicked(folder)
    batch = of_clicks(folder)
    unknown = fingerprint64("an unknown item")
    batch["item_id"][3] = np.uint64(unknown).astype(np.int64)
    module = ty.load(job["model_dir"], two_tower.Net)
    with pytest.raises(KeyError, match=f"`item_id` has no row of {unknown}: load the module with missing=\"zeros\""):
        module(batch)
    zeros = ty.load(job["model_dir"], two_tower.Net, missing="zeros")
    with torch.no_grad():
        found = zeros(batch)
        without = dict(batch)
        without["item_id"] = batch["item_id"].clone()
        without["item_id"][3] = -1
        assert torch.equal(found, module(without))


def test_an_exported_module_has_zeros_or_the_shared_row_for_ids_without_one(folder: Path, graphs: Any) -> None:
    for name in ("refusing", "shared"):
        (folder / name).mkdir()
    refusing = clicked(folder / "refusing")["model_dir"]
    batch = of_clicks(folder / "refusing")
    with pytest.raises(ValueError, match="that is traced or exported cannot refuse the ids"):
        graphs.export(ty.load(refusing, two_tower.Net), (batch,))
    zeros = ty.load(refusing, two_tower.Net, missing="zeros")
    shared = ty.load(clicked(folder / "shared", shared_row=True)["model_dir"], two_tower.Net)
    for module in (zeros, shared):
        exported = graphs.export(module, (batch,))
        batch["item_id"][3] = 7
        with torch.no_grad():
            assert float((exported.module()(batch) - module(batch)).abs().max()) <= CLOSE


def test_ids_without_a_row_read_the_shared_one_as_in_predictions(folder: Path) -> None:
    job = clicked(folder, shared_row=True)
    lines = (folder / "eval.csv").read_text().splitlines()
    lines = [lines[0], *(line.replace(",i1,", ",unknown,") for line in lines[1:])]
    (folder / "eval.csv").write_text("\n".join(lines) + "\n")
    assert any(",unknown," in line for line in lines)
    module = ty.load(job["model_dir"], two_tower.Net)
    with torch.no_grad():
        found = module(of_clicks(folder))
    assert float((found - logits(job, two_tower.Net)).abs().max()) <= CLOSE


def test_fingerprints_may_have_no_sign(folder: Path) -> None:
    if not hasattr(torch, "uint64"):
        pytest.skip("this PyTorch has no uint64")
    job = clicked(folder)
    batch = of_clicks(folder)
    module = ty.load(job["model_dir"], two_tower.Net)
    expected = module(batch)
    batch["user_id"] = batch["user_id"].view(torch.uint64)
    assert torch.equal(module(batch), expected)


def test_a_dynamic_table_without_rows_has_zeros() -> None:
    table = IdTable(np.zeros(0, dtype=np.uint64), np.zeros((0, 3), dtype=np.float32), None, "zeros")
    assert table(torch.tensor([[4, -1]])).shape == (1, 2, 3) and not table(torch.tensor([[4, -1]])).any()


def test_inputs_that_do_not_fit_are_refused(folder: Path) -> None:
    job, batch = tabled(folder)
    module = ty.load(job["model_dir"], with_tables.build)
    outside = batch["user"].clone()
    outside[2] = with_tables.BUCKETS
    for change, error, message in (
        ({"user": outside}, KeyError, "`user` has no row of 20: its ids are 0 to 19"),
        ({"user": outside - 30}, KeyError, "its ids are 0 to 19, and -1 stands for no id"),
        ({"user": batch["user"][:5]}, ValueError, "must have one number of rows"),
        ({"user": batch["user"].float()}, TypeError, "`user` must be a tensor of ids, int64, given torch.float32"),
        ({"user": ["u1"]}, TypeError, "given list"),
        ({"size": batch["size"].repeat(1, 2)}, ValueError, r"`size` must have the shape \[rows, 1\], given \[60, 2\]"),
        ({"items": (batch["items"], batch["items"][:, :1].float())}, ValueError, "weights of `items` must have the shape"),
    ):
        with pytest.raises(error, match=message):
            module({**batch, **change})
    del batch["day"]
    with pytest.raises(KeyError, match="it lacks day"):
        module(batch)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_ids_have_weights_where_those_of_the_training_had(is_weighted: bool, folder: Path) -> None:
    job, batch = tabled(folder, "sum", is_weighted)
    module = ty.load(job["model_dir"], with_tables.build)
    items = batch["items"]
    other = items[0] if isinstance(items, tuple) else (items, torch.ones(items.shape))
    wanted = "has weights .* a pair of ids and weights" if is_weighted else "has no weights .* its ids alone"
    with pytest.raises(ValueError, match=f"the feature `items` {wanted}"):
        module({**batch, "items": other})


class Wider(with_tables.Net):
    """A module with a table of another dimension."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.user = ty.Embedding("user", 5)


class Larger(with_tables.Net):
    """A module with a parameter of another shape."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.days = torch.nn.Parameter(torch.zeros(8))


class Further(with_tables.Net):
    """A module with one more parameter."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.more = torch.nn.Parameter(torch.zeros(2))


class Fewer(with_tables.Net):
    """A module without the days."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        del self.days


def test_the_values_of_another_module_are_refused_with_the_variables(folder: Path) -> None:
    job, _ = tabled(folder)
    for kind, message in (
        (Wider, r"dimension of its table, given 5 and user/embedding_weights \[20, 4\]"),
        (Larger, r"`days` must have the shape of its variable, given \[8\] and days \[7\]"),
        (Further, r"(?s)there is no variable `more`: .*second%20table/embedding_weights \[20, 2\]"),
        (Fewer, r"is of another module, this one has no days \[7\]"),
    ):
        with pytest.raises(trainyard.CheckpointError, match=message):
            ty.load(job["model_dir"], kind)
    with pytest.raises(TypeError, match="must be a trainyard.torch.Module, given a Linear"):
        ty.load(job["model_dir"], lambda params: torch.nn.Linear(1, 1))


def test_a_wrong_step_and_a_damaged_checkpoint_are_refused(folder: Path) -> None:
    job, _ = tabled(folder)
    with pytest.raises(trainyard.CheckpointError, match=r"(?s)no checkpoint of step 7.*steps: .*20, 40"):
        ty.load(job["model_dir"], with_tables.build, step=7)
    with pytest.raises(trainyard.CheckpointError, match="no checkpoint in"):
        ty.load(folder / "absent", with_tables.build)
    newest = Path(job["model_dir"]) / "model.ckpt-40"
    manifest = json.loads((newest / "manifest.json").read_text())
    file = manifest["shards"][0]
    tensor = next(each for each in file["tensors"] if each["variable"] == "out/weight" and not each.get("slot"))
    raw = bytearray((newest / file["file"]).read_bytes())
    raw[tensor["offset"]] ^= 1
    (newest / file["file"]).write_bytes(raw)
    with pytest.raises(trainyard.CheckpointError, match="out/weight.* at byte .*crc32c"):
        ty.load(job["model_dir"], with_tables.build)
    ty.load(job["model_dir"], with_tables.build, step=20)


def test_the_job_is_that_of_the_run_unless_another_one_is_given(folder: Path) -> None:
    job, batch = tabled(folder)
    moved = shutil.move(job["model_dir"], folder / "moved")
    expected = ty.load(moved, with_tables.build)(batch)
    (folder / "moved" / "job.toml").unlink()
    with pytest.raises(trainyard.CheckpointError, match="holds no job.toml.*give its job by job="):
        ty.load(moved, with_tables.build)
    assert torch.equal(ty.load(moved, with_tables.build, job=job)(batch), expected)
    job["feature"][2]["buckets"] = 8
    with pytest.warns(UserWarning, match="trained by another job: feature.2.*buckets"):
        ty.load(moved, with_tables.build, job=job)


def test_a_generator_of_the_program_is_left_as_it_was(folder: Path) -> None:
    job, _ = tabled(folder)
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    ty.load(job["model_dir"], with_tables.build)
    assert torch.equal(torch.rand(3), expected)
