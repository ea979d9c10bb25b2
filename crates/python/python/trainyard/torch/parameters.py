"""The parameters of a module as variables: names, initial values, values in and gradients out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trainyard.adapter import Array, Parameter
from trainyard.torch.module import Module, _Normalization


class Parameters:
    """The trained parameters of a module, in the order of `named_parameters()`, and then its moving averages."""

    def __init__(self, module: Module, device: torch.device) -> None:
        """Lists the parameters of a module that computes on `device`.

        Raises ValueError if the module keeps values that would stay in one process.
        """
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                raise ValueError(
                    f"the parameter `{name}` needs no gradient, so its values would be those of one process: "
                    "make it a constant in forward()"
                )
            if parameter.dtype != torch.float32:
                raise ValueError(f"the parameter `{name}` must be float32, given {parameter.dtype}")
        named = dict(module.named_parameters())
        self._device = device
        self._parameters = list(named.values())
        self._moving = [
            _MovingAverage.of(module, name) for name, _ in module.named_buffers() if module.is_moving_average(name)
        ]
        moving = {each.name for each in self._moving}
        self._constants = [_Constant(name, buffer) for name, buffer in module.named_buffers() if name not in moving]
        _check_normalizations(module)
        self.described = [
            Parameter(
                name=name.replace(".", "/"),
                shape=list(parameter.shape),
                initializer=json.dumps(_initializer(module, name, parameter)),
                optimizer=_optimizer(module, name),
                values=_own_memory(parameter),
            )
            for name, parameter in named.items()
        ]
        self.described += [each.described(module) for each in self._moving]

    def load(self, values: Sequence[Array]) -> None:
        """Sets the parameters, unless the values are in their memory already."""
        count = len(self._parameters)
        for parameter, described, array in zip(self._parameters, self.described, values[:count], strict=False):
            if array is not described.values:
                parameter.data = torch.from_numpy(array).view(described.shape).to(self._device)
            parameter.grad = None
        for average, array in zip(self._moving, values[count:], strict=True):
            average.load(array)

    def gradients(self) -> list[Array]:
        """Returns the gradients, in the memory that PyTorch wrote them to; 0 if the loss does not depend on one.

        Raises ValueError if the step has changed a constant.
        """
        for constant in self._constants:
            constant.check()
        gradients = [exported(parameter.grad, parameter) for parameter in self._parameters]
        return gradients + [average.fall() for average in self._moving]


@dataclass
class _MovingAverage:
    """A buffer that is a variable."""

    name: str
    owner: torch.nn.Module
    attribute: str
    before: Array
    memory: Array | None = None

    @classmethod
    def of(cls, module: Module, name: str) -> _MovingAverage:
        path, _, attribute = name.rpartition(".")
        found = cls(name, module.get_submodule(path), attribute, np.zeros(0, dtype=np.float32))
        if found.buffer.dtype != torch.float32:
            raise ValueError(f"the moving average `{name}` must be float32, given {found.buffer.dtype}")
        return found

    @property
    def buffer(self) -> torch.Tensor:
        buffer = getattr(self.owner, self.attribute)
        assert isinstance(buffer, torch.Tensor)
        return buffer

    def described(self, module: Module) -> Parameter:
        self.memory = _own_memory(self.buffer)
        return Parameter(
            name=self.name.replace(".", "/"),
            shape=list(self.buffer.shape),
            initializer=json.dumps(_initial_average(module, self.name, self.buffer)),
            optimizer=None,
            moving=True,
            values=self.memory,
        )

    def load(self, values: Array) -> None:
        """Sets the buffer, unless the values are in its memory already."""
        self.before = values.copy()
        if values is not self.memory:
            before = self.buffer
            setattr(self.owner, self.attribute, torch.from_numpy(values).view(before.shape).to(before.device))

    def fall(self) -> Array:
        """Returns by how much the step has lowered the values."""
        return self.before - exported(self.buffer, self.buffer).reshape(-1)


class _Constant:
    """A buffer that no step may change, because the change would stay in one process."""

    def __init__(self, name: str, buffer: torch.Tensor) -> None:
        self._name = name
        self._buffer = buffer
        self._version = buffer._version
        # BatchNorm counts its batches here, and uses the count only without a momentum.
        self._may_count = name.rpartition(".")[2] == "num_batches_tracked"

    def check(self) -> None:
        if self._buffer._version != self._version and not self._may_count:
            raise ValueError(
                f"the step has changed the buffer `{self._name}`, and the change would stay in this process: return True "
                "for it from Module.is_moving_average, or compute the value in forward()"
            )


def _own_memory(tensor: torch.Tensor) -> Array | None:
    """Moves a tensor of the CPU into the memory of an array, and returns the array; None for one of another device."""
    if tensor.device.type != "cpu":
        return None
    values: Array = tensor.detach().numpy().flatten()
    tensor.data = torch.from_numpy(values).view(tensor.shape)
    return values


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


def _initializer(module: Module, name: str, parameter: torch.Tensor) -> dict[str, Any]:
    """Returns the rule of a parameter's initial values."""
    chosen = module.initializer(name, tuple(parameter.shape))
    if chosen is not None:
        return dict(chosen)
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    if isinstance(owner, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)) and last in ("weight", "bias"):
        # Uniform in 1/sqrt(fan_in) either way: `torch.nn.Linear.reset_parameters`, and that of convolutions.
        fan_in = int(np.prod(owner.weight.shape[1:]))
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        return {"kind": "uniform", "low": -bound, "high": bound}
    if isinstance(owner, torch.nn.Embedding):
        return {"kind": "truncated_normal", "stddev": 1.0}
    constant = _constant(parameter)
    if constant is not None:
        return constant
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
