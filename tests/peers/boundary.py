"""Measures how much of a step of the ctr model in Python is PyTorch's, and how much the package's: `--batch-size N`.

One process trains, with one thread of PyTorch. All times are of the processor, of the thread that computes.
"""

import argparse
import statistics
import sys
import tempfile
import time

import torch
from torch import nn

import torch_task
import trainyard.torch as ty
from trainyard import toml
from trainyard.program import ModelProgram, this_program
from trainyard.torch import tables
from trainyard.torch.adapter import Adapter
from trainyard.torch.rows import looked_up_together

WARMUP_STEPS = 50


class Measured(Adapter):
    """An adapter that measures its steps."""

    def __init__(self, build, loss, job):
        super().__init__(build, lambda *arguments: self._timed(lambda: loss(*arguments)), job)
        self.steps = []
        self._of_torch = 0.0

    def train(self, *arguments):
        """Trains, and notes the milliseconds of the step, and those of PyTorch in it."""
        self._of_torch = 0.0
        begun = time.thread_time()
        found = super().train(*arguments)
        self.steps.append((1e3 * (time.thread_time() - begun), 1e3 * self._of_torch))
        if len(self.steps) == self.limit:
            told = list(zip(*self.steps[WARMUP_STEPS:]))
            whole, of_torch = (statistics.median(part) for part in told)
            print(f"a step {whole:.3f} ms, of which PyTorch {of_torch:.3f} ms: the package {1 - of_torch / whole:.1%}")
            sys.stdout.flush()
        return found

    def _trained(self, features, values):
        tables.looked_up_together = lambda *arguments: self._timed(lambda: looked_up_together(*arguments))
        batch = self._loaded_batch(features, values)
        self._set_training(True)
        return self._checked(self._timed(lambda: self._module(batch)), features[0])

    def _reduced(self, *arguments):
        return self._timed(lambda: super(Measured, self)._reduced(*arguments))

    def _descended(self, loss):
        self._timed(loss.backward)
        return float(loss.detach()), self._gradients()

    def _timed(self, call):
        begun = time.thread_time()
        found = call()
        self._of_torch += time.thread_time() - begun
        return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch-size", type=int, required=True)
    arguments.add_argument("--steps", type=int, default=600)
    given = arguments.parse_args()
    Measured.limit = given.steps
    with tempfile.TemporaryDirectory() as folder:
        job = torch_task.job(given.batch_size, folder)
        job["train"]["max_steps"] = given.steps
        path = f"{folder}/job.toml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(toml.dumps(job))
        loss = nn.BCEWithLogitsLoss(reduction="none")
        program = ModelProgram(this_program(), lambda text: Measured(torch_task.WideAndDeep, loss, text))
        raise SystemExit(program.run(["train", path, "--set", "run.intra_op_parallelism_threads=1"]).code)


if __name__ == "__main__":
    main()
