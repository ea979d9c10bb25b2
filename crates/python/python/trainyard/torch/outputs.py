"""What a module returns: the logits of each label of the job, and outputs of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trainyard.adapter import Array

LOGITS = "logits"
"""Name of the logits of a job of one label, in a dictionary of outputs."""
MULTI_CLASS = "multi_class"


@dataclass(frozen=True)
class Task:
    """A `[[model.task]]` of the job: a label with a head."""

    name: str
    units: int
    """Logits of a row."""
    is_multi_class: bool
    weight: float
    """Weight of its loss in that of the model."""


def tasks_of(model: Mapping[str, Any]) -> list[Task]:
    """Returns the tasks of a job, in the order of their logits. A job of one label has none."""
    return [
        Task(
            name=task["name"],
            units=task["n_classes"] if task["head"] == MULTI_CLASS else 1,
            is_multi_class=task["head"] == MULTI_CLASS,
            weight=task["weight"],
        )
        for task in model.get("tasks", ())
    ]


@dataclass(frozen=True)
class Outputs:
    """The outputs of a batch."""

    given: Any
    """What `forward` has returned."""
    logits: list[torch.Tensor]
    """The logits of each label, `[rows]` or `[rows, units]`."""
    others: dict[str, torch.Tensor]
    """Outputs of the module's own, by their names."""

    def joined(self) -> torch.Tensor:
        """Returns the logits of all labels, side by side; those of one label as they are."""
        if len(self.logits) == 1:
            return self.logits[0]
        rows = self.logits[0].shape[0]
        return torch.cat([each.view(rows, -1) for each in self.logits], 1)

    def arrays(self) -> dict[str, Array]:
        """Returns the outputs of the module's own as flat arrays."""
        return {name: _array(each) for name, each in self.others.items()}


class OutputForm:
    """The form that the outputs of a job's module have."""

    def __init__(self, tasks: Sequence[Task], units: int) -> None:
        """Takes the tasks, or the number of logits of a job of one label."""
        self._of_tasks = bool(tasks)
        self._units = {task.name: task.units for task in tasks} or {LOGITS: units}

    def read(self, given: Any, rows: int) -> Outputs:
        """Returns what `forward` has returned for a batch, in its parts.

        Raises ValueError if logits are missing, or have another shape than the label needs.
        """
        if isinstance(given, Mapping):
            return self._of_names(given, rows)
        if self._of_tasks:
            raise ValueError(
                f"forward must return a dictionary with the logits of each task, {', '.join(self._units)}, given "
                f"a {type(given).__name__}"
            )
        return Outputs(given, [_logits("logits", given, rows, self._units[LOGITS])], {})

    def _of_names(self, given: Mapping[str, Any], rows: int) -> Outputs:
        missing = [name for name in self._units if name not in given]
        if missing:
            needed = "the logits of each task" if self._of_tasks else "the logits of the label"
            raise ValueError(
                f"forward must return {needed}, by the names {', '.join(self._units)}: the dictionary has "
                f"{', '.join(map(str, given)) or 'none'}, and lacks {', '.join(missing)}"
            )
        logits = [_logits(f"the logits `{name}`", given[name], rows, units) for name, units in self._units.items()]
        others = {name: each for name, each in given.items() if name not in self._units}
        for name, each in others.items():
            if not isinstance(name, str) or not name:
                raise ValueError(f"the outputs of forward must have texts as names, given {name!r}")
            if not isinstance(each, torch.Tensor) or each.dim() == 0 or each.shape[0] != rows:
                shape = list(each.shape) if isinstance(each, torch.Tensor) else type(each).__name__
                raise ValueError(f"the output `{name}` of forward must be a tensor of [{rows}, ...], given {shape}")
        return Outputs(given, logits, others)


def _logits(what: str, given: Any, rows: int, units: int) -> torch.Tensor:
    """Returns logits, `[rows]` or `[rows, units]`, as floats of 32 bits."""
    if isinstance(given, torch.Tensor):
        shape = tuple(given.shape)
        if shape == (rows, units) or (units == 1 and shape == (rows,)):
            if not given.is_floating_point():
                raise ValueError(f"forward must return {what} as floats, given {given.dtype}: integers have no gradient")
            # Loss, head and servers compute in 32 bits. The gradient has the type that the module computes in.
            return given.float()
    found = list(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
    kind = "logits" if what == "logits" else what
    raise ValueError(f"forward must return {kind} of shape [{rows}, {units}], as the label needs, given {found}")


def _array(output: torch.Tensor) -> Array:
    """Returns an output as 32-bit floats, or as integers."""
    values = output.detach().cpu().contiguous().view(-1)
    kind = torch.float32 if values.is_floating_point() else torch.int64
    return np.asarray(values.to(kind).numpy())
