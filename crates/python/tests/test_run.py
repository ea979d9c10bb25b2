"""Runs of a job from Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import ran

import trainyard


def test_a_process_runs_several_commands(iris: Path, folder: Path) -> None:
    report = trainyard.train(iris, model_dir="model", settings=["train.max_steps=300"])
    assert report["global_step"] == 300
    scores = trainyard.evaluate(iris, model_dir="model")
    assert scores == pytest.approx(report["eval"])
    rows = list(trainyard.predict(iris, model_dir="model"))
    assert len(rows) == 30
    assert sum(rows[0]["probabilities"]) == pytest.approx(1, abs=1e-5)
    trainyard.export(iris, "exports", model_dir="model")
    assert list(Path("exports").glob("*/model.safetensors"))


def test_a_dictionary_is_a_job(iris: Path, folder: Path) -> None:
    data = iris.parent / "iris"
    job = {
        "model_dir": "model",
        "input": {
            "label": {"column": "species", "vocabulary": ["setosa", "versicolor", "virginica"]},
            "train": {"files": [str(data / "iris_training.csv")], "batch_size": 30},
            "eval": {"files": [str(data / "iris_test.csv")]},
        },
        "feature": [
            {"column": column, "kind": "numeric"}
            for column in ["sepal_length", "sepal_width", "petal_length", "petal_width"]
        ],
        "model": {"kind": "dnn_classifier", "hidden_units": [10]},
        "train": {"max_steps": 200},
    }
    assert trainyard.train(job)["eval"]["accuracy"] > 0.8


def test_a_failure_is_an_exception_with_exit_code_message_and_place(iris: Path, folder: Path) -> None:
    with pytest.raises(trainyard.JobError, match="exit code 66: error\\[E1201\\]: .*absent.toml") as failure:
        trainyard.train("absent.toml")
    assert failure.value.exit_code == 66
    Path("job.toml").write_text(iris.read_text().replace("batch_size", "batch_sice"))
    with pytest.raises(trainyard.JobError, match="(?s)batch_sice.*job.toml:[0-9]+:[0-9]+") as failure:
        trainyard.train("job.toml")
    assert failure.value.messages in str(failure.value) + "\n"


def test_a_wrong_setting_is_the_message_of_the_exception(iris: Path, folder: Path) -> None:
    with pytest.raises(trainyard.JobError, match="max_stepz"):
        trainyard.train(iris, settings=["train.max_stepz=3"])


def test_a_run_that_adds_no_step_reports_the_evaluation_of_the_last(iris: Path, folder: Path) -> None:
    settings = ["train.max_steps=200"]
    first = trainyard.train(iris, model_dir="model", settings=settings)
    again = trainyard.train(iris, model_dir="model", settings=settings)
    assert again["global_step"] == 200
    assert again["eval"] == pytest.approx(first["eval"]) and "accuracy" in again["eval"]


def test_a_fork_of_a_process_that_has_run_a_job_is_told_not_to(iris: Path, folder: Path) -> None:
    script = (
        "import os, trainyard\n"
        f"trainyard.train({str(iris)!r}, model_dir='model', settings=['train.max_steps=10'])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    trainyard.evaluate('job.toml')\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ended = ran(sys.executable, "-c", script, folder=folder)
    assert ended.returncode == 1
    assert "which has run a job" in ended.stderr and "spawn" in ended.stderr


def test_the_import_is_quick_and_brings_neither_numpy_nor_torch(folder: Path) -> None:
    script = (
        "import sys, time; begun = time.process_time(); import trainyard; "
        "print(time.process_time() - begun, 'numpy' in sys.modules, 'torch' in sys.modules)"
    )
    # Seconds of this process: others may use the cores.
    seconds = []
    for _ in range(3):
        took, numpy, torch = ran(sys.executable, "-c", script, folder=folder).stdout.split()
        seconds.append(float(took))
        assert (numpy, torch) == ("False", "False")
    assert min(seconds) < 0.15
