"""Optimizers (`tf.keras.optimizers.legacy`), with Keras' names and defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True)
class Optimizer:
    """An update rule: the keys of an optimizer in a job."""

    keys: dict[str, Any]

    def minimize(self, loss: Any, global_step: Any = None, var_list: None = None) -> TrainOp:
        """Returns the training operation of a `model_fn`: this optimizer updates all variables."""
        if var_list is not None:
            raise ValueError("var_list must be None: one optimizer updates all variables")
        return TrainOp(self)


@dataclass(frozen=True)
class TrainOp:
    """The training operation of a `model_fn`: the update of all variables, which the parameter servers do."""

    optimizer: Optimizer


Choice = Union[str, Optimizer, Callable[[], Optimizer], None]


def SGD(learning_rate: float = 0.01, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Gradient descent, with or without momentum."""
    if momentum == 0.0:
        return Optimizer({"kind": "sgd", "learning_rate": learning_rate})
    keys = {"kind": "keras_momentum", "learning_rate": learning_rate, "momentum": momentum, "use_nesterov": nesterov}
    return Optimizer(keys)


def Adagrad(
    learning_rate: float = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7
) -> Optimizer:
    """Adagrad."""
    keys = {"kind": "adagrad", "learning_rate": learning_rate, "epsilon": epsilon}
    return Optimizer({**keys, "initial_accumulator_value": initial_accumulator_value})


def Adam(
    learning_rate: float = 0.001,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-7,
    amsgrad: bool = False,
) -> Optimizer:
    """Adam."""
    keys = {"kind": "adam", "learning_rate": learning_rate, "beta1": beta_1, "beta2": beta_2, "epsilon": epsilon}
    return Optimizer({**keys, "amsgrad": amsgrad})


def RMSprop(
    learning_rate: float = 0.001,
    rho: float = 0.9,
    momentum: float = 0.0,
    epsilon: float = 1e-7,
    centered: bool = False,
) -> Optimizer:
    """RMSprop."""
    keys = {"kind": "keras_rmsprop", "learning_rate": learning_rate, "decay": rho, "momentum": momentum}
    return Optimizer({**keys, "epsilon": epsilon, "centered": centered})


def Ftrl(
    learning_rate: float = 0.001,
    learning_rate_power: float = -0.5,
    initial_accumulator_value: float = 0.1,
    l1_regularization_strength: float = 0.0,
    l2_regularization_strength: float = 0.0,
    l2_shrinkage_regularization_strength: float = 0.0,
    beta: float = 0.0,
) -> Optimizer:
    """FTRL-Proximal."""
    keys = {
        "kind": "ftrl",
        "learning_rate": learning_rate,
        "learning_rate_power": learning_rate_power,
        "initial_accumulator_value": initial_accumulator_value,
        "l1_regularization_strength": l1_regularization_strength,
        "l2_regularization_strength": l2_regularization_strength,
        "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        "beta": beta,
    }
    return Optimizer(keys)


BY_NAME: dict[str, Callable[..., Optimizer]] = {"Adagrad": Adagrad, "Adam": Adam, "Ftrl": Ftrl, "RMSProp": RMSprop, "SGD": SGD}


def chosen(optimizer: Choice, default: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Returns an optimizer as the job has it. `name` is the text that means the estimator's default.

    Raises ValueError if there is no such optimizer.
    """
    if optimizer is None or optimizer == name:
        return default
    if isinstance(optimizer, str):
        if optimizer not in BY_NAME:
            raise ValueError(f"the optimizer must be one of {', '.join(BY_NAME)}, given {optimizer!r}")
        return BY_NAME[optimizer]().keys
    if isinstance(optimizer, Optimizer):
        return optimizer.keys
    make: Any = optimizer
    made = make() if callable(make) else make
    if isinstance(made, Optimizer):
        return made.keys
    raise ValueError(
        f"the optimizer must be a text or one of trainyard.estimator.optimizers, given a {type(made).__name__}"
    )
