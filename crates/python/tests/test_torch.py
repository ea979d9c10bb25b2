"""Modules of PyTorch, on processes and in this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import batches
import clicks
import numpy as np
import pytest
from batches import ids, places

import trainyard
import trainyard.metrics

torch = pytest.importorskip("torch", reason="torch is not installed")

import other_device
import two_tower

import trainyard.torch as ty
from trainyard import toml
from trainyard.adapter import Ids
from trainyard.torch.adapter import Adapter
from trainyard.torch.main import program
from trainyard.torch.memory import CHOICES
from trainyard.torch.tables import Tables

PROGRAM = Path(two_tower.__file__)
DEADLINE_SECS = 120
SETTINGS = {
    "run": {"intra_op_parallelism_threads": 1},
    "model": {"head": "binary", "loss_reduction": "sum_over_batch_size", "hidden_units": [8]},
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job on drawn clicks."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(toml.dumps(clicks.write(tmp_path)))
    return path


def command(program: Path, *arguments: str) -> list[str]:
    """Returns the command line of a program in Python."""
    return [sys.executable, "-W", "ignore", str(program), *arguments]


def ran(*arguments: str, program: Path = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program, by default that of the tests."""
    return subprocess.run(
        command(program, *arguments),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECS,
        check=False,
    )


def metrics(output: str) -> dict[str, float]:
    """Returns the table of metrics that a command prints."""
    lines = (line.split() for line in output.splitlines() if line.startswith("  "))
    return {name: float(value) for name, value in lines}


def test_a_module_trains_evaluates_and_predicts(job: Path) -> None:
    trained = ran("train", str(job))
    assert trained.returncode == 0, trained.stderr
    assert metrics(trained.stdout)["auc"] > 0.9
    evaluated = ran("evaluate", str(job))
    assert metrics(evaluated.stdout) == metrics(trained.stdout)
    rows = [json.loads(line) for line in ran("predict", str(job), "--keep", "clicked").stdout.splitlines()]
    right = sum(row["class_ids"][0] == int(row["clicked"]) for row in rows)
    assert right / len(rows) == pytest.approx(metrics(trained.stdout)["accuracy"], abs=1e-6)


def test_a_module_trains_on_a_cluster(job: Path) -> None:
    trained = ran("up", str(job), "--cluster", "local:ps=2,worker=2")
    assert trained.returncode == 0, trained.stderr
    assert metrics(trained.stdout)["auc"] > 0.9
    assert "[worker:1]" in trained.stderr and "[ps:1]" in trained.stderr


def test_the_best_checkpoint_of_a_module_is_exported(job: Path) -> None:
    text = job.read_text()
    job.write_text(f"{text}\n[[exporter]]\nkind = 'best'\nmetric = 'auc'\n")
    trained = ran("train", str(job))
    assert trained.returncode == 0, trained.stderr
    assert list((job.parent / "model/export/best").glob("*/model.safetensors"))
    job.write_text(f"{text}\n[[exporter]]\nkind = 'best'\nmetric = 'acu'\n")
    misspelt = ran("train", str(job), "--set", "model_dir='another'")
    assert misspelt.returncode == 78
    assert "compares the metric `acu`" in misspelt.stderr and "did you mean `auc`?" in misspelt.stderr
    job.write_text(f"{text}\n[[exporter]]\nkind = 'best'\nmetric = 'rmse'\nhigher_is_better = false\n")
    absent = ran("train", str(job), "--set", "model_dir='a third'")
    assert absent.returncode == 78
    assert "compares the metric `rmse`" in absent.stderr and "accuracy, accuracy_baseline, auc" in absent.stderr


def test_an_exception_ends_the_task_with_traceback_and_batch(job: Path) -> None:
    failed = ran("train", str(job), TESTED_FAILURE="1")
    assert failed.returncode == 65
    assert "E5003" in failed.stderr and "a mistake of the user" in failed.stderr
    assert "two_tower.py" in failed.stderr and "in forward" in failed.stderr
    assert "the batch 0 of shard" in failed.stderr


