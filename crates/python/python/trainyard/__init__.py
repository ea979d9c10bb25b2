"""Trains click-through and ranking models on one machine or many, with parameter servers.

`train`, `evaluate` and `predict` run a job, a file or a dictionary, through the same code as the command `trainyard`. `vectors`
and `lookup` return what was trained.
"""

from trainyard._native import CheckpointError
from trainyard._native import version as _version
from trainyard.callbacks import Callback, Step
from trainyard.checkpoint import UnknownIdError, Vectors, fingerprint64, lookup, vectors
from trainyard.run import JobError, evaluate, export, predict, train

__version__ = _version()

__all__ = [
    "Callback", "CheckpointError", "JobError", "Step", "UnknownIdError", "Vectors", "evaluate", "export", "fingerprint64",
    "lookup", "predict", "train", "vectors",
]
