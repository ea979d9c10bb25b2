"""Modules of PyTorch as models, with embedding tables on the parameter servers.

A model is a `torch.nn.Module` that begins with `Module` and looks its ids up with `Embedding`. `main` gives it every
command and every role.
"""

from trainyard.optimizer import SGD, Adagrad, Adam, Ftrl, Optimizer
from trainyard.torch.batch import Batch
from trainyard.torch.embedding import Embedding
from trainyard.torch.main import main, run
from trainyard.torch.module import Module

__all__ = ["SGD", "Adagrad", "Adam", "Batch", "Embedding", "Ftrl", "Module", "Optimizer", "main", "run"]