def test_an_interrupt_ends_a_module_with_a_checkpoint(job: Path) -> None:
    endless = command(PROGRAM, "train", str(job), "--set", "train.max_steps=1000000000")
    process = subprocess.Popen(endless, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "checkpoint saved step=200" in line:
            break
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    output, errors = process.communicate(timeout=DEADLINE_SECS)
    assert process.returncode == 0, errors
    assert "stopped at step" in output and "checkpoint saved" in errors
    assert time.monotonic() - begun < 10


def step(loss: Any) -> Callable[[list[np.ndarray[Any, Any]]], tuple[float, list[np.ndarray[Any, Any]]]]:
    """Returns a step of the module over a small batch, with its own loss."""
    adapter = Adapter(two_tower.Net, loss, json.dumps(SETTINGS))
    adapter.tables()
    adapter.parameters(({"price": (0, 1)}, []), 1)
    labels = np.array([0, 1], dtype=np.float32)
    return lambda values: adapter.train(batches.clicks([0.2, 0.9]), values, labels, None)


def drawn(sizes: list[int]) -> list[np.ndarray[Any, Any]]:
    """Returns values of these sizes."""
    draw = np.random.default_rng(5)
    return [draw.normal(size=size).astype(np.float32) for size in sizes]


# The vectors of a user, three items and a row without id, and the parameters of two layers over 13 numbers.
SIZES = [5 * 4, 8 * 13, 8, 8, 1]


def test_gradients_agree_with_finite_differences() -> None:
    train = step(torch.nn.BCEWithLogitsLoss(reduction="none"))
    values = drawn(SIZES)
    gradients = [gradient.reshape(-1) for gradient in train(values)[1]]
    assert [gradient.size for gradient in gradients] == SIZES
    for variable, place in [(0, 1), (0, 6), (0, 10), (0, 13), (1, 20), (2, 4), (4, 0)]:

        def loss_at(offset: float, variable: int = variable, place: int = place) -> float:
            moved = [value.copy() for value in values]
            moved[variable][place] += offset
            return train(moved)[0]

        numeric = (loss_at(1e-2) - loss_at(-1e-2)) / 2e-2
        assert numeric == pytest.approx(gradients[variable][place], abs=2e-3)


TABLE = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]], dtype=np.float32)
CPU = torch.device("cpu")


def looked_up(embedding: ty.Embedding, rows: int, found: Ids) -> Any:
    """Returns what an embedding looks up in TABLE."""
    tables = Tables([embedding], CPU)
    matrix = np.concatenate([TABLE.reshape(-1), np.zeros(2, dtype=np.float32)])
    loaded = tables.load([matrix], [([0], [], places(), [(0, found)])])
    return embedding(ty.Batch(torch.zeros(rows, 0), {}, {}, loaded))


@pytest.mark.parametrize(
    ("combiner", "weights", "expected"),
    [
        # The vectors 1 and 2 of TABLE, as TensorFlow 2.15 combines them.
        ("mean", None, [5.0, 8.0]),
        ("sum", None, [10.0, 16.0]),
        ("sqrtn", None, [7.0711, 11.3137]),
        ("mean", [0.5, 2.0], [6.2, 9.8]),
        ("sum", [0.5, 2.0], [15.5, 24.5]),
        ("sqrtn", [0.5, 2.0], [7.5186, 11.8842]),
    ],
)
def test_combiners_are_those_of_tensorflow(combiner: str, weights: list[float] | None, expected: list[float]) -> None:
    # The second row has no id.
    found = looked_up(ty.Embedding("a", 2, combiner=combiner), 2, ids([1, 2], [0, 2, 2], weights)).tolist()
    assert found == [pytest.approx(expected, abs=1e-3), [0.0, 0.0]]


def test_without_a_combiner_rows_are_padded_and_masked() -> None:
    vectors, mask = looked_up(ty.Embedding("a", 2, combiner=None), 3, ids([2, 0, 1], [0, 2, 2, 3]))
    assert vectors.tolist() == [[[7, 11], [1, 2]], [[0, 0], [0, 0]], [[3, 5], [0, 0]]]
    assert mask.tolist() == [[True, True], [False, False], [True, False]]


