"""The parameters of a module as variables: names, initial values, values in and gradients out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trainyard.torch.module import Module


@dataclass(frozen=True)
class Parameter:
    """A description of a parameter for the servers."""

    name: str
    shape: list[int]
    initializer: str
    optimizer: str | None


class Parameters:
    """The trained parameters of a module, in the order of `named_parameters()`."""

    def __init__(self, module: Module) -> None:
        """Lists the parameters.

        Raises ValueError if the module keeps values that would stay in one process.
        """
        for name, _ in module.named_buffers():
            raise ValueError(
                f"the buffer `{name}` would stay in the process that computes it, as the statistics of BatchNorm do: "
                "use LayerNorm or GroupNorm, or compute the value in forward()"
            )
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
        self._shapes = [tuple(parameter.shape) for parameter in self._parameters]
        self.described = [
            Parameter(
                name=name.replace(".", "/"),
                shape=list(parameter.shape),
                initializer=json.dumps(_initializer(module, name, parameter)),
                optimizer=_optimizer(module, name),
            )
            for name, parameter in named.items()
        ]

    def load(self, values: Sequence[np.ndarray[Any, Any]]) -> None:
        """Sets the parameters. The module uses the memory of the arrays."""
        for parameter, shape, array in zip(self._parameters, self._shapes, values, strict=True):
            parameter.data = torch.from_numpy(array).view(shape)
            parameter.grad = None

    def gradients(self) -> list[np.ndarray[Any, Any]]:
        """Returns the gradients, in the memory that PyTorch wrote them to; 0 if the loss does not depend on one."""
        return [flat(parameter.grad, parameter) for parameter in self._parameters]


def flat(gradient: torch.Tensor | None, like: torch.Tensor) -> np.ndarray[Any, Any]:
    """Returns a gradient as a flat array, zeros if there is none."""
    if gradient is None:
        return np.zeros(like.numel(), dtype=np.float32)
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    return gradient.detach().contiguous().view(-1).numpy()


def _optimizer(module: Module, name: str) -> str | None:
    own = module.optimizer(name)
    return None if own is None else own.to_json()


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
    first = parameter.detach().flatten()
    if first.numel() and bool((first == first[0]).all()):
        return {"kind": "constant", "value": float(first[0])}
    if parameter.dim() >= 2:
        return {"kind": "glorot_uniform"}
    raise ValueError(
        f"the initial values of the parameter `{name}` are drawn in each process anew: return their rule from "
        "Module.initializer"
    )
