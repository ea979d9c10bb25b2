"""What a run prints, and what a quiet one tells in Python's ways."""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest

import trainyard

SETTINGS = ["train.max_steps=300"]
OTHER_TASKS = '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}'
"""A TF_CONFIG of which `train` warns, because it runs the whole job."""


class NoTqdm:
    """A finder of modules that has no tqdm."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name.partition(".")[0] == "tqdm":
            raise ModuleNotFoundError(name)


@pytest.fixture
def without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which tqdm is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tqdm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoTqdm(), *sys.meta_path])


def test_a_quiet_run_prints_nothing(iris: Path, folder: Path, capfd: Any) -> None:
    trainyard.train(iris, model_dir="model", settings=SETTINGS, quiet=True)
    trainyard.evaluate(iris, model_dir="model", quiet=True)
    assert len(list(trainyard.predict(iris, model_dir="model", quiet=True))) == 30
    trainyard.export(iris, "exports", model_dir="model", quiet=True)
    assert capfd.readouterr() == ("", "")


def test_a_run_after_a_quiet_one_prints_as_before(iris: Path, folder: Path, capfd: Any) -> None:
    trainyard.train(iris, model_dir="model", settings=SETTINGS, quiet=True)
    trainyard.train(iris, model_dir="other", settings=SETTINGS)
    printed = capfd.readouterr()
    assert "trained to step 300" in printed.out and "INFO" in printed.err


def test_a_quiet_run_warns_at_the_line_of_the_call(
    iris: Path, folder: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", OTHER_TASKS)
    with pytest.warns(trainyard.JobWarning, match=r"(?s)warning\[E1003\]: TF_CONFIG names other tasks.*help: ") as found:
        trainyard.train(iris, model_dir="model", settings=SETTINGS, quiet=True)
    assert {each.filename for each in found if issubclass(each.category, trainyard.JobWarning)} == {__file__}
    assert capfd.readouterr() == ("", "")


def test_a_warning_that_is_an_error_ends_the_run(iris: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", OTHER_TASKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", trainyard.JobWarning)
        with pytest.raises(trainyard.JobWarning, match="E1003"):
            trainyard.train(iris, model_dir="model", settings=["train.max_steps=100000000"], quiet=True)
    # The process goes on, and so does the training.
    assert trainyard.train(iris, model_dir="model", settings=SETTINGS)["global_step"] >= 300


def test_log_lines_of_a_quiet_run_are_those_of_logging(iris: Path, folder: Path, caplog: Any, capfd: Any) -> None:
    # A run of fewer lines comes first.
    trainyard.train(iris, model_dir="first", settings=SETTINGS, quiet=True)
    trainyard.evaluate(iris, model_dir="first", quiet=True)
    with caplog.at_level(logging.INFO, "trainyard"):
        trainyard.train(iris, model_dir="model", settings=SETTINGS, quiet=True)
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "trainyard"]
    assert any(level == "INFO" and "checkpoint saved step=300" in line for level, line in lines), lines
    assert capfd.readouterr().out == ""


def test_a_quiet_failure_is_the_exception_alone(folder: Path, capfd: Any) -> None:
    with pytest.raises(trainyard.JobError) as failure:
        trainyard.train("absent.toml", quiet=True)
    assert capfd.readouterr() == ("", "")
    error = failure.value
    assert (error.code, error.exit_code) == ("E1201", 66)
    assert "absent.toml" in error.message and error.messages.startswith(f"error[E1201]: {error.message}")


def test_an_error_says_what_failed_where_and_its_code(iris: Path, folder: Path) -> None:
    Path("job.toml").write_text(iris.read_text().replace("batch_size", "batch_sice"))
    line = next(place for place, text in enumerate(iris.read_text().splitlines(), 1) if "batch_size" in text)
    with pytest.raises(trainyard.JobError) as failure:
        trainyard.train("job.toml", quiet=True)
    error = failure.value
    assert error.code is not None and error.code.startswith("E1") and "batch_sice" in error.message
    assert error.place is not None and f"job.toml:{line}:" in error.place
    # As a pool of processes passes it on.
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.place) == (str(error), error.code, error.place)


def test_the_report_of_a_job_without_evaluation_has_none(iris: Path, folder: Path) -> None:
    job = {
        "model_dir": "model",
        "input": {
            "label": {"column": "petal_width"},
            "train": {"files": [str(iris.parent / "iris" / "iris_training.csv")], "batch_size": 30},
        },
        "feature": [{"column": "petal_length", "kind": "numeric"}],
        "model": {"kind": "linear_regressor"},
        "train": {"max_steps": 30},
    }
    report = trainyard.train(job, quiet=True)
    assert report["eval"] is None and report["global_step"] == 30


class Tqdm:
    """As much of tqdm as a bar needs."""

    bars: list[Tqdm] = []
    written: list[str] = []

    def __init__(self, total: int | None, initial: int, **_: Any) -> None:
        self.total, self.n, self.is_closed, self.postfix = total, initial, False, ""
        self.bars.append(self)

    def update(self, steps: int) -> None:
        assert steps >= 0
        self.n += steps

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self.postfix = text

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    @classmethod
    def write(cls, text: str, **_: Any) -> None:
        cls.written.append(text)


def test_progress_is_a_bar_of_tqdm(iris: Path, folder: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Tqdm))  # type: ignore[arg-type]
    monkeypatch.setenv("TF_CONFIG", OTHER_TASKS)
    trainyard.train(iris, model_dir="model", settings=SETTINGS, progress=True)
    (bar,) = Tqdm.bars
    assert (bar.total, bar.n, bar.is_closed) == (300, 300, True) and bar.postfix.startswith("loss 0.")
    assert len(Tqdm.written) == 1 and "warning[E1003]" in Tqdm.written[0]
    printed = capfd.readouterr()
    assert "trained to step 300" in printed.out and printed.err == ""
    # A training that goes on begins its bar where it begins.
    trainyard.train(iris, model_dir="model", settings=["train.max_steps=400"], progress=True, quiet=True)
    assert Tqdm.bars[1].n == 400 and capfd.readouterr() == ("", "")


def test_progress_without_tqdm_is_a_line(iris: Path, folder: Path, capsys: Any, without_tqdm: None) -> None:
    trainyard.train(iris, model_dir="model", settings=SETTINGS, progress=True, quiet=True)
    lines = capsys.readouterr().err.splitlines()
    assert "step 300 of 300 (100 %), " in lines[-1] and "\r" not in lines[-1]


def test_progress_on_a_terminal_is_one_line(
    iris: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, without_tqdm: None
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    trainyard.train(iris, model_dir="model", settings=SETTINGS, progress=True, quiet=True)
    written = terminal.getvalue()
    assert written.startswith("\rstep ") and written.endswith("\n") and written.count("\n") == 1


def caught() -> int:
    """Returns the signals that this process catches, whoever has set the handlers."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigCgt")]
    return int(line.split()[1], 16)


@pytest.mark.parametrize("quiet", [False, True])
def test_no_handler_of_a_signal_outlives_a_run(quiet: bool, iris: Path, folder: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        trainyard.train(iris, model_dir="warm", settings=["train.max_steps=1"], quiet=quiet)
        before = caught()
        trainyard.train(iris, model_dir="model", settings=SETTINGS, quiet=quiet)
        trainyard.evaluate(iris, model_dir="model", quiet=quiet)
        assert caught() == before
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
    finally:
        signal.signal(signal.SIGINT, handler)
