"""The program of a module: every command and every role."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainyard import _native
from trainyard.program import refuse_fork, this_program
from trainyard.torch.adapter import Adapter, Loss
from trainyard.torch.module import Module

Build = Callable[[Mapping[str, Any]], Module]


def main(module: Build, *, loss: Loss | None = None) -> None:
    """Runs the command line of this process for a module, and exits with its code.

    `module` is the class, or a function from the keys of `[model]` to a module. Without `loss`, the head of the job
    computes it. With it, training uses `loss(logits, labels)`; evaluations still report the head's.
    """
    # The job handles an interrupt: it writes a checkpoint and ends. Python must not raise KeyboardInterrupt after it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run(module, sys.argv[1:], loss=loss))


def run(module: Build, arguments: Sequence[str], *, loss: Loss | None = None) -> int:
    """Runs a command line for a module, and returns its exit code."""

    def build(job: str) -> Adapter:
        return Adapter(module, loss, job)

    refuse_fork()
    return _native.run_module(this_program(), list(arguments), build)
