"""Jobs of several labels with modules of PyTorch: outputs, losses, metrics and predictions by the names of the tasks."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEADLINE_SECS, free_ports, ran

torch = pytest.importorskip("torch", reason="torch is not installed")

import clicks  # noqa: E402
import two_tasks  # noqa: E402

import trainyard  # noqa: E402
import trainyard.numpy as tn  # noqa: E402
import trainyard.torch as ty  # noqa: E402
from trainyard import toml  # noqa: E402
from trainyard.torch.main import program  # noqa: E402

F = torch.nn.functional
LOSSES = {
    "click": torch.nn.BCEWithLogitsLoss(reduction="none"),
    "spent": torch.nn.MSELoss(reduction="none"),
    "size": torch.nn.CrossEntropyLoss(reduction="none"),
}


def of_all(outputs: Mapping[str, Any], batch: ty.LabelledBatch) -> Any:
    """The same losses as one function of all outputs."""
    click, spent = batch.is_labelled["click"], batch.is_labelled["spent"]
    weights = batch.weights["spent"][spent] if batch.weights is not None else torch.ones(int(spent.sum()))
    errors = (outputs["spent"] - batch.labels["spent"])[spent].squeeze(1) ** 2
    return (
        F.binary_cross_entropy_with_logits(outputs["click"][click], batch.labels["click"][click])
        + 0.5 * (errors * weights).sum() / len(errors)
        + F.cross_entropy(outputs["size"], batch.labels["size"])
    )


def trained(folder: Path, loss: Any, is_weighted: bool = False, build: Any = two_tasks.Net) -> dict[str, float]:
    """Trains a module, and returns the metrics of its evaluation."""
    job = two_tasks.write(folder, is_weighted)
    if callable(loss):
        # A loss of all outputs weighs the tasks itself.
        del job["model"]["task"][1]["weight"]
    scores: dict[str, float] = trainyard.train(job, runner=program(build, loss, ()), quiet=True)["eval"]
    return {name: value for name, value in scores.items() if name not in ("loss", "average_loss")}


def test_tasks_have_metrics_by_their_names(folder: Path) -> None:
    scores = trained(folder, None)
    assert scores["click/auc"] > 0.9 and scores["size/accuracy"] > 0.7 and scores["spent/average_loss"] < 0.1
    assert 0 < scores["spent_error"] < 0.3


def test_metrics_are_those_of_all_records_that_have_the_label(folder: Path) -> None:
    job = two_tasks.write(folder, is_weighted=True)
    runner = program(two_tasks.Net, None, ())
    scores = trainyard.train(job, runner=runner, quiet=True)["eval"]
    predicted = list(trainyard.predict(job, runner=runner, quiet=True))
    records = two_tasks.rows(200, 2)
    spent = [
        (abs(row["spent/predictions"][0] - float(record["spent"])), float(record["w"]))
        for row, record in zip(predicted, records, strict=True)
        if record["spent"]
    ]
    errors, weights = np.array(spent).T
    assert scores["spent_error"] == pytest.approx((errors * weights).sum() / weights.sum(), rel=1e-4)
    assert scores["spent/average_loss"] == pytest.approx((errors**2 * weights).sum() / weights.sum(), rel=1e-4)
    clicked = [
        (row["click/logits"][0], int(record["clicked"])) for row, record in zip(predicted, records, strict=True) if record["clicked"]
    ]
    pairs = [(one > other) + (one == other) / 2 for one, label in clicked for other, of_other in clicked if label > of_other]
    assert scores["click/auc_exact"] == pytest.approx(np.mean(pairs), abs=1e-6)


def test_predictions_have_each_output_by_its_name(folder: Path) -> None:
    job = two_tasks.write(folder)
    runner = program(two_tasks.Net, None, ())
    trainyard.train(job, runner=runner, quiet=True)
    row, record = next(trainyard.predict(job, runner=runner, quiet=True)), two_tasks.rows(1, 2)[0]
    assert sum(row["click/probabilities"]) == pytest.approx(1) and len(row["spent/predictions"]) == 1
    assert len(row["size/probabilities"]) == 3 and row["size/classes"][0] in two_tasks.KINDS
    assert row["is_expensive"] == [int(float(record["price"]) > 0.5)]
    (vector,) = trainyard.lookup(job["model_dir"], "user/embedding_weights", [trainyard.fingerprint64(record["user"])])
    assert row["vector"] == pytest.approx(vector.tolist())
    # A module of the checkpoint returns the same.
    module = ty.load(job["model_dir"], two_tasks.Net)
    ids = torch.from_numpy(trainyard.fingerprint64([record["user"]]).view(np.int64))
    outputs = module({"user": ids, "price": torch.tensor([float(record["price"])])})
    assert outputs["click"].tolist() == pytest.approx(row["click/logits"], abs=1e-5)
    assert outputs["size"][0].tolist() == pytest.approx(row["size/logits"], abs=1e-5)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("loss", [LOSSES, of_all])
def test_losses_of_tasks_and_one_of_all_train_as_the_heads_do(loss: Any, is_weighted: bool, folder: Path) -> None:
    (folder / "heads").mkdir()
    (folder / "own").mkdir()
    expected = trained(folder / "heads", None, is_weighted)
    assert trained(folder / "own", loss, is_weighted) == pytest.approx(expected, rel=2e-3, abs=2e-4)


def test_a_label_that_is_missing_is_nan_or_no_class(folder: Path) -> None:
    job = two_tasks.write(folder)
    lines = (folder / "train.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    # The third label is missing where there is a click.
    changed = [cells[0], *([*row[:4], "" if row[2] else row[4], row[5]] for row in cells[1:] if row[2] or row[3])]
    (folder / "train.csv").write_text("\n".join(",".join(row) for row in changed) + "\n")
    seen: dict[str, Any] = {}

    def loss(outputs: Mapping[str, Any], batch: ty.LabelledBatch) -> Any:
        seen.update(batch=batch, shapes={name: list(each.shape) for name, each in batch.labels.items()})
        return F.cross_entropy(outputs["size"], batch.labels["size"])

    del job["model"]["task"][1]["weight"]
    job["train"]["max_steps"] = 1
    trainyard.train(job, runner=program(two_tasks.Net, loss, ()), quiet=True)
    batch = seen["batch"]
    assert seen["shapes"] == {"click": [50], "spent": [50, 1], "size": [50]}
    assert torch.equal(batch.labels["click"].isnan(), ~batch.is_labelled["click"])
    assert torch.equal(batch.labels["size"] == -100, batch.is_labelled["click"])
    assert batch.weights is None and list(batch) == ["price"]


def failing(folder: Path, build: Any, loss: Any = None, is_weighted: bool = False, **task: Any) -> str:
    """Returns the message of a job that fails."""
    job = two_tasks.write(folder, is_weighted)
    job["model"]["task"][1] |= task
    with pytest.raises(trainyard.JobError) as failure:
        trainyard.train(job, runner=program(build, loss, ()), quiet=True)
    return failure.value.messages


def returning(change: Callable[[dict[str, Any]], Any]) -> Any:
    """Returns a module whose outputs are changed."""

    class Changed(two_tasks.Net):
        def forward(self, batch: ty.Batch) -> Any:
            return change(super().forward(batch))

    return Changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda outputs: outputs["click"], "a dictionary with the logits of each task, click, spent, size, given a Tensor"),
        (lambda outputs: {"click": outputs["click"], "x": outputs["size"]}, "has click, x, and lacks spent, size"),
        (lambda outputs: {**outputs, "size": outputs["size"][:, :2]}, r"the logits `size` of shape [2, 3], as the label needs, given [2, 2]"),
        (lambda outputs: {**outputs, "vector": outputs["vector"].sum()}, "the output `vector` of forward must be a tensor of [2, ...]"),
        (lambda outputs: {**outputs, 3: outputs["vector"]}, "the outputs of forward must have texts as names, given 3"),
        (lambda outputs: {**outputs, "size": outputs["size"].long()}, "the logits `size` as floats, given torch.int64"),
        (lambda outputs: {**outputs, "more": [1, 2]}, "the output `more` of forward must be a tensor of [2, ...], given list"),
    ],
)
def test_outputs_of_another_form_are_refused(change: Any, message: str, folder: Path) -> None:
    assert message in failing(folder, returning(change))


@pytest.mark.parametrize("loss", [None, LOSSES])
@pytest.mark.parametrize("constant", [lambda logits: logits.detach(), lambda logits: logits.detach().round()])
def test_logits_that_nothing_is_learned_from_are_refused_beside_others(constant: Any, loss: Any, folder: Path) -> None:
    build = returning(lambda outputs: {**outputs, "spent": constant(outputs["spent"])})
    assert "the logits of the task `spent` have no gradient" in failing(folder, build, loss)


@pytest.mark.parametrize("loss", [None, LOSSES])
def test_an_output_with_the_name_of_a_prediction_is_refused_before_training(loss: Any, folder: Path) -> None:
    build = returning(lambda outputs: {**outputs, "click/logits": outputs["vector"]})
    assert "output `click/logits` of forward has the name of a prediction of the head, which are click/" in failing(folder, build, loss)
    assert not (folder / "model" / "checkpoints").exists()


@pytest.mark.parametrize("loss", [None, LOSSES, of_all])
@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_logits_of_other_floats_train_as_those_of_32_bits(kind: Any, loss: Any, folder: Path) -> None:
    def cast(outputs: dict[str, Any]) -> dict[str, Any]:
        return {name: each.to(kind) if each.is_floating_point() else each for name, each in outputs.items()}

    if callable(loss) and kind is not torch.float64:
        return  # A loss of all outputs receives what forward returned.
    own = (lambda outputs, batch: of_all({name: each.float() for name, each in outputs.items()}, batch)) if callable(loss) else loss
    for name in ("plain", "cast"):
        (folder / name).mkdir()
    expected = trained(folder / "plain", loss)
    tolerance = 1e-3 if kind is torch.float64 else 0.05
    assert trained(folder / "cast", own, build=returning(cast)) == pytest.approx(expected, abs=tolerance)


def test_losses_that_do_not_fit_the_tasks_are_refused(folder: Path) -> None:
    two = {name: LOSSES[name] for name in ("click", "spent")}
    assert "must be those of the tasks of the job, click, spent, size, given click, spent" in failing(folder, two_tasks.Net, two)
    assert "the weight 0.5 of the task `spent` has no effect" in failing(folder, two_tasks.Net, of_all)

    def blind(outputs: Mapping[str, Any], batch: ty.LabelledBatch) -> Any:
        return F.cross_entropy(outputs["size"], batch.labels["size"])

    assert "the loss does not read them: multiply by batch.weights[task]" in failing(
        folder, two_tasks.Net, blind, is_weighted=True, weight=1.0
    )


def test_losses_by_name_need_tasks(folder: Path) -> None:
    class One(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(1, 1)

        def forward(self, batch: ty.Batch) -> Any:
            return self.linear(batch["price"])

    with pytest.raises(trainyard.JobError, match="losses by name must be those of the tasks of the job, which has one label"):
        trainyard.train(clicks.write(folder), runner=program(One, LOSSES, ()), quiet=True)


def test_a_module_of_numpy_has_one_label(folder: Path) -> None:
    class Net(tn.Model):
        def __init__(self, params: Any) -> None:
            super().__init__([], [tn.Variable("bias", [1])])

    with pytest.raises(trainyard.JobError, match="a job of several tasks has a module of PyTorch"):
        trainyard.train(two_tasks.write(folder), runner=tn.program(Net), quiet=True)


@pytest.mark.parametrize("loss", [None, torch.nn.BCEWithLogitsLoss(reduction="none")])
@pytest.mark.parametrize("kind", [torch.float64, torch.float16])
def test_the_logits_of_one_label_may_be_other_floats(kind: Any, loss: Any, folder: Path) -> None:
    class One(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.user = ty.Embedding("user_id", 1)

        def forward(self, batch: ty.Batch) -> Any:
            return self.user(batch).squeeze(1).to(kind)

    job = clicks.write(folder)
    runner = program(One, loss, ())
    assert trainyard.train(job, runner=runner, quiet=True)["eval"]["auc"] > 0.6
    assert len(list(trainyard.predict(job, runner=runner, quiet=True))) > 0


@pytest.mark.parametrize("loss", [None, torch.nn.BCEWithLogitsLoss(reduction="none")])
def test_a_loss_that_is_nan_in_each_batch_is_told_as_such(loss: Any, folder: Path) -> None:
    class One(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.user = ty.Embedding("user_id", 1)

        def forward(self, batch: ty.Batch) -> Any:
            return self.user(batch).squeeze(1) * float("nan")

    job = clicks.write(folder)
    job["train"]["max_steps"] = 5000
    job["input"]["train"]["epochs"] = None
    with pytest.raises(trainyard.JobError, match="is quarantined: .*, the last one because its loss is NaN|its loss is NaN"):
        trainyard.train(job, runner=program(One, loss, ()), quiet=True)


def test_a_module_of_one_label_has_outputs_of_its_own(folder: Path) -> None:
    class One(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.user = ty.Embedding("user_id", 3)
            self.linear = torch.nn.Linear(4, 1)

        def forward(self, batch: ty.Batch) -> Any:
            user = self.user(batch)
            return {"vector": user, "logits": self.linear(torch.cat([user, batch["price"]], 1)).squeeze(1)}

    job = clicks.write(folder)
    runner = program(One, torch.nn.BCEWithLogitsLoss(reduction="none"), ())
    assert trainyard.train(job, runner=runner, quiet=True)["eval"]["auc"] > 0.6
    row = next(trainyard.predict(job, runner=runner, quiet=True))
    assert len(row["vector"]) == 3 and len(row["probabilities"]) == 2


def test_a_cluster_trains_tasks_and_a_server_answers_by_their_names(folder: Path) -> None:
    job = two_tasks.write(folder)
    Path("job.toml").write_text(toml.dumps(job))
    script = [sys.executable, two_tasks.__file__]
    ended = ran(*script, "up", "job.toml", "--cluster", "local:ps=2,worker=1", folder=folder)
    assert ended.returncode == 0, ended.stderr
    result = json.loads((folder / "model" / "eval" / "result.json").read_text())
    assert result["metrics"]["click/auc"] > 0.9, result
    (port,) = free_ports(1)
    server = subprocess.Popen(
        [*script, "serve", job["model_dir"], "--name", "tasks", "--listen", f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True
    )
    try:
        answer = answered(port, {"instances": [{"user": "u3", "price": 0.7}]}, server)
    finally:
        server.terminate()
        server.communicate(timeout=DEADLINE_SECS)
    (row,) = answer["predictions"]
    assert {"click/probabilities", "spent/predictions", "size/class_ids", "vector", "is_expensive"} <= row.keys(), answer


def answered(port: int, request: Any, server: subprocess.Popen[str]) -> Any:
    """Returns the answer of a server, once it answers."""
    deadline = time.monotonic() + DEADLINE_SECS
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECS)
            connection.request("POST", "/v1/models/tasks:predict", json.dumps(request))
            response = connection.getresponse()
            content = response.read()
            if response.status == 200:
                return json.loads(content)
            problem = content.decode()
        except OSError as error:
            problem = str(error)
        assert server.poll() is None and time.monotonic() < deadline, problem
        time.sleep(0.05)
