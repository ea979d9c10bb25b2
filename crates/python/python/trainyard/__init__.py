"""Trains click-through and ranking models on one machine or many, with parameter servers.

`train`, `evaluate` and `predict` run a job, a file or a dictionary, through the same code as the command `trainyard`. `vectors`
and `lookup` return what was trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainyard._native import CheckpointError
from trainyard._native import version as _version
from trainyard.callbacks import Callback, Step
from trainyard.console import JobWarning
from trainyard.run import JobError, evaluate, export, predict, train

if TYPE_CHECKING:
    from trainyard.checkpoint import UnknownIdError, Vectors, fingerprint64, lookup, vectors

__version__ = _version()

__all__ = [
    "Callback", "CheckpointError", "JobError", "JobWarning", "Step", "UnknownIdError", "Vectors", "evaluate", "export", "fingerprint64",
    "lookup", "predict", "train", "vectors",
]

_OF_ARRAYS = ("UnknownIdError", "Vectors", "fingerprint64", "lookup", "vectors")
"""Names of the module of arrays, which is imported when one of them is used: the command needs no numpy."""


def __getattr__(name: str) -> Any:
    if name in _OF_ARRAYS:
        from trainyard import checkpoint

        return getattr(checkpoint, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
