"""Inputs of estimators: readers of files, or batches of Python, which become files."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from trainyard.data import Reader

InputFn = Callable[..., Union[Reader, Iterable[Any]]]
"""A function that returns a reader, or batches: a dictionary of arrays, or a pair of such a dictionary and labels.

It may have an argument `global_step`: the steps of the checkpoint from which training goes on.
"""

LABEL = "label"
"""Column of the labels of batches, in the file that they become."""
RECORDS_MAX = 10_000_000
"""Most records of batches that must be in one file: those of evaluations, and those of a task of a cluster."""
PART_RECORDS = 100_000
"""Records of a part of the training batches. A part is a file and a run, so that batches may be endless."""


@dataclass(frozen=True)
class Rows:
    """Records of batches, in their order, and what the batches have in common."""

    names: list[str]
    """Columns, with that of the labels."""
    batch_size: int
    """Records of the first batch."""
    records: Iterator[tuple[Any, ...]]


def read(input_fn: InputFn, file: Path, global_step: int = 0) -> Reader:
    """Returns the reader of an input function. Batches are written to `file` first.

    Raises TypeError if the function returns something else, ValueError if the batches are endless.
    """
    made = _made(input_fn, global_step)
    if isinstance(made, Reader):
        return made
    rows = _rows(made)
    if _write(rows, file, RECORDS_MAX) == RECORDS_MAX and next(rows.records, None) is not None:
        raise ValueError(
            f"input_fn must return at most {RECORDS_MAX} records: write them to files, and return a reader of "
            "trainyard.data"
        )
    return _reader(file, rows)


def parts(input_fn: InputFn, folder: Path, global_step: int) -> Iterator[Reader]:
    """Yields the readers of an input function of training, in order.

    A reader of files is one. Batches are written a part at a time, to files that replace each other, so that disk and
    memory hold one part however many batches there are.
    """
    made = _made(input_fn, global_step)
    if isinstance(made, Reader):
        yield made
        return
    rows = _rows(made)
    # Whole batches, so that a step is a batch in each part.
    records = max(PART_RECORDS // rows.batch_size, 1) * rows.batch_size
    part = 0
    while True:
        # A part has a name of its own: a run reads a file that it does not know from its start.
        file = folder / f"part-{part}.csv"
        if _write(rows, file, records) == 0 and part > 0:
            return
        yield _reader(file, rows)
        file.unlink()
        part += 1


def _made(input_fn: InputFn, global_step: int) -> Reader | Iterable[Any]:
    takes_step = "global_step" in inspect.signature(input_fn).parameters
    made: Any = input_fn(global_step=global_step) if takes_step else input_fn()
    if isinstance(made, Reader):
        return made
    if isinstance(made, Mapping) or _is_pair(made):
        return [made]
    if hasattr(made, "columns") and hasattr(made, "to_dict"):
        return [{name: made[name] for name in made.columns}]
    if not isinstance(made, Iterable):
        raise TypeError(
            f"input_fn must return a reader of trainyard.data, or batches, given a {type(made).__name__}"
        )
    return made


def _reader(file: Path, rows: Rows) -> Reader:
    return Reader(
        {"format": "csv", "label": {"column": LABEL}},
        {"files": [str(file)], "batch_size": max(rows.batch_size, 1), "shuffle_rows": 0, "epochs": 1},
    )


def _is_pair(batch: Any) -> bool:
    return isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[0], Mapping)


def _rows(batches: Iterable[Any]) -> Rows:
    """Returns the records of batches. The first batch is read, and says what all of them have."""
    each = iter(batches)
    first = next(each, None)
    if first is None:
        raise ValueError("input_fn must return at least one batch, and has returned none")
    features, _ = _halves(first)
    names = list(features)
    columns = _columns(first, names)

    def records() -> Iterator[tuple[Any, ...]]:
        yield from zip(*columns, strict=True)
        for batch in each:
            yield from zip(*_columns(batch, names), strict=True)

    return Rows([*names, LABEL], len(columns[0]), records())


def _halves(batch: Any) -> tuple[Mapping[str, Any], Any]:
    """Returns features and labels of a batch."""
    features, labels = batch if _is_pair(batch) else (batch, None)
    if not isinstance(features, Mapping):
        raise TypeError(f"a batch must be a dictionary of arrays, given a {type(features).__name__}")
    return features, labels


def _columns(batch: Any, names: list[str]) -> list[list[Any]]:
    """Returns the columns of a batch, with that of the labels."""
    features, labels = _halves(batch)
    if list(features) != names:
        raise ValueError(f"every batch must have the columns {names}, given {list(features)}")
    columns = [_plain(features[name]) for name in names]
    columns.append([0] * len(columns[0]) if labels is None else _plain(labels))
    if len({len(column) for column in columns}) > 1:
        lengths = dict(zip([*names, LABEL], map(len, columns), strict=True))
        raise ValueError(f"the columns of a batch must have one length, given {lengths}")
    return columns


def _write(rows: Rows, file: Path, most: int) -> int:
    """Writes the next records as CSV, and returns their number."""
    written = 0
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(rows.names)
        while written < most and (record := next(rows.records, None)) is not None:
            writer.writerow(record)
            written += 1
    return written


def _plain(values: Any) -> list[Any]:
    """Returns an array as a list of texts and numbers."""
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    return [
        value.decode() if isinstance(value, bytes) else int(value) if isinstance(value, bool) else _single(value)
        for value in plain
    ]


def _single(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    return value
