"""What `train_and_evaluate` trains on and evaluates (`tf.estimator.TrainSpec`, `EvalSpec`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.estimator.input import InputFn


@dataclass(frozen=True)
class TrainSpec:
    """The input of training, and its end."""

    input_fn: InputFn
    max_steps: int | None = None
    hooks: Sequence[Any] | None = None
    saving_listeners: Any = None

    def __post_init__(self) -> None:
        if self.max_steps is not None and self.max_steps <= 0:
            raise ValueError(f"max_steps must be > 0, given {self.max_steps}")
        refuse_hooks(self.hooks)


@dataclass(frozen=True)
class EvalSpec:
    """The input of evaluations, and their schedule."""

    input_fn: InputFn
    steps: int | None = 100
    name: str | None = None
    hooks: Sequence[Any] | None = None
    exporters: Any = None
    start_delay_secs: int = 120
    throttle_secs: int = 600

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps <= 0:
            raise ValueError(f"steps must be > 0, given {self.steps}")
        refuse_hooks(self.hooks)

    def exporter_list(self) -> list[Any]:
        """Returns the exporters, of which there may be one, several or none."""
        if self.exporters is None:
            return []
        return list(self.exporters) if isinstance(self.exporters, (list, tuple)) else [self.exporters]


def refuse_hooks(hooks: Sequence[Any] | None) -> None:
    """Raises ValueError if there are hooks."""
    if hooks:
        raise ValueError(
            f"hooks must be empty, given {len(hooks)}: the key train.early_stopping of a job stops early, and summaries "
            "and checkpoints are keys of RunConfig"
        )
