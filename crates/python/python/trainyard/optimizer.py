"""Optimizers of tables and parameters. They run on the parameter servers; names and defaults are TensorFlow's."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Optimizer:
    """An update rule, with its hyper-parameters."""

    kind: ClassVar[str]

    def to_json(self) -> str:
        """Returns the rule as the job file has it."""
        return json.dumps({"kind": self.kind, **asdict(self)})


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent."""

    kind: ClassVar[str] = "sgd"
    learning_rate: float


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (`tf.compat.v1.train.AdagradOptimizer`)."""

    kind: ClassVar[str] = "adagrad"
    learning_rate: float
    initial_accumulator_value: float = 0.1


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam. `lazy` moves the rows of a batch alone, as a dynamic table needs."""

    kind: ClassVar[str] = "adam"
    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    lazy: bool = True


@dataclass(frozen=True)
class Ftrl(Optimizer):
    """FTRL-Proximal."""

    kind: ClassVar[str] = "ftrl"
    learning_rate: float
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
