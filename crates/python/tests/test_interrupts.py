"""Runs that a signal ends, in a process that goes on after them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import DEADLINE_SECS

SCRIPT = """
import os, signal, sys, time
import numpy as np
import clicks, trainyard, trainyard.numpy as tn

class Slow(tn.Model):
    calls = 0

    def __init__(self, params):
        self.price = tn.Variable("price", [1])
        super().__init__([], [self.price])

    def logits(self, batch, values):
        # Batches of training have more rows than those of the evaluation beside it.
        Slow.calls += command != "train_and_evaluate" or len(batch["price"]) == 1
        # The first calls are with batches of zeros.
        if Slow.calls == 10:
            print("begun", flush=True)
        time.sleep(0.02)
        return batch["price"] @ values[self.price]

    def gradients(self, batch, values, delta):
        return {"price": batch["price"].T @ delta}

command = sys.argv[1]
job = clicks.write(__import__("pathlib").Path("."))
job["input"]["eval"]["batch_size"] = 1
program = tn.program(Slow)
if command in ("evaluate", "predict"):
    Slow.calls = 10
    trainyard.train(job, settings=["train.max_steps=1", "eval.steps=1"], runner=program)
# Whoever starts the tests in the background may have them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
job["train"]["max_steps"] = 1_000_000
del job["run"]["save_checkpoints_steps"]
often = ["run.save_checkpoints_steps=5", "eval.start_delay_secs=0", "eval.throttle_secs=0"]
runs = {
    "train_and_evaluate": lambda: trainyard.train(job, settings=often, runner=program),
    "train": lambda: trainyard.train(job, runner=program),
    "evaluate": lambda: trainyard.evaluate(job, runner=program),
    "predict": lambda: list(trainyard.predict(job, runner=program)),
}
for number in (1, 2):
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    Slow.calls = 0
    try:
        runs[command]()
        print("ended by itself", flush=True)
    except (KeyboardInterrupt, SystemExit) as raised:
        print(type(raised).__name__, flush=True)
    assert handlers == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    # As ipykernel does between two cells.
    signal.signal(signal.SIGINT, signal.default_int_handler)
print("the process goes on", flush=True)
"""
RAISED = {signal.SIGINT: "KeyboardInterrupt", signal.SIGTERM: "SystemExit"}


@pytest.mark.parametrize("number", list(RAISED))
@pytest.mark.parametrize("command", ["train", "train_and_evaluate", "evaluate", "predict"])
def test_a_signal_ends_each_run_of_a_process(command: str, number: signal.Signals, folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, command],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    lines = (line.strip() for line in process.stdout if "trained to" not in line)
    # A process that does not end closes no pipe.
    deadline = threading.Timer(DEADLINE_SECS, process.kill)
    deadline.start()
    seconds = []
    ends = []
    for line in lines:
        if line == "begun":
            process.send_signal(number)
            begun = time.monotonic()
        elif line in (*RAISED.values(), "ended by itself"):
            seconds.append(time.monotonic() - begun)
            ends.append(line)
    _, errors = process.communicate(timeout=DEADLINE_SECS)
    deadline.cancel()
    assert process.returncode == 0, errors
    assert ends == [RAISED[number]] * 2, errors
    # Each ends within 0.3 s on an idle machine. An evaluation alone would take 12 s.
    assert max(seconds) < 8, seconds
    if command.startswith("train"):
        steps = [int(path.name.removeprefix("model.ckpt-")) for path in Path("model").glob("model.ckpt-*")]
        assert max(steps) > 1, "an interrupted training writes a checkpoint"
