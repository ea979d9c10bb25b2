"""Columns of Python, arrays of numpy, series of pandas or lists, as lists of cells, which the native part writes into files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN_KINDS = "biufSU"
"""Kinds of arrays whose lists hold nothing but Python's own numbers and texts."""


def is_frame(made: Any) -> bool:
    """Returns whether a value is a frame, as that of pandas or polars."""
    return hasattr(made, "columns") and hasattr(made, "__getitem__") and not isinstance(made, Mapping)


def cells(name: str, values: Any) -> list[Any]:
    """Returns a column as a list with a cell for each record: a value, or a list of several.

    Columns of one value, `[rows, 1]`, are columns of values.
    """
    shape = tuple(getattr(values, "shape", ()))
    if len(shape) > 2:
        raise ValueError(
            f"the column `{name}` must have the shape [rows] or [rows, values], given {list(shape)}: reshape it"
        )
    kind = _kind(values)
    if kind == "m":
        raise _duration(name, values)
    if kind == "M" and _is_numpy(values):
        found = _times(values.astype(str).tolist())
    else:
        found = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(shape) == 2 and shape[1] == 1:
        found = [cell[0] for cell in found]
    if kind is not None and kind in PLAIN_KINDS:
        return list(found)
    return [_plain(name, cell) for cell in found]


def _plain(name: str, cell: Any) -> Any:
    """Returns a cell without arrays and scalars of numpy, whose own `item` makes numbers of times in nanoseconds."""
    if isinstance(cell, (list, tuple)):
        return [_plain(name, each) for each in cell]
    if not hasattr(cell, "shape"):
        return cell
    kind = _kind(cell)
    if kind == "m":
        raise _duration(name, cell)
    if kind == "M" and _is_numpy(cell):
        return _times(cell.astype(str).tolist())
    return cell.tolist() if hasattr(cell, "tolist") else cell


def _kind(values: Any) -> str | None:
    """Returns the letter that numpy has for a kind of values."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    return kind if isinstance(kind, str) else None


def _is_numpy(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "numpy"


def _duration(name: str, values: Any) -> ValueError:
    return ValueError(
        f"the column `{name}` must hold no durations, given {values.dtype}: make numbers of them, for example seconds by "
        'values / numpy.timedelta64(1, "s")'
    )


def _times(cell: Any) -> Any:
    """Returns texts of numpy's times as those that Python and pandas have for one of them, whatever its unit: a day, or a
    second of it, with a fraction of 6 or 9 digits unless that is 0.

    A text that depended on other times, as in `Series.astype(str)`, would be another value in another batch.
    """
    if isinstance(cell, list):
        return [_times(each) for each in cell]
    if cell is None or cell == "NaT":
        return None
    day, _, clock = cell.partition("T")
    if not clock:
        return day
    clock, _, fraction = clock.partition(".")
    clock += {2: ":00:00", 5: ":00"}.get(len(clock), "")
    fraction = fraction.rstrip("0")
    if not fraction:
        return f"{day} {clock}"
    return f"{day} {clock}.{fraction.ljust(6 if len(fraction) <= 6 else 9, '0')}"
