"""Inputs of estimators: readers of files, or batches in memory, which become a file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Union

from trainyard.data import Reader

InputFn = Callable[[], Union[Reader, Iterable[Any]]]
"""A function that returns a reader, or batches: a dictionary of arrays, or a pair of such a dictionary and labels."""

LABEL = "label"
"""Column of the labels of batches, in the file that they become."""
RECORDS_MAX = 10_000_000
"""Most records of batches. An endless generator must not fill the disk."""


def read(input_fn: InputFn, file: Path) -> Reader:
    """Returns the reader of an input function. Batches are written to `file` first.

    Raises TypeError if the function returns something else, ValueError if the batches are endless.
    """
    made = input_fn()
    if isinstance(made, Reader):
        return made
    if isinstance(made, Mapping) or _is_pair(made):
        made = [made]
    elif hasattr(made, "columns") and hasattr(made, "to_dict"):
        frame: Any = made
        made = [{name: frame[name] for name in frame.columns}]
    if not isinstance(made, Iterable):
        raise TypeError(
            f"input_fn must return a reader of trainyard.data, or batches, given a {type(made).__name__}"
        )
    rows = _write(made, file)
    return Reader(
        {"format": "csv", "label": {"column": LABEL}},
        {"files": [str(file)], "batch_size": max(rows, 1), "shuffle_rows": 0, "epochs": 1},
    )


def _is_pair(batch: Any) -> bool:
    return isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[0], Mapping)


def _write(batches: Iterable[Any], file: Path) -> int:
    """Writes batches as CSV, and returns the records of the first."""
    first = 0
    records = 0
    names: list[str] = []
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        for batch in batches:
            features, labels = batch if _is_pair(batch) else (batch, None)
            if not isinstance(features, Mapping):
                raise TypeError(f"a batch must be a dictionary of arrays, given a {type(features).__name__}")
            if not names:
                names = list(features)
                writer.writerow([*names, LABEL])
            if list(features) != names:
                raise ValueError(f"every batch must have the columns {names}, given {list(features)}")
            columns = [_plain(features[name]) for name in names]
            columns.append([0] * len(columns[0]) if labels is None else _plain(labels))
            if len({len(column) for column in columns}) > 1:
                lengths = dict(zip([*names, LABEL], map(len, columns), strict=True))
                raise ValueError(f"the columns of a batch must have one length, given {lengths}")
            writer.writerows(zip(*columns, strict=True))
            first = first or len(columns[0])
            records += len(columns[0])
            if records > RECORDS_MAX:
                raise ValueError(
                    f"input_fn must return at most {RECORDS_MAX} records, and has returned {records}: write them to "
                    "files, and return a reader of trainyard.data"
                )
    return first


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