def test_embeddings_of_one_dimension_are_looked_up_together_with_the_gradients_of_single_lookups() -> None:
    draw = np.random.default_rng(4)
    embeddings = [ty.Embedding(name, 3, table=table) for name, table in [("a", "t"), ("b", "u"), ("c", "t"), ("d", "u")]]
    # Four rows of a table, two of the other one, and the row of 0, which the second row of the last embedding has.
    matrix = np.append(draw.normal(size=6 * 3), np.zeros(3)).astype(np.float32)
    lines = [[0, 3, 1, 3], [5, 5, 4, 5], [2, 0, 2, 2], [5, 6, 4, 5]]
    factors = torch.tensor(draw.normal(size=(4, 4, 3)), dtype=torch.float32)

    loaded = Tables(embeddings, CPU).load([matrix], [([0, 4], [0, 1, 2, 3], places(*lines), [])])
    batch = ty.Batch(torch.zeros(4, 0), {}, {}, loaded)
    together = [embedding(batch) for embedding in embeddings]
    sum((factor * part).sum() for factor, part in zip(factors, together)).backward()

    leaf = torch.tensor(matrix.reshape(-1, 3), requires_grad=True)
    single = [torch.nn.functional.embedding(torch.tensor(line), leaf) for line in lines]
    sum((factor * part).sum() for factor, part in zip(factors, single)).backward()
    for one, other in zip(together, single):
        assert torch.equal(one, other)
    assert leaf.grad is not None
    assert loaded.gradients()[0].reshape(-1) == pytest.approx(leaf.grad.reshape(-1).numpy(), abs=1e-6)


class Sides(ty.Module):
    """A module that returns a number."""

    def __init__(self, params: Any) -> None:
        super().__init__()
        self.scale = torch.nn.Linear(3, 1, bias=False)

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        assert list(batch) == ["z", "a"] and batch.rows == 2
        assert torch.equal(batch.numbers, torch.cat([batch["z"], batch["a"]], 1))
        return self.scale(batch.numbers)


def test_numbers_are_by_name_and_side_by_side_in_the_order_of_the_job() -> None:
    adapter = Adapter(Sides, None, json.dumps(SETTINGS))
    adapter.parameters(({"a": (1, 2), "z": (0, 1)}, []), 1)
    numbers = np.array([1, 2, 3, 4, 5, 6], dtype=np.float32)
    weights = np.array([100, 10, 1], dtype=np.float32)
    assert adapter.forward((2, numbers, [], []), [weights]).tolist() == [123, 456]


class Placed(two_tower.Net):
    """A module that notes where its parameters lie, and what they are."""

    seen: ClassVar[list[tuple[int, float]]] = []

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        if self.training:
            weight = next(self.mlp.parameters())
            self.seen.append((weight.data_ptr(), float(weight.detach().sum())))
        return super().forward(batch)


def test_each_step_brings_new_values_into_the_same_memory(job: Path) -> None:
    assert ty.run(Placed, ["train", str(job)], loss=torch.nn.BCEWithLogitsLoss(reduction="none")) == 0
    places, sums = zip(*Placed.seen)
    assert len(places) > 10 and len(set(places)) == 1
    assert len(set(sums)) == len(sums)


class Replacing(ty.Module):
    """A module that replaces its parameter and its moving average in each step."""

    def __init__(self, params: Any) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(1))
        self.seen: list[tuple[float, float]] = []

    def is_moving_average(self, name: str) -> bool:
        return name == "mean"

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        self.seen.append((float(self.scale.detach()), float(self.mean)))
        logits = batch["price"] * self.scale + self.mean
        self.scale.data = self.scale.data.clamp(max=2.0)
        self.mean = self.mean + 1
        return logits


