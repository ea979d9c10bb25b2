"""Trained values as arrays: the vectors of a table, or of some of its ids, out of a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

import numpy as np

from trainyard import _native
from trainyard._native import CheckpointError

Array = np.ndarray[Any, Any]
ModelDir = Union[str, "os.PathLike[str]"]
Text = Union[str, bytes, int]

MISSING = ("error", "zeros", "as_predicted")
"""What the row of an id without one is: an error, zeros, or the row that predictions read."""
NAMES_MAX = 10
"""Most ids in a message."""


class UnknownIdError(KeyError):
    """A table has no row of an id."""

    ids: list[int]
    """The ids without a row, each once, ascending."""

    def __init__(self, table: str, ids: Sequence[int], remedy: str) -> None:
        super().__init__(ids[0])
        self.ids = list(ids)
        shown = ", ".join(str(each) for each in self.ids[:NAMES_MAX])
        rest = len(self.ids) - NAMES_MAX
        more = f" and {rest} more" if rest > 0 else ""
        self._message = f"`{table}` has no row of {shown}{more}: {remedy}"

    def __str__(self) -> str:
        return self._message


class Vectors(NamedTuple):
    """The rows of a table."""

    ids: Array
    """Ids, `[rows]`, uint64, ascending."""
    values: Array
    """Values of each id, `[rows, dimension]`, float32; of a variable of another shape, in its shape."""


@dataclass(frozen=True)
class Variable:
    """A variable of a checkpoint."""

    name: str
    shape: list[int]
    """Dimensions; the first one of a dynamic table is the most rows that it may have."""
    rows_used: int | None
    """Rows of a dynamic table; None for any other variable."""
    shares_row: bool
    """Ids without a row read one that they share."""

    @property
    def is_dynamic(self) -> bool:
        """Whether ids get rows as they occur."""
        return self.rows_used is not None

    @property
    def row_shape(self) -> list[int]:
        """The shape of a row."""
        return self.shape[1:]

    @property
    def rows(self) -> int:
        """The number of rows of a variable that is no dynamic table."""
        return self.shape[0] if self.shape else 1

    @property
    def shared_row(self) -> str:
        """The variable of the row that ids without one share."""
        return f"{self.name}/shared_row"

    def __str__(self) -> str:
        if self.rows_used is None:
            return f"{self.name} {self.shape}"
        return f"{self.name} [{self.rows_used} ids, {', '.join(str(size) for size in self.row_shape)}]"


class Checkpoint:
    """An opened checkpoint."""

    def __init__(self, model_dir: ModelDir, step: int | None) -> None:
        """Opens the checkpoint of a step, by default the newest one.

        Raises CheckpointError if there is none, or it is damaged.
        """
        if step is not None and step < 0:
            raise ValueError(f"step must be >= 0, given {step}")
        self.native = _native.Checkpoint(os.fspath(model_dir), step)
        self.variables = {found[0]: Variable(*found) for found in self.native.variables()}

    def variable(self, name: str | None) -> Variable:
        """Returns a variable by its name.

        Raises CheckpointError with the names of all if there is no such variable.
        """
        found = None if name is None else self.variables.get(name)
        if found is None:
            what = "give the name of a variable" if name is None else f"there is no variable `{name}`"
            all_of_them = "\n  ".join(str(each) for each in self.variables.values())
            raise CheckpointError(f"{what}: {self.native.path} has\n  {all_of_them}")
        return found

    def vectors(self, variable: Variable) -> Vectors:
        """Returns all rows of a variable."""
        if variable.is_dynamic:
            ids, values = self.native.read_dynamic(variable.name)
            return Vectors(ids, values.reshape(len(ids), *variable.row_shape))
        values = self.native.read(variable.name).reshape(variable.shape)
        return Vectors(np.arange(variable.rows, dtype=np.uint64), values)

    def lookup(self, variable: Variable, ids: Array, missing: str) -> Array:
        """Returns the rows of ids of 64 bits without sign, in their order."""
        shape = (len(ids), *variable.row_shape)
        if not variable.is_dynamic:
            return self._rows(variable, ids, missing).reshape(shape)
        flat, found = self.native.rows_of_ids(variable.name, ids)
        values = flat.reshape(shape)
        if missing == "error" and not found.all():
            remedy = 'ask for missing="zeros", or for the row that predictions read, missing="as_predicted"'
            raise UnknownIdError(variable.name, _each_once(ids[~found]), remedy)
        if missing == "as_predicted" and not found.all():
            values[~found] = self._predicted(variable, ids[~found])
        return values

    def _rows(self, variable: Variable, ids: Array, missing: str) -> Array:
        inside = ids < variable.rows
        if inside.all():
            return self.native.rows(variable.name, ids)
        if missing != "zeros":
            # Columns of features give no such id, so that predictions read no row for it.
            raise UnknownIdError(variable.name, _each_once(ids[~inside]), f"its ids are 0 to {variable.rows - 1}")
        values = np.zeros((len(ids), *variable.row_shape), dtype=np.float32)
        values[inside] = self.native.rows(variable.name, ids[inside]).reshape(-1, *variable.row_shape)
        return values

    def _predicted(self, variable: Variable, ids: Array) -> Array:
        """Returns the rows that predictions read for ids without one."""
        if variable.shares_row:
            return self.native.read(variable.shared_row).reshape(variable.row_shape)
        return self.native.initial_rows(variable.name, ids).reshape(len(ids), *variable.row_shape)


def vectors(model_dir: ModelDir, table: str | None = None, *, step: int | None = None) -> Vectors:
    """Returns the ids and values of a table, or of another variable, of the newest checkpoint, or of that of a step.

    The ids of a dynamic table are the fingerprints of its values, as `fingerprint64` returns them; those of any other variable
    are the numbers of its rows. Each checksum of what is read is compared.

    Raises CheckpointError if there is no such checkpoint or variable, with what there is, or if a file is damaged.
    """
    checkpoint = Checkpoint(model_dir, step)
    return checkpoint.vectors(checkpoint.variable(table))


def lookup(
    model_dir: ModelDir, table: str, ids: Any, *, step: int | None = None, missing: str = "error"
) -> Array:
    """Returns the rows of ids, float32, `[ids, dimension]`, in their order. Of the values, only these rows are read.

    The ids of a dynamic table are fingerprints, as `fingerprint64` returns them. An id without a row raises UnknownIdError, which
    is a KeyError, or with `missing="zeros"` has zeros. With `missing="as_predicted"` it has the row that predictions read: that
    which ids without a row share if the feature has `shared_row = true`, otherwise its initial values.

    Raises CheckpointError if there is no such checkpoint or variable, with what there is, or if a file is damaged. A checksum is
    that of a whole tensor: it is compared unless the tensor has more than 64 MiB.
    """
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(MISSING)}, given {missing!r}")
    checkpoint = Checkpoint(model_dir, step)
    return checkpoint.lookup(checkpoint.variable(table), _ids(ids), missing)


def fingerprint64(values: Text | Sequence[Text] | Array) -> Any:
    """Returns the 64-bit fingerprint of a value, TensorFlow's, or an array of those of several: the ids of dynamic tables.

    A value is a text, bytes, or a whole number, which has the fingerprint of its decimal text. A hashed feature of `buckets` has
    the id `fingerprint64(value) % buckets`.
    """
    if isinstance(values, (str, bytes, int, np.integer)):
        return int(_native.fingerprints([_bytes(values)])[0])
    return _native.fingerprints([_bytes(value) for value in values])


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value)).encode()
    raise TypeError(f"a value must be a text, bytes or a whole number, given a {type(value).__name__}")


def _ids(given: Any) -> Array:
    """Returns ids as whole numbers of 64 bits without sign."""
    ids = np.asarray(given)
    if ids.size == 0 and ids.ndim == 1:
        return np.zeros(0, dtype=np.uint64)
    if ids.ndim != 1:
        raise ValueError(f"ids must be a list or an array of shape [ids], given the shape {list(ids.shape)}")
    if ids.dtype.kind == "f" and not isinstance(given, np.ndarray):
        # Whole numbers above and below 2^63 side by side.
        ids = np.asarray(given, dtype=object)
    if ids.dtype.kind not in "iuO" or not all(_is_whole(each) for each in (ids if ids.dtype.kind == "O" else ())):
        raise TypeError(
            f"ids must be whole numbers, given {ids.dtype}: trainyard.fingerprint64 returns those of texts in a dynamic table"
        )
    outside = [int(each) for each in ids if not 0 <= int(each) < 1 << 64] if ids.dtype.kind != "u" else []
    if outside:
        raise ValueError(f"ids must be 0 to 2^64-1, given {outside[0]}")
    return np.ascontiguousarray(ids.astype(np.uint64))


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _each_once(ids: Array) -> list[int]:
    return [int(each) for each in np.unique(ids)]
