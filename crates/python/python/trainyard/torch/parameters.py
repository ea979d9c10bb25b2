"""The parameters of a module as variables: names, initial values, values in and gradients out."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trainyard.adapter import Array, Parameter
from trainyard.torch.module import Module, _Normalization
from trainyard.torch.twin import REMEDY, Draws, constants, is_equal


class Parameters:
    """The trained parameters of a module, in the order of `named_parameters()`, and then its moving averages."""

    def __init__(self, module: Module, twin: Module) -> None:
        """Lists the parameters of a module. Its twin, of another seed, shows which values its author has set.

        Raises ValueError if the module keeps values that would stay in one process, or sets values that no rule has.
        """
        draws = Draws(module, twin)
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                raise ValueError(
                    f"the parameter `{name}` needs no gradient, so its values would be those of one process: "
                    "make it a constant in forward()"
                )
            if parameter.dtype != torch.float32:
                raise ValueError(f"the parameter `{name}` must be float32, given {parameter.dtype}")
        named = dict(module.named_parameters())
        self._parameters = list(named.values())
        self._places = [_Place(parameter) for parameter in self._parameters]
        self._moving = [
            _MovingAverage.of(module, name) for name, _ in module.named_buffers() if module.is_moving_average(name)
        ]
        self._constants = [
            _Constant.of(module, name) for name, value in constants(module) if isinstance(value, torch.Tensor)
        ]
        self._numbers = [
            _Number(f"{path}.{name}" if path else name, each, name, value)
            for path, each in module.named_modules()
            if not type(each).__module__.startswith("torch.")
            for name, value in vars(each).items()
            if type(value) is float
        ]
        _check_normalizations(module)
        self.described = [
            Parameter(
                name=name.replace(".", "/"),
                shape=list(parameter.shape),
                initializer=json.dumps(_initializer(module, name, parameter, draws)),
                optimizer=_optimizer(module, name),
                values=place.array,
            )
            for (name, parameter), place in zip(named.items(), self._places, strict=True)
        ]
        self.described += [each.described(module) for each in self._moving]

    def load(self, values: Sequence[Array]) -> None:
        """Sets the parameters, also those whose memory the module has replaced in an earlier step."""
        count = len(self._parameters)
        for parameter, place, array in zip(self._parameters, self._places, values[:count], strict=True):
            parameter.data = place.tensor_of(array)
            parameter.grad = None
        for average, array in zip(self._moving, values[count:], strict=True):
            average.load(array)

    def gradients(self) -> list[Array]:
        """Returns the gradients, in the memory that PyTorch wrote them to; 0 if the loss does not depend on one.

        Raises ValueError if the step has changed a constant, and warns of a number.
        """
        for constant in self._constants:
            constant.check()
        self._numbers = [number for number in self._numbers if not number.has_changed()]
        gradients = [exported(parameter.grad, parameter) for parameter in self._parameters]
        return gradients + [average.fall() for average in self._moving]


class _Place:
    """Where the values of a parameter or buffer come to lie. On the CPU, that is one array for all steps."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.array: Array | None = None
        self._shape = tensor.shape
        self._device = tensor.device
        if tensor.device.type == "cpu":
            self.array = tensor.detach().numpy().flatten()
            self._tensor = torch.from_numpy(self.array).view(self._shape)

    def tensor_of(self, values: Array) -> torch.Tensor:
        """Returns values as a tensor of the module."""
        if values is self.array:
            return self._tensor
        return torch.from_numpy(values).view(self._shape).to(self._device)


@dataclass
class _MovingAverage:
    """A buffer that is a variable."""

    name: str
    owner: torch.nn.Module
    attribute: str
    place: _Place
    before: Array

    @classmethod
    def of(cls, module: Module, name: str) -> _MovingAverage:
        path, _, attribute = name.rpartition(".")
        buffer = module.get_buffer(name)
        if buffer.dtype != torch.float32:
            raise ValueError(f"the moving average `{name}` must be float32, given {buffer.dtype}")
        return cls(name, module.get_submodule(path), attribute, _Place(buffer), np.zeros(0, dtype=np.float32))

    @property
    def buffer(self) -> torch.Tensor:
        buffer = getattr(self.owner, self.attribute)
        assert isinstance(buffer, torch.Tensor)
        return buffer

    def described(self, module: Module) -> Parameter:
        return Parameter(
            name=self.name.replace(".", "/"),
            shape=list(self.buffer.shape),
            initializer=json.dumps(_initial_average(module, self.name, self.buffer)),
            optimizer=None,
            moving=True,
            values=self.place.array,
        )

    def load(self, values: Array) -> None:
        """Sets the buffer, also if the module has replaced it in an earlier step."""
        self.before = values.copy()
        setattr(self.owner, self.attribute, self.place.tensor_of(values))

    def fall(self) -> Array:
        """Returns by how much the step has lowered the values."""
        return self.before - exported(self.buffer, self.buffer).reshape(-1)


