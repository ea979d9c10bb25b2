"""Callbacks and hooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import trainyard
import trainyard.data
import trainyard.estimator as tf_estimator
from trainyard.callbacks import Callbacks, role_of

SPECIES = ["setosa", "versicolor", "virginica"]
SETTINGS = ["train.max_steps=300", "run.save_checkpoints_steps=100"]


class Recorder(trainyard.Callback):
    """Remembers the events."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.steps: list[trainyard.Step] = []
        self.saved: list[int] = []
        self.scores: dict[int, float] = {}

    def begin(self) -> None:
        self.events.append("begin")

    def after_step(self, step: trainyard.Step) -> None:
        self.steps.append(step)

    def after_save(self, global_step: int, checkpoint: str) -> None:
        assert Path(checkpoint).is_dir()
        self.saved.append(global_step)

    def after_evaluation(self, global_step: int, name: str, metrics: Mapping[str, float]) -> None:
        assert name == "eval"
        self.scores[global_step] = metrics["accuracy"]

    def end(self) -> None:
        self.events.append("end")


def test_callbacks_receive_steps_checkpoints_and_evaluations(iris: Path, folder: Path) -> None:
    recorder = Recorder()
    report = trainyard.train(iris, model_dir="model", settings=SETTINGS, callbacks=[recorder])
    assert recorder.events == ["begin", "end"]
    assert [step.global_step for step in recorder.steps] == list(range(1, 301))
    assert recorder.steps[-1].loss < recorder.steps[0].loss
    assert recorder.saved[-3:] == [100, 200, 300]
    assert recorder.scores[300] == pytest.approx(report["eval"]["accuracy"])


def test_a_callback_ends_the_job(iris: Path, folder: Path) -> None:
    class Impatient(trainyard.Callback):
        def after_save(self, global_step: int, checkpoint: str) -> None:
            if global_step >= 100:
                self.request_end("a hundred steps are enough")

    settings = [*SETTINGS, "train.max_steps=100000000"]
    report = trainyard.train(iris, model_dir="model", settings=settings, callbacks=[Impatient()])
    assert 100 <= report["global_step"] < 100_000_000
    assert report["ended_early"] == "a hundred steps are enough"
    assert "auc" in report["eval"] or "accuracy" in report["eval"]


def test_a_callback_knows_its_role_and_requests_the_end_only_where_it_can(iris: Path, folder: Path) -> None:
    roles = []

    class Asking(trainyard.Callback):
        def begin(self) -> None:
            roles.append(self.role)

    asking = Asking()
    trainyard.train(iris, model_dir="model", settings=["train.max_steps=10"], callbacks=[asking])
    for role in ("chief", "worker", "ps", "evaluator"):
        Callbacks([asking]).begin(role)
        if role in ("chief", "evaluator"):
            asking.request_end("enough")
            continue
        with pytest.raises(RuntimeError, match=f"of the task {role} cannot end the job.*train.early_stopping"):
            asking.request_end("enough")
    assert roles == ["alone", "chief", "worker", "ps", "evaluator"]


@pytest.mark.parametrize(
    ("arguments", "tasks", "role"),
    [
        (["train", "job.toml"], None, "alone"),
        (["run", "--job", "job.toml"], None, "alone"),
        (["run", "--role", "worker", "--job", "job.toml"], None, "worker"),
        (["run", "--role=ps"], ("chief", 2), "ps"),
        (["run", "--job", "job.toml"], ("evaluator", 2), "evaluator"),
        (["run", "--job", "job.toml"], ("chief", 2), "chief"),
        (["run", "--job", "job.toml"], ("chief", 1), "alone"),
    ],
)
def test_the_role_is_that_of_the_command_line_or_of_tf_config(
    arguments: list[str], tasks: tuple[str, int] | None, role: str
) -> None:
    config = None
    if tasks is not None:
        cluster = {"chief": ["a:1"], "worker": ["a:2"] * (tasks[1] - 1)}
        config = json.dumps({"cluster": cluster, "task": {"type": tasks[0], "index": 0}})
    assert role_of(arguments, config) == role


@pytest.mark.parametrize("event", ["after_step", "after_save", "after_evaluation"])
def test_an_exception_of_a_callback_ends_the_task(event: str, iris: Path, folder: Path, capfd: Any) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("a mistake of the user")

    failing = type("Failing", (trainyard.Callback,), {event: fail})
    with pytest.raises(trainyard.JobError) as failure:
        trainyard.train(iris, model_dir="model", settings=SETTINGS, callbacks=[failing()])
    assert failure.value.exit_code == 65
    errors = capfd.readouterr().err
    assert "E5003" in errors and "LookupError" in errors and "a mistake of the user" in errors


def test_what_is_no_callback_is_refused(iris: Path, folder: Path) -> None:
    with pytest.raises(TypeError, match="must be a trainyard.Callback, given a int"):
        trainyard.train(iris, callbacks=[3])  # type: ignore[list-item]


class Losses(tf_estimator.SessionRunHook):
    """A hook of Estimator's form."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session: None, coord: None) -> None:
        self.calls.append("after_create_session")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.losses.append(run_values.results["loss"])

    def end(self, session: None) -> None:
        self.calls.append("end")


class Listener(tf_estimator.CheckpointSaverListener):
    """A listener of Estimator's form."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def after_save(self, session: None, global_step_value: int) -> None:
        self.steps.append(global_step_value)


def test_hooks_and_listeners_of_estimators_are_called(iris: Path, folder: Path) -> None:
    columns = [tf_estimator.feature_column.numeric_column("petal_length")]
    config = tf_estimator.RunConfig(tf_random_seed=7, save_checkpoints_steps=50)
    estimator = tf_estimator.DNNClassifier([4], columns, "model", label_vocabulary=SPECIES, config=config)

    def reader(name: str) -> Any:
        return lambda: trainyard.data.csv(iris.parent / "iris" / name, "species", batch_size=32)

    losses = Losses()
    listener = Listener()
    evaluated = Recorder()
    stop = tf_estimator.StopAtStepHook(last_step=150)
    train = tf_estimator.TrainSpec(
        reader("iris_training.csv"), max_steps=100_000_000, hooks=[losses, stop], saving_listeners=[listener]
    )
    test = tf_estimator.EvalSpec(reader("iris_test.csv"), steps=None, hooks=[evaluated], throttle_secs=0)
    done = tf_estimator.train_and_evaluate(estimator, train, test)
    assert done is not None and done[0]["global_step"] >= 150
    assert losses.calls == ["begin", "after_create_session", "end"]
    assert len(losses.losses) == done[0]["global_step"]
    assert 50 in listener.steps and listener.steps[-1] == done[0]["global_step"]
    assert max(evaluated.scores) == done[0]["global_step"]
    result = json.loads(Path("model/eval/result.json").read_text())
    assert result["global_step"] == done[0]["global_step"]
