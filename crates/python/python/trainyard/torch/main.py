"""The program of a module: every command and every role."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from trainyard.callbacks import Callback, Callbacks
from trainyard.program import ModelProgram, run_to_exit, this_program
from trainyard.torch.adapter import Adapter, Loss
from trainyard.torch.module import Module

Build = Callable[[Mapping[str, Any]], Module]


def main(module: Build, *, loss: Loss | None = None, callbacks: Sequence[Callback] = ()) -> NoReturn:
    """Runs the command line of this process for a module, and exits with its code.

    `module` is the class, or a function from the keys of `[model]` to a module. Without `loss`, the head of the job
    computes it. With it, training uses `loss(logits, labels)`; evaluations still report the head's. In a job of several tasks, it is
    `loss(outputs, batch)`, with what `forward` returned and a `LabelledBatch`, or a dictionary of losses `loss(logits, labels)` by the
    names of the tasks, each of the rows that have its label. `callbacks` receive the events of the run.
    """
    run_to_exit(program(module, loss, callbacks))


def run(
    module: Build,
    arguments: Sequence[str] | None = None,
    *,
    loss: Loss | None = None,
    callbacks: Sequence[Callback] = (),
) -> int:
    """Runs a command line for a module, by default that of this process, and returns its exit code."""
    return program(module, loss, callbacks).run(sys.argv[1:] if arguments is None else list(arguments)).code


def program(module: Build, loss: Loss | None, callbacks: Sequence[Callback]) -> ModelProgram:
    """Returns the program of a module."""
    return ModelProgram(this_program(), lambda job: Adapter(module, loss, job), Callbacks.of(callbacks))