def test_what_a_module_replaces_has_the_values_of_the_servers_in_the_next_step() -> None:
    adapter = Adapter(Replacing, torch.nn.BCEWithLogitsLoss(reduction="none"), json.dumps(SETTINGS))
    memory = [each.values for each in adapter.parameters(({"price": (0, 1)}, []), 1)]
    adapter._module.seen.clear()
    batch = (2, np.array([0.2, 0.8], dtype=np.float32), [], [])
    for scale, mean in [(3.0, 5.0), (4.0, 7.0)]:
        memory[0][:], memory[1][:] = scale, mean
        _, gradients = adapter.train(batch, memory, np.array([0, 1], dtype=np.float32), None)
        assert gradients[1].tolist() == [-1.0]
    assert adapter._module.seen == [(3.0, 5.0), (4.0, 7.0)]


FAULTS = """
import resource, numpy
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [numpy.ones(500_000, dtype=numpy.float32) for _ in range(30)]
    del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
from trainyard.torch.memory import keep_blocks
keep_blocks()
faults()
print(faults())
"""


@pytest.mark.parametrize(("choice", "least", "most"), [({}, 0, 1000), ({"MALLOC_TRIM_THRESHOLD_": "65536"}, 5000, 50_000)])
def test_blocks_are_kept_unless_the_environment_chooses_otherwise(choice: dict[str, str], least: int, most: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in CHOICES}
    faults = subprocess.check_output([sys.executable, "-c", FAULTS], env={**environment, **choice}, timeout=DEADLINE_SECS)
    # The arrays are 15,000 pages.
    assert least <= int(faults) <= most


class Normed(two_tower.Net):
    """A module with running statistics, and a constant."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.norm = torch.nn.BatchNorm1d(1)
        self.register_buffer("scale", torch.tensor([2.0, 3.0]))

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        return super().forward(batch) + self.norm(batch["price"]).squeeze(1) * self.scale[0]


def test_a_step_moves_the_statistics_of_batch_norm_on_the_servers() -> None:
    adapter = Adapter(Normed, torch.nn.BCEWithLogitsLoss(reduction="none"), json.dumps(SETTINGS))
    adapter.tables()
    described = {each.name: each for each in adapter.parameters(({"price": (0, 1)}, []), 1)}
    moving = {name for name, each in described.items() if each.moving}
    assert moving == {"norm/running_mean", "norm/running_var"}
    assert json.loads(described["norm/running_var"].initializer) == {"kind": "constant", "value": 1.0}
    assert "scale" not in described
    sizes = [SIZES[0], *(int(np.prod(each.shape)) for each in described.values())]
    values = drawn(sizes)
    values[-2][:] = 0.5
    values[-1][:] = 2.0
    gradients = adapter.train(batches.clicks([0.2, 0.8]), values, np.array([0, 1], dtype=np.float32), None)[1]
    # The momentum is 0.1. The mean of the batch is 0.5, and its unbiased variance 0.18.
    assert gradients[-2] == pytest.approx([0.0], abs=1e-6)
    assert gradients[-1] == pytest.approx([2.0 - (0.9 * 2.0 + 0.1 * 0.18)], abs=1e-6)


def _in_place(seen: Any) -> None:
    seen += 1


def _through_data(seen: Any) -> None:
    seen.data += 1


def _other_data(seen: Any) -> None:
    seen.data = seen.data + 1


class Counting(two_tower.Net):
    """A module that changes a constant."""

    def __init__(self, params: Any, change: Callable[[Any], None]) -> None:
        super().__init__(params)
        self.register_buffer("seen", torch.zeros(1))
        self.change = change

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        if self.training:
            self.change(self.seen)
        return super().forward(batch)


@pytest.mark.parametrize("change", [_in_place, _through_data, _other_data])
def test_a_constant_that_a_step_changes_is_refused_with_a_remedy(change: Callable[[Any], None]) -> None:
    loss = torch.nn.BCEWithLogitsLoss(reduction="none")
    adapter = Adapter(lambda params: Counting(params, change), loss, json.dumps(SETTINGS))
    adapter.parameters(({"price": (0, 1)}, []), 1)
    with pytest.raises(ValueError, match="changed the buffer `seen`.*is_moving_average"):
        adapter.train(batches.clicks([0.0, 0.0]), drawn(SIZES), np.zeros(2, dtype=np.float32), None)


class Annealed(two_tower.Net):
    """A module that changes numbers: one of its output, one of its own use and one that counts."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.heat = 2.0
        self.fixed = 0.5
        self.batches = 0

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        if self.training:
            self.heat *= 0.5
            self.batches += 1
        return super().forward(batch) / self.heat


