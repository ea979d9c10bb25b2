"""The configuration of a run (`tf.estimator.RunConfig`)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

SESSION_CREATION_TIMEOUT_SECS = 7200
"""How long TensorFlow waits for a session, unless it is told otherwise."""


@dataclass(frozen=True)
class RunConfig:
    """Operation of a run. A job ignores what concerns TensorFlow's sessions and devices."""

    model_dir: str | None = None
    tf_random_seed: int | None = None
    save_summary_steps: int = 100
    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: int | None = None
    session_config: Any = None
    keep_checkpoint_max: int = 5
    keep_checkpoint_every_n_hours: int = 10_000
    log_step_count_steps: int = 100
    train_distribute: Any = None
    device_fn: Any = None
    protocol: str | None = None
    eval_distribute: Any = None
    experimental_distribute: Any = None
    session_creation_timeout_secs: int = SESSION_CREATION_TIMEOUT_SECS

    def __post_init__(self) -> None:
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise ValueError("save_checkpoints_steps and save_checkpoints_secs exclude each other, given both")
        for name in ("train_distribute", "eval_distribute", "experimental_distribute"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must be None: TF_CONFIG and the key strategy.kind of a job say how training is distributed"
                )

    def replace(self, **changes: Any) -> RunConfig:
        """Returns a copy with other values."""
        return dataclasses.replace(self, **changes)

    def keys(self) -> dict[str, Any]:
        """Returns the keys of `[run]`."""
        is_default = self.session_creation_timeout_secs == SESSION_CREATION_TIMEOUT_SECS
        return {
            "seed": self.tf_random_seed,
            "save_summary_steps": self.save_summary_steps,
            "save_checkpoints_steps": self.save_checkpoints_steps,
            "save_checkpoints_secs": self.save_checkpoints_secs,
            "keep_checkpoint_max": self.keep_checkpoint_max,
            "keep_checkpoint_every_n_hours": self.keep_checkpoint_every_n_hours,
            "log_step_count_steps": self.log_step_count_steps,
            # A job in one process waits for no session, and tells of a key that was given for nothing.
            "session_creation_timeout_secs": None if is_default else self.session_creation_timeout_secs,
        }
