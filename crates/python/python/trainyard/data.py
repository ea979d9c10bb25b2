"""Readers of files, which run without Python: the results of an `input_fn`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

Files = Union[str, "os.PathLike[str]", Sequence[str]]

Texts = Union[str, Sequence[str]]
"""Several texts. A lone one stands for a sequence of one, as in a job file."""


def texts(given: Texts) -> list[str]:
    """Returns the texts as a list: the letters of a lone one are no texts."""
    return [given] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class Reader:
    """Files, and how they are read: the keys of `[input]` and of `[input.train]` or `[input.eval]`."""

    shared: Mapping[str, Any]
    """Keys that training and evaluation have in common."""
    part: Mapping[str, Any]
    """Keys of one of them."""


def csv(
    files: Files,
    label: str,
    *,
    positive: str | None = None,
    columns: Texts | None = None,
    batch_size: int = 128,
    shuffle: int = 0,
    num_epochs: int | None = None,
    missing: Texts | Mapping[str, Texts] = (),
    bad_rows: str = "fail",
    label_vocabulary: Texts | None = None,
) -> Reader:
    """Reads CSV files, with the columns of their first lines, or with `columns` if they have no such line.

    Args:
        files: Paths, patterns and URLs.
        label: Column of the label.
        positive: Text of the positive class of a binary classifier; a `*` at its end matches any ending.
        columns: Names of the columns of files without a first line of names.
        batch_size: Records in a batch.
        shuffle: Records in the shuffle buffer; 0 = file order.
        num_epochs: Passes over the data. None: training reads for ever, and an evaluation once.
        missing: Texts that mean a missing value, besides the empty text. A dictionary has those of columns by their names, as
            pandas' `na_values`.
        bad_rows: `fail`, or `skip` to leave out rows that cannot be read.
        label_vocabulary: Texts of the classes, for a model that is given none: the label is the place in the list.
    """
    of_columns = {name: texts(each) for name, each in missing.items()} if isinstance(missing, Mapping) else {}
    shared = {
        "format": "csv",
        "columns": None if columns is None else texts(columns),
        "missing": None if isinstance(missing, Mapping) else texts(missing) or None,
        "missing_of": of_columns or None,
        "bad_rows": bad_rows,
        "label": {"column": label, "positive": positive, "vocabulary": label_vocabulary and texts(label_vocabulary)},
    }
    return _reader(shared, files, batch_size, shuffle, num_epochs)


def parquet(
    files: Files, label: str, *, batch_size: int = 128, shuffle: int = 0, num_epochs: int | None = None
) -> Reader:
    """Reads Parquet files."""
    return _reader({"format": "parquet", "label": {"column": label}}, files, batch_size, shuffle, num_epochs)


def tfrecord(
    files: Files, label: str, *, batch_size: int = 128, shuffle: int = 0, num_epochs: int | None = None
) -> Reader:
    """Reads TFRecord files of `tf.train.Example` messages."""
    return _reader({"format": "tfrecord", "label": {"column": label}}, files, batch_size, shuffle, num_epochs)


def _reader(shared: Mapping[str, Any], files: Files, batch_size: int, shuffle: int, num_epochs: int | None) -> Reader:
    names = [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(each) for each in files]
    part = {"files": names, "batch_size": batch_size, "shuffle_rows": shuffle, "epochs": num_epochs}
    return Reader(shared, part)
