"""Inputs of estimators: readers of files, or batches of Python, which become files."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union

from trainyard import _native
from trainyard.cells import cells, is_frame
from trainyard.data import Reader

InputFn = Callable[..., Union[Reader, Iterable[Any]]]
"""A function that returns a reader, or batches: a dictionary of arrays, or a pair of such a dictionary and labels.

It may have an argument `global_step`: the steps of the checkpoint from which training goes on.
"""

LABEL = "__label__"
"""Column of the labels of batches, in the files that they become. No feature may have the name."""
RECORDS_MAX = 10_000_000
"""Most records of batches that must be in files at once: those of evaluations, and those of a task of a cluster."""
PART_RECORDS = 100_000
"""Records of a file of batches. Training has one such file at a time, so that its batches may be endless."""


class Labels(Enum):
    """What the labels of batches are for."""

    READ = "read"
    """Training and evaluations read them."""
    UNREAD = "unread"
    """A prediction does without."""


@dataclass(frozen=True)
class BatchReader(Reader):
    """A reader of the files that batches have become."""

    lists: frozenset[str]
    """Columns whose records have several values."""
    shortened: frozenset[str]
    """Columns of which a record has missing values beside others. They are left out."""


@dataclass(frozen=True)
class Rows:
    """Records of batches, in their order, and what the batches have in common."""

    names: list[str]
    """Columns, with that of the labels."""
    batch_size: int
    """Records of the first batch."""
    records: Iterator[tuple[Any, ...]]


def read(input_fn: InputFn, folder: Path, labels: Labels = Labels.READ, global_step: int = 0) -> Reader:
    """Returns the reader of an input function. Batches are written to files in `folder` first.

    Raises TypeError if the function returns something else, ValueError if the batches are endless or have no labels
    although those are read.
    """
    made = _made(input_fn, global_step)
    if isinstance(made, Reader):
        return made
    rows = _rows(made, labels)
    folder.mkdir(exist_ok=True)
    files: list[Path] = []
    readers: list[BatchReader] = []
    for begin in range(0, RECORDS_MAX, PART_RECORDS):
        file = folder / f"part-{len(files):05}.parquet"
        written = _write(rows, file, min(PART_RECORDS, RECORDS_MAX - begin))
        if written is None:
            break
        files.append(file)
        readers.append(written)
    else:
        if next(rows.records, None) is not None:
            raise ValueError(
                f"input_fn must return at most {RECORDS_MAX} records: write them to files, and return a reader of "
                "trainyard.data"
            )
    if not readers:
        raise ValueError("input_fn must return at least one record, and its batches are empty")
    return BatchReader(
        readers[0].shared,
        {**readers[0].part, "files": [str(file) for file in files]},
        lists=frozenset().union(*(reader.lists for reader in readers)),
        shortened=frozenset().union(*(reader.shortened for reader in readers)),
    )


def parts(input_fn: InputFn, folder: Path, global_step: int) -> Iterator[Reader]:
    """Yields the readers of an input function of training, in order.

    A reader of files is one. Batches are written a part at a time, to files that replace each other, so that disk and
    memory hold one part however many batches there are.
    """
    made = _made(input_fn, global_step)
    if isinstance(made, Reader):
        yield made
        return
    rows = _rows(made, Labels.READ)
    # Whole batches, so that a step is a batch in each part.
    records = max(PART_RECORDS // max(rows.batch_size, 1), 1) * max(rows.batch_size, 1)
    for part in itertools.count():
        # A part has a name of its own: a run reads a file that it does not know from its start.
        file = folder / f"part-{part}.parquet"
        reader = _write(rows, file, records)
        if reader is None:
            if part == 0:
                raise ValueError("input_fn must return at least one record, and its batches are empty")
            return
        yield reader
        file.unlink()


def first(input_fn: InputFn, folder: Path) -> Reader:
    """Returns the reader of an input function whose records this process does not need.

    Of batches, the first is read: it says the keys that all tasks of a job share.
    """
    made = _made(input_fn, 0)
    if isinstance(made, Reader):
        return made
    rows = _rows(itertools.islice(made, 1), Labels.READ)
    folder.mkdir(exist_ok=True)
    reader = _write(rows, folder / "part-00000.parquet", max(rows.batch_size, 1))
    if reader is None:
        raise ValueError("input_fn must return at least one record, and its first batch is empty")
    return reader


def _made(input_fn: InputFn, global_step: int) -> Reader | Iterable[Any]:
    takes_step = "global_step" in inspect.signature(input_fn).parameters
    made: Any = input_fn(global_step=global_step) if takes_step else input_fn()
    if isinstance(made, Reader):
        return made
    if isinstance(made, Mapping) or is_frame(made) or _is_pair(made):
        return [made]
    if not isinstance(made, Iterable):
        raise TypeError(
            f"input_fn must return a reader of trainyard.data, or batches, given a {type(made).__name__}"
        )
    return made


def _is_pair(batch: Any) -> bool:
    return isinstance(batch, tuple) and len(batch) == 2 and (isinstance(batch[0], Mapping) or is_frame(batch[0]))


def _rows(batches: Iterable[Any], labels: Labels) -> Rows:
    """Returns the records of batches. The first batch is read, and says what all of them have."""
    each = iter(batches)
    first = next(each, None)
    if first is None:
        raise ValueError("input_fn must return at least one batch, and has returned none")
    features, _ = _halves(first)
    names = list(features)
    if LABEL in names:
        raise ValueError(f"no feature may have the name {LABEL!r}, which is that of the labels: rename it")
    columns = _columns(first, names, labels)

    def records() -> Iterator[tuple[Any, ...]]:
        yield from zip(*columns, strict=True)
        for batch in each:
            yield from zip(*_columns(batch, names, labels), strict=True)

    return Rows([*names, LABEL], len(columns[0]), records())


def _halves(batch: Any) -> tuple[Mapping[str, Any], Any]:
    """Returns features and labels of a batch."""
    features, labels = batch if _is_pair(batch) else (batch, None)
    if is_frame(features):
        features = {name: features[name] for name in features.columns}
    if not isinstance(features, Mapping):
        raise TypeError(f"a batch must be a dictionary of arrays, given a {type(features).__name__}")
    return features, labels


def _columns(batch: Any, names: list[str], wanted: Labels) -> list[list[Any]]:
    """Returns the columns of a batch, with that of the labels."""
    features, labels = _halves(batch)
    if list(features) != names:
        raise ValueError(f"every batch must have the columns {names}, given {list(features)}")
    if labels is None and wanted is Labels.READ:
        raise ValueError(
            "input_fn must return (features, labels) to train or evaluate, given features alone: "
            f"{', '.join(map(str, names))}. Of a frame: lambda: (frame.drop(columns=['clicked']), frame['clicked'])"
        )
    columns = [cells(name, features[name]) for name in names]
    # A prediction reads no label, and the column is there nevertheless.
    columns.append([0] * len(columns[0]) if labels is None else cells(LABEL, labels))
    if len({len(column) for column in columns}) > 1:
        lengths = dict(zip([*names, LABEL], map(len, columns), strict=True))
        raise ValueError(f"the columns of a batch must have one length, given {lengths}")
    return columns


def _write(rows: Rows, file: Path, most: int) -> BatchReader | None:
    """Writes the next records as Parquet, and returns their reader; None if there are none."""
    records = list(itertools.islice(rows.records, most))
    if not records:
        return None
    columns = [list(column) for column in zip(*records, strict=True)]
    found = _native.write_table(str(file), list(zip(rows.names, columns, strict=True)))
    named = list(zip(rows.names, found, strict=True))
    return BatchReader(
        {"format": "parquet", "label": {"column": LABEL}},
        {"files": [str(file)], "batch_size": max(rows.batch_size, 1), "shuffle_rows": 0, "epochs": 1},
        lists=frozenset(name for name, (is_list, _) in named if is_list),
        shortened=frozenset(name for name, (_, is_shortened) in named if is_shortened),
    )
