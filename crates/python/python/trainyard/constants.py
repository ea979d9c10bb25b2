"""Values that the code of a model makes in each process, beside its parameters: numbers, arrays, and lists of these and of texts.

The processes of a job build their models for themselves. Where such a value differs between them, as a draw while a file is
imported, the `hash()` of a text or the order of a set, each would compute a function of its own: the tasks of a job compare a
digest of each value.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterator
from typing import Any, Union

import numpy as np

Leaf = Callable[[Any], "np.ndarray[Any, Any] | None"]
"""Returns the values of a framework's tensor; None for anything else."""

FOREIGN = ("builtins", "torch", "trainyard", "jax", "flax", "abc", "typing")
"""Packages whose classes and functions are the same in each process."""
CONSTANTS_MAX = 200
"""Most constants that have a digest of their own."""
ELEMENTS_MAX = 100_000
"""Most elements of a list, set or dictionary that are compared; of a longer one the length is."""
DEPTH_MAX = 4
"""Most lists within lists that are looked into."""


def constants(
    owner: object, prefix: str, tensor: Leaf, internal: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Yields names and digests of the values of an object: its own, those of its classes, and those that its methods name.

    An attribute whose name begins with `_` counts as one that no step reads, unless it is an array. `internal` are names of the
    framework's own.
    """
    seen: set[int] = set()
    own = dict(vars(owner))
    shared: dict[str, Any] = {}
    for each in type(owner).__mro__:
        if not _is_foreign(each):
            shared = {**vars(each), **shared}
    for name, value in {**shared, **own}.items():
        if name.startswith("__") or name in internal:
            continue
        yield from named_by(value, tensor, seen)
        is_array = isinstance(value, np.ndarray) or tensor(value) is not None
        is_read = is_array or not name.startswith("_")
        found = digest(value, tensor) if name in own and is_read else _of_shared(value, tensor)
        if found is not None:
            yield f"{prefix}{name}", found


def named_by(function: object, tensor: Leaf, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Yields names and digests of the values outside of a function that it uses, and of those of its file that it calls.

    Functions that were seen before have been looked into.
    """
    for each in _functions(function):
        for name, value in _names(each, seen):
            found = _of_shared(value, tensor)
            if found is not None:
                yield name, found


def limited(found: dict[str, str]) -> dict[str, str]:
    """Returns constants of which those beyond the limit have one digest together."""
    names = sorted(found)
    kept = {name: found[name] for name in names[:CONSTANTS_MAX]}
    rest = names[CONSTANTS_MAX:]
    if rest:
        text = "".join(f"{name}={found[name]};" for name in rest)
        kept["others"] = f"{len(rest)} constants, {_hash(text.encode())}"
    return kept


def digest(value: Any, tensor: Leaf, depth: int = 0) -> str | None:
    """Returns a digest of a value; None if it is of no kind that is compared."""
    if isinstance(value, (bool, type(None))):
        return None
    if isinstance(value, (int, np.integer)):
        return f"int {value}"
    if isinstance(value, (float, np.floating)):
        return f"float {float(value):.9g}"
    array = value if isinstance(value, np.ndarray) else tensor(value)
    if array is not None:
        return _of_array(array) if array.size else None
    if depth == DEPTH_MAX:
        return None
    if isinstance(value, (dict, set, frozenset, list, tuple)) and len(value) > ELEMENTS_MAX:
        return f"{type(value).__name__} of {len(value)}"
    parts: list[Union[str, None]]
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: repr(pair[0]))
        parts = [part for pair in pairs for part in (_element(pair[0], tensor, depth), _element(pair[1], tensor, depth))]
    elif isinstance(value, (set, frozenset)):
        parts = sorted((_element(each, tensor, depth) for each in value), key=str)
    elif isinstance(value, (list, tuple)):
        parts = [_element(each, tensor, depth) for each in value]
    else:
        return None
    if any(part is None for part in parts):
        return None
    return f"{type(value).__name__} of {len(value)}, {_hash(';'.join(map(str, parts)).encode())}"


def _element(value: Any, tensor: Leaf, depth: int) -> str | None:
    return f"text {value}" if isinstance(value, str) else digest(value, tensor, depth + 1)


def _of_shared(value: Any, tensor: Leaf) -> str | None:
    """Returns a digest of a value of a class or a file: of an array, or of a sequence of texts.

    Programs count and record in other ones, so that these change while models are built and trained.
    """
    if isinstance(value, (list, tuple)) and not all(isinstance(each, str) for each in value):
        return None
    is_array = isinstance(value, np.ndarray) or tensor(value) is not None
    return digest(value, tensor) if is_array or isinstance(value, (list, tuple)) else None


def _of_array(array: np.ndarray[Any, Any]) -> str:
    """Returns kind, shape and a digest of an array.

    That of fractions is coarse: computed on another processor, their last bits differ.
    """
    kind = f"{array.dtype} {list(array.shape)}"
    if array.dtype.kind != "f":
        return f"{kind} {_hash(np.ascontiguousarray(array).tobytes() if array.dtype.kind != 'O' else repr(array.tolist()).encode())}"
    flat = array.astype(np.float64).reshape(-1)
    finite = np.isfinite(flat)
    values = np.where(finite, flat, 0.0)
    total = float(np.abs(values).sum())
    places = np.cos(np.arange(flat.size, dtype=np.float64))
    share = float((values * places).sum()) / total if total else 0.0
    return f"{kind} sum {total:.4g} place {share:.4f}{'' if finite.all() else f' not finite {int((~finite).sum())}'}"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _is_foreign(owner: Any) -> bool:
    return str(getattr(owner, "__module__", "builtins")).partition(".")[0] in FOREIGN


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """Yields the functions that an attribute stands for."""
    for each in value.values() if isinstance(value, dict) else [value.fget if isinstance(value, property) else value]:
        function = getattr(each, "__func__", getattr(each, "func", each))  # Of a method, of a functools.partial.
        if isinstance(function, types.FunctionType) and not _is_foreign(function):
            yield function


def _names(function: types.FunctionType, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yields the values outside of a function that it names, and those of the functions of its file that it calls."""
    if id(function) in seen:
        return
    seen.add(id(function))
    names = list(_co_names(function.__code__))
    found = [(name, function.__globals__[name]) for name in names if name in function.__globals__]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # It is not filled yet.
            continue
    for name, value in found:
        if isinstance(value, types.FunctionType):
            if value.__module__ == function.__module__:
                yield from _names(value, seen)
        else:
            yield name, value


def _co_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _co_names(inner)
