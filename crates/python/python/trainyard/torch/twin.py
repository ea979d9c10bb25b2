"""Two builds of a module under two seeds: what they have in common is set by the author, and what differs is drawn.

Processes of a job build the module for themselves, so what is drawn would differ between them. Parameters are variables of
the servers, which draw by a rule; buffers and other tensors have no such rule.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

from trainyard.adapter import Array
from trainyard.torch.module import Module

Build = Callable[[], Module]
SEED = 0
"""Seed of the module that the process uses."""
TWIN_SEED = 1
"""Seed of the builds with which it is compared."""
DEVIATION_RATIO_MAX = 1.35
"""Largest ratio of two deviations that count as one. Of 128 numbers drawn uniformly, the deviation varies by 4 %."""
DEVIATION_VALUES_MIN = 64
"""Fewest values of a parameter whose deviation is compared."""
ROW_VALUES_MIN = 2
"""Fewest values of a row that two draws do not share by chance."""

REMEDY = (
    "return its rule from Module.initializer. Values of a file are a buffer, beside which a parameter that begins at 0 is "
    "trained"
)
"""What to do about a parameter whose values the servers cannot have."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds the generators of PyTorch, NumPy and Python for a while, and then puts them back."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    of_python, of_numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


def built(build: Build, seed: int) -> tuple[Module, bool]:
    """Returns a module that is built under a seed, and whether its author has set a seed of another value."""
    with seeded(seed):
        module = build()
        return module, torch.initial_seed() != seed


def without_own_seed(build: Build, seed: int) -> Module:
    """Returns a module that is built under a seed which its author's `torch.manual_seed` does not change."""
    unchanged = mock.Mock(side_effect=lambda _: torch.default_generator)
    with seeded(seed), mock.patch("torch.manual_seed", unchanged), mock.patch("torch.random.manual_seed", unchanged):
        return build()


def refuse_drawn_constants(module: Module, twin: Module) -> None:
    """Refuses a buffer or other tensor that differs between two builds.

    Raises ValueError with the name of the tensor.
    """
    found, others = dict(constants(module)), dict(constants(twin))
    for name in found.keys() & others.keys():
        if not is_equal(found[name], others[name]):
            raise ValueError(
                f"`{name}` is drawn anew in each process, and a process would compute with values of its own: make it a "
                "torch.nn.Parameter, or draw it with a seed of its own: torch.Generator().manual_seed(7)"
            )


def constants(module: Module) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of a module's buffers, and of its attributes that are tensors or arrays.

    Moving averages are variables, whose rules are checked elsewhere.
    """
    for path, each in module.named_modules():
        prefix = f"{path}." if path else ""
        for name, buffer in each.named_buffers(recurse=False):
            if not torch.nn.parameter.is_lazy(buffer) and not module.is_moving_average(f"{prefix}{name}"):
                yield f"{prefix}{name}", buffer
        for name, value in vars(each).items():
            if name != "_moved" and isinstance(value, (torch.Tensor, np.ndarray)):
                yield f"{prefix}{name}", value


class Draws:
    """The parameters of a module beside those of its twin."""

    def __init__(self, module: Module, twin: Module) -> None:
        """Compares the parameters of two builds.

        Raises ValueError if the builds have different parameters.
        """
        self._found = dict(module.named_parameters())
        self._others = dict(twin.named_parameters())
        shapes = [{name: list(each.shape) for name, each in side.items()} for side in (self._found, self._others)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"a module must have the same parameters in each process, given {shapes[0]} and then {shapes[1]}"
            )

    def is_drawn(self, name: str) -> bool:
        """Returns whether the two builds have different values of a parameter."""
        return not is_equal(self._found[name], self._others[name])

    def check(self, name: str, rule: Mapping[str, Any]) -> None:
        """Refuses the rule of a drawn parameter if it would replace values that the author has set.

        Raises ValueError if the author has set a row, or draws with another deviation.
        """
        one, other = _array(self._found[name]), _array(self._others[name])
        if one.ndim > 1 and math.prod(one.shape[1:]) >= ROW_VALUES_MIN:
            equal = (one == other).reshape(len(one), -1).all(1)
            if equal.any():
                raise ValueError(
                    f"the module sets the row {int(equal.argmax())} of the parameter `{name}` (as padding_idx does), and the "
                    f"servers would draw it: mask the row in forward(), or {REMEDY}"
                )
        deviation = _deviation(rule)
        if deviation is None or one.size < DEVIATION_VALUES_MIN:
            return
        found = float(np.concatenate([one, other]).std())
        if max(found / deviation, deviation / max(found, 1e-30)) > DEVIATION_RATIO_MAX:
            raise ValueError(
                f"the module draws the parameter `{name}` with the deviation {found:.3g}, and the servers would draw it "
                f"with {deviation:.3g}: {REMEDY}"
            )


def _deviation(rule: Mapping[str, Any]) -> float | None:
    """Returns the deviation of a rule's values, or None if it is not compared."""
    if rule["kind"] == "uniform":
        return (rule["high"] - rule["low"]) / math.sqrt(12)
    return rule["stddev"] if rule["kind"] == "truncated_normal" else None


def array_of(values: Any) -> Array | None:
    """Returns the values of a tensor that no optimizer moves; None for anything else."""
    if not isinstance(values, torch.Tensor) or isinstance(values, torch.nn.Parameter) or torch.nn.parameter.is_lazy(values):
        return None
    return _array(values.float() if values.dtype == torch.bfloat16 else values)


def _array(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values


def is_equal(one: Any, other: Any) -> bool:
    """Returns whether two tensors or arrays have one shape and the same values; those that are no numbers count as equal."""
    if isinstance(one, torch.Tensor) and one.dtype == torch.bfloat16:
        one, other = one.float(), other.float()
    one, other = _array(one), _array(other)
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
