"""A device that computes as the CPU does and takes no tensor of the CPU: what code sees on a GPU, where there is none.

It has the name `meta`, which PyTorch knows in every build.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

NAME = "meta"


class _There(torch.Tensor):
    """A tensor on the device. Its values are in the tensor `held`."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> _There:
        made: _There = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype, device=NAME
        )
        made.held = held
        return made

    def _data(self) -> torch.Tensor:
        return self.detach()

    def _set_data(self, values: _There) -> None:
        self.held = values.held

    data = property(_data, _set_data)  # type: ignore[assignment]
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _called(function, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """A context in which the device exists."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _called(function, args, kwargs or {})


def _called(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    given = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    is_there = any(isinstance(each, _There) for each in given)
    device = kwargs.get("device")
    is_copy = function is torch.ops.aten._to_copy.default
    to_there = is_there if device is None else torch.device(device).type == NAME
    if is_there and not is_copy and any(not isinstance(each, _There) and each.dim() > 0 for each in given):
        raise RuntimeError(f"{function} must have tensors on one device")
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    bare = lambda each: each.held if isinstance(each, _There) else each
    found = function(*tree_map(bare, args), **tree_map(bare, kwargs))
    if function.__name__.partition(".")[0].endswith("_"):
        return args[0]
    return tree_map(lambda each: _There(each) if isinstance(each, torch.Tensor) and to_there else each, found)
