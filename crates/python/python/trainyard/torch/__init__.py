"""Modules of PyTorch as models, with embedding tables on the parameter servers.

A model is a `torch.nn.Module` that begins with `Module` and looks its ids up with `Embedding`. `main` gives it every
command and every role, and `load` returns what was trained as a module that needs PyTorch alone.
"""

from trainyard.optimizer import SGD, Adagrad, Adam, Ftrl, Optimizer
from trainyard.torch.batch import Batch, LabelledBatch
from trainyard.torch.embedding import Embedding
from trainyard.torch.main import main, run
from trainyard.torch.module import Module
from trainyard.torch.trained import TrainedModule, load

__all__ = [
    "SGD", "Adagrad", "Adam", "Batch", "Embedding", "Ftrl", "LabelledBatch", "Module", "Optimizer", "TrainedModule", "load", "main",
    "run",
]
