"""What `train_and_evaluate` trains on and evaluates (`tf.estimator.TrainSpec`, `EvalSpec`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.callbacks import Callback
from trainyard.estimator.hooks import callbacks_of
from trainyard.estimator.input import InputFn


@dataclass(frozen=True)
class TrainSpec:
    """The input of training, and its end."""

    input_fn: InputFn
    max_steps: int | None = None
    hooks: Sequence[Any] | None = None
    saving_listeners: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if self.max_steps is not None and self.max_steps <= 0:
            raise ValueError(f"max_steps must be > 0, given {self.max_steps}")
        self.callbacks()

    def callbacks(self) -> list[Callback]:
        """Returns the hooks and listeners."""
        return callbacks_of(self.hooks, self.saving_listeners)


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
        if self.name is not None:
            raise ValueError(
                f"name must be None, given {self.name!r}: a job has one evaluation with its folder model_dir/eval, and a "
                "further one is an [[evaluation]] of a job file"
            )
        if self.steps is not None and self.steps <= 0:
            raise ValueError(f"steps must be > 0, given {self.steps}")
        self.callbacks()

    def callbacks(self) -> list[Callback]:
        """Returns the hooks. A `trainyard.Callback` receives evaluations; other hooks receive steps, which these have not."""
        return callbacks_of(self.hooks)

    def exporter_list(self) -> list[Any]:
        """Returns the exporters, of which there may be one, several or none."""
        if self.exporters is None:
            return []
        return list(self.exporters) if isinstance(self.exporters, (list, tuple)) else [self.exporters]
