"""The command that the package installs, and `python -m trainyard`."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEADLINE_SECS, ran

SCRIPT = [str(Path(sys.executable).with_name("trainyard"))]
MODULE = [sys.executable, "-m", "trainyard"]


@pytest.mark.parametrize("command", [SCRIPT, MODULE])
def test_a_job_trains(command: list[str], iris: Path, folder: Path) -> None:
    ended = ran(*command, "train", str(iris), "--model-dir", "model", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert "trained to step 1000" in ended.stdout


@pytest.mark.parametrize("command", [SCRIPT, MODULE])
def test_a_cluster_consists_of_processes_of_the_same_package(command: list[str], iris: Path, folder: Path) -> None:
    ended = ran(*command, "up", str(iris), "--cluster", "local:ps=1,worker=1", "--model-dir", "model", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert "trained to step 1000" in ended.stdout
    assert "[ps:0]" in ended.stderr and "[worker:0]" in ended.stderr


def test_the_exit_code_is_that_of_the_message(iris: Path, folder: Path) -> None:
    absent = ran(*SCRIPT, "train", "absent.toml", folder=folder)
    assert absent.returncode == 66 and "E1201" in absent.stderr
    usage = ran(*SCRIPT, "train", folder=folder)
    assert usage.returncode == 64 and "Usage: trainyard train" in usage.stderr


def test_an_interrupt_ends_training_with_a_checkpoint(iris: Path, folder: Path) -> None:
    endless = [*SCRIPT, "train", str(iris), "--model-dir", "model", "--set", "train.max_steps=1000000000"]
    process = subprocess.Popen(endless, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + DEADLINE_SECS
    assert process.stderr is not None
    for line in process.stderr:
        assert time.monotonic() < deadline
        if "checkpoint saved step=250" in line:
            break
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    output, errors = process.communicate(timeout=DEADLINE_SECS)
    assert process.returncode == 0, errors
    assert "stopped at step" in output and "checkpoint saved" in errors
    assert "KeyboardInterrupt" not in errors
    assert time.monotonic() - begun < 10