def test_a_number_that_a_step_changes_is_told_once_with_both_values() -> None:
    loss = torch.nn.BCEWithLogitsLoss(reduction="none")
    adapter = Adapter(Annealed, loss, json.dumps(SETTINGS))
    adapter.parameters(({"price": (0, 1)}, []), 1)
    with pytest.warns(UserWarning) as told:
        for _ in range(2):
            adapter.train(batches.clicks([0.0, 0.0]), drawn(SIZES), np.zeros(2, dtype=np.float32), None)
    found = [str(each.message) for each in told if "the number" in str(each.message)]
    assert len(found) == 1 and "`heat` from 2.0 to 1.0" in found[0], found


def test_batch_norm_trains_on_a_cluster_and_predicts_with_its_statistics(job: Path) -> None:
    program = job.parent / "normed.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import torch, trainyard.torch as ty\n"
        "from test_torch import Normed\n"
        "if __name__ == '__main__':\n"
        "    ty.main(Normed, loss=torch.nn.BCEWithLogitsLoss(reduction='none'))\n"
    )
    ended = ran("up", str(job), "--cluster", "local:ps=1,worker=1", program=program)
    assert ended.returncode == 0, ended.stderr
    # With the initial statistics, mean 0 and variance 1, the module would be another one.
    assert metrics(ended.stdout)["auc"] > 0.9


class Elsewhere(ty.Module):
    """A module that uses all that a batch has."""

    def __init__(self, params: Any) -> None:
        super().__init__()
        self.user = ty.Embedding("user_id", 3)
        self.item = ty.Embedding("item_id", 3)
        self.history = ty.Embedding("history", 3, table="item_id", combiner=None)
        self.mean = ty.Embedding("history", 3, table="mean")
        self.norm = torch.nn.BatchNorm1d(13)
        self.logit = torch.nn.Linear(13, 1)
        self.days = torch.nn.Embedding(7, 1)

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        vectors, mask = self.history(batch)
        past = (vectors * mask.unsqueeze(2)).sum(1)
        parts = [self.user(batch), self.item(batch), past, self.mean(batch), batch["price"]]
        return self.logit(self.norm(torch.cat(parts, 1))) + self.days(batch["day"])

    def metrics(self, logits: torch.Tensor, labels: torch.Tensor) -> Any:
        return {"distance": trainyard.metrics.mean_absolute_error(labels, logits)}


def results_on(device: str, loss: Any) -> list[Any]:
    """Returns what steps, an evaluation and a prediction of a module return on a device."""
    adapter = Adapter(lambda params: Elsewhere(params).to(device), loss, json.dumps(SETTINGS))
    described = adapter.parameters(({"price": (0, 1)}, ["day"]), 1)
    values = drawn([7 * 3, *(int(np.prod(each.shape)) for each in described)])
    values[-1] = np.abs(values[-1])
    copied = lambda: [value.copy() for value in values]
    history = ids([3, 2, 1], [0, 2, 3])
    weighted = ids([5, 4, 5], [0, 2, 3], [0.5, 2.0, 1.0])
    lookups = ([0, 1, 4], [0, 1], places([0, 0], [1, 2]), [(2, history), (3, weighted)])
    batch = (2, np.array([0.2, 0.9], dtype=np.float32), [lookups], [ids([6, 2])])
    labels = np.array([0, 1], dtype=np.float32)
    if adapter.has_loss:
        found = [adapter.train(batch, copied(), labels, np.array([1.0, 3.0], dtype=np.float32))]
    else:
        found = [adapter.forward(batch, copied()).copy(), adapter.backward(np.array([0.7, -0.4], dtype=np.float32))]
    return [*found, adapter.evaluate(batch, copied(), labels, None, adapter.metrics()), adapter.predict(batch, copied())]