@dataclass
class _Constant:
    """A buffer or other tensor that no step may change, because the change would stay in one process.

    PyTorch counts changes, but for those through `.data`: the values are compared in the steps 1, 2, 4, 8 and so on.
    """

    name: str
    owner: torch.nn.Module
    attribute: str
    tensor: torch.Tensor
    version: int
    memory: int
    values: torch.Tensor
    checks: int = 0

    @classmethod
    def of(cls, module: Module, name: str) -> _Constant:
        path, _, attribute = name.rpartition(".")
        owner = module.get_submodule(path)
        tensor = getattr(owner, attribute)
        return cls(name, owner, attribute, tensor, tensor._version, tensor.data_ptr(), tensor.detach().clone())

    def check(self) -> None:
        # BatchNorm counts its batches here, and uses the count only without a momentum.
        if self.attribute == "num_batches_tracked":
            return
        found = getattr(self.owner, self.attribute, None)
        is_other = found is not self.tensor or (self.tensor._version, self.tensor.data_ptr()) != (self.version, self.memory)
        self.checks += 1
        is_compared = self.checks & (self.checks - 1) == 0
        if is_other or (is_compared and not is_equal(self.tensor, self.values)):
            is_buffer = self.attribute in self.owner._buffers
            kind = "buffer" if is_buffer else "tensor"
            remedy = "return True for it from Module.is_moving_average" if is_buffer else "register it as a buffer that is a moving average"
            raise ValueError(
                f"the step has changed the {kind} `{self.name}`, and the change would stay in this process: {remedy}, or "
                "compute the value in forward()"
            )


@dataclass
class _Number:
    """A number of a module, which a step may change for its own use, as a figure that it shows."""

    name: str
    owner: torch.nn.Module
    attribute: str
    value: float

    def has_changed(self) -> bool:
        """Returns whether a step has changed the number, and warns of it then."""
        found = getattr(self.owner, self.attribute, None)
        if found == self.value or self.value != self.value:
            return False
        warnings.warn(
            f"the step has changed the number `{self.name}` from {self.value} to {found}, and the change stays in this process: where the "
            "output of the model depends on it, evaluations, predictions and other tasks compute another one. Compute it in forward(), or "
            "register a buffer that is a moving average",
            stacklevel=2,
        )
        return True


def exported(gradient: torch.Tensor | None, like: torch.Tensor) -> Array:
    """Returns a gradient as an array, on the CPU in the memory that PyTorch wrote it to; zeros if there is none."""
    if gradient is None:
        return np.zeros(like.numel(), dtype=np.float32)
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    return gradient.detach().cpu().contiguous().numpy()


def _check_normalizations(module: Module) -> None:
    for name, each in module.named_modules():
        if isinstance(each, _Normalization) and each.track_running_stats and each.momentum is None:
            raise ValueError(
                f"`{name}` must have a momentum: without it, its statistics depend on how many batches one process has seen"
            )


def _optimizer(module: Module, name: str) -> str | None:
    own = module.optimizer(name)
    return None if own is None else own.to_json()


def _initial_average(module: Module, name: str, buffer: torch.Tensor) -> dict[str, Any]:
    """Returns the rule of a moving average's initial values."""
    chosen = module.initializer(name, tuple(buffer.shape))
    if chosen is not None:
        return dict(chosen)
    constant = _constant(buffer)
    if constant is None:
        raise ValueError(f"the moving average `{name}` must begin with one number: return its rule from Module.initializer")
    return constant


def _initializer(module: Module, name: str, parameter: torch.Tensor, draws: Draws) -> dict[str, Any]:
    """Returns the rule of a parameter's initial values: that of its author, or one that has the distribution of PyTorch.

    Raises ValueError if there is no such rule.
    """
    chosen = module.initializer(name, tuple(parameter.shape))
    if chosen is not None:
        return dict(chosen)
    if draws.is_drawn(name):
        rule = _drawn(module, name, parameter)
        draws.check(name, rule)
        return rule
    constant = _constant(parameter)
    if constant is None and parameter.numel():
        raise ValueError(
            f"the module sets the values of the parameter `{name}`, and the servers would draw others: {REMEDY}"
        )
    return constant or {"kind": "zeros"}


def _drawn(module: Module, name: str, parameter: torch.Tensor) -> dict[str, Any]:
    """Returns the rule of a parameter whose values differ."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    if isinstance(owner, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)) and last in ("weight", "bias"):
        # Uniform in 1/sqrt(fan_in) either way: `torch.nn.Linear.reset_parameters`, and that of convolutions.
        fan_in = int(np.prod(owner.weight.shape[1:]))
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        return {"kind": "uniform", "low": -bound, "high": bound}
    if isinstance(owner, torch.nn.Embedding):
        return {"kind": "truncated_normal", "stddev": 1.0}
    if parameter.dim() >= 2:
        return {"kind": "glorot_uniform"}
    raise ValueError(
        f"the initial values of the parameter `{name}` are drawn in each process anew: return their rule from "
        "Module.initializer"
    )


def _constant(values: torch.Tensor) -> dict[str, Any] | None:
    """Returns the rule of values that are all equal, or None if they differ."""
    first = values.detach().flatten()
    if first.numel() and bool((first == first[0]).all()):
        return {"kind": "constant", "value": float(first[0])}
    return None
