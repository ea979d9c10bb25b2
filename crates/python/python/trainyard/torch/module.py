"""The base class of the user's modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from trainyard.metrics import Metric
from trainyard.optimizer import Optimizer

_Normalization = torch.nn.modules.batchnorm._NormBase
_Self = TypeVar("_Self", bound="Module")


class Module(torch.nn.Module):
    """A `torch.nn.Module` whose parameters and tables lie on the parameter servers.

    A subclass takes the keys of the job's `[model]` as its only argument, and its `forward` takes a `Batch` and returns
    logits: `[rows]`, or `[rows, units]`, or a dictionary with the logits of each task of the job by its name, or of its only label
    as `logits`; further tensors of it, `[rows, ...]`, are outputs of predictions. It computes on the device to which `to` has
    moved it.
    """

    _moved = torch.empty(0)
    """An empty tensor that moves with the module, which may have embeddings alone."""

    def _apply(self: _Self, move: Any, *arguments: Any, **named: Any) -> _Self:  # type: ignore[override]
        self._moved = move(self._moved)
        return super()._apply(move, *arguments, **named)  # type: ignore[no-untyped-call]

    def initializer(self, name: str, shape: tuple[int, ...]) -> Mapping[str, Any] | None:
        """Returns the initial values of a parameter, or None for those that PyTorch would draw.

        They have to be the same in every process, so they are a rule: `{"kind": "zeros"}`,
        `{"kind": "constant", "value": 1.0}`, `{"kind": "uniform", "low": -0.1, "high": 0.1}`,
        `{"kind": "truncated_normal", "stddev": 0.1}` or `{"kind": "glorot_uniform"}`.
        """
        return None

    def optimizer(self, name: str) -> Optimizer | None:
        """Returns the optimizer of a parameter, or None for that of the job, `[model.optimizer]`."""
        return None

    def is_moving_average(self, name: str) -> bool:
        """Returns whether training changes a buffer. The statistics of BatchNorm are such buffers.

        A step of each process moves it on the servers by as much as it moved in the module. All other buffers are
        constants.
        """
        path, _, last = name.rpartition(".")
        return isinstance(self.get_submodule(path), _Normalization) and last != "num_batches_tracked"

    def metrics(self, logits: Any, labels: Any) -> Mapping[str, Metric]:
        """Returns metrics of a batch, besides those of the head: `{"error": trainyard.metrics.mean(...)}`.

        The logits have the shape that `forward` returned, and so have the labels; those of several classes are `[rows]`. A
        method with a third argument, `weights`, receives the weights of the rows, or None: `[rows]` beside labels of that shape, and
        `[rows, 1]` beside others, so that they multiply row by row.

        In a job of several tasks, it is `metrics(outputs, batch)`: what `forward` returned, and a `LabelledBatch`.
        """
        return {}


def device_of(module: Module) -> torch.device:
    """Returns the device on which a module computes.

    Raises ValueError if its parameters and buffers are on several devices.
    """
    devices = {each.device for each in [*module.parameters(), *module.buffers()]}
    if len(devices) > 1:
        names = ", ".join(sorted(str(device) for device in devices))
        raise ValueError(f"the module must be on one device, given parameters and buffers on {names}")
    return devices.pop() if devices else module._moved.device