@pytest.mark.parametrize("loss", [None, torch.nn.BCEWithLogitsLoss(reduction="none")])
def test_a_module_on_another_device_has_the_results_of_the_cpu(loss: Any) -> None:
    with other_device.OtherDevice():
        elsewhere = results_on(other_device.NAME, loss)
    here = results_on("cpu", loss)
    flat = [torch.utils._pytree.tree_flatten(each)[0] for each in (elsewhere, here)]
    assert len(flat[0]) == len(flat[1])
    for one, other in zip(*flat, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


class Bare(ty.Module):
    """A module of embeddings alone."""

    def __init__(self, params: Any) -> None:
        super().__init__()
        self.user = ty.Embedding("user_id", 1)

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        return self.user(batch)


def test_embeddings_alone_move_with_their_module() -> None:
    lookups = ([0], [0], places([1, 0]), [])
    batch = (2, np.zeros(0, dtype=np.float32), [lookups], [])
    with other_device.OtherDevice():
        adapter = Adapter(lambda params: Bare(params).to(other_device.NAME), None, json.dumps(SETTINGS))
        assert adapter.parameters(({}, []), 1) == []
        logits = adapter.forward(batch, [np.array([2.0, 3.0, 0.0], dtype=np.float32)])
        assert isinstance(adapter._logits, torch.Tensor) and adapter._logits.device.type == other_device.NAME
    assert logits.tolist() == [3.0, 2.0]


def test_a_module_on_two_devices_is_refused() -> None:
    def parted(params: Any) -> ty.Module:
        module = Elsewhere(params)
        module.logit.to(other_device.NAME)
        return module

    with other_device.OtherDevice(), pytest.raises(ValueError, match="on one device, given .* on cpu, meta"):
        Adapter(parted, None, json.dumps(SETTINGS))


def test_a_module_that_was_moved_trains_on_processes(job: Path) -> None:
    program = job.parent / "moved.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import torch, two_tower, trainyard.torch as ty\n"
        "def build(params):\n"
        "    return two_tower.Net(params).to('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "if __name__ == '__main__':\n"
        "    ty.main(build, loss=torch.nn.BCEWithLogitsLoss(reduction='none'))\n"
    )
    ended = ran("train", str(job), program=program)
    assert ended.returncode == 0, ended.stderr
    assert metrics(ended.stdout)["auc"] > 0.9


class Twice(two_tower.Net):
    """A module that looks a feature up twice in one table."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.again = ty.Embedding("user_id", 4)


def test_a_second_lookup_of_a_feature_in_one_table_is_refused(job: Path, capfd: Any) -> None:
    assert ty.run(Twice, ["train", str(job)]) == 78
    assert "look the feature up once, and use the vectors twice" in capfd.readouterr().err


def test_logits_of_another_width_are_refused_before_training() -> None:
    adapter = Adapter(two_tower.Net, None, json.dumps(SETTINGS))
    with pytest.raises(ValueError, match=r"shape \[2, 3\], as the label needs, given \[2\]"):
        adapter.parameters(({"price": (0, 1)}, []), 3)


def test_the_command_of_the_package_refuses_the_job_of_a_module(job: Path) -> None:
    with pytest.raises(trainyard.JobError):
        trainyard.train(job)


def test_a_last_batch_of_one_record_names_the_key_that_batch_norm_needs(tmp_path: Path) -> None:
    class Normal(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(1)
            self.out = torch.nn.Linear(1, 1)

        def forward(self, batch: ty.Batch) -> torch.Tensor:
            return self.out(self.norm(batch["price"]))

    job = clicks.write(tmp_path, 201)
    with pytest.raises(trainyard.JobError, match="batch of one record.*input.train.batch_size"):
        trainyard.train(job, runner=program(Normal, None, []))
    job["input"]["train"]["batch_size"] = 99
    job["train"]["max_steps"] = 5
    assert trainyard.train(job, model_dir=str(tmp_path / "other"), runner=program(Normal, None, []))["global_step"] == 5
