"""Data of Python as an input of a job: frames of pandas and polars, tables and streams of Arrow, and dictionaries of arrays."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard import _native
from trainyard.callbacks import role_of
from trainyard.cells import cells, is_frame
from trainyard.data import Texts, texts
from trainyard.job import Job, job_file

Separators = list[tuple[str, str]]
"""Columns of several ids in a field, with the text between them."""


def settings(job: Job, given: Texts, folder: str, **parts: Any) -> list[str]:
    """Writes data into a folder, and returns the settings of a job, `given` and those by which it reads the data.

    `parts` are the data of `[input.train]` and `[input.eval]` by their names.

    Raises TypeError if data is of no kind that can be read, ValueError if it has no rows, or texts that the job would split in other
    files, and RuntimeError in a task of a cluster.
    """
    found = {part: data for part, data in parts.items() if data is not None}
    if not found:
        return texts(given)
    if role_of(["run"], os.environ.get("TF_CONFIG")) != "alone":
        raise RuntimeError(
            "data of this process reaches no other task of the cluster that TF_CONFIG names: write it to files that all tasks read, for "
            "example frame.to_parquet(path), and name them in input.train.files"
        )
    files = {part: Path(folder, f"{part}.parquet") for part in found}
    own = ['input.format="parquet"', *(f"input.{part}.files={json.dumps([str(file)])}" for part, file in files.items())]
    all_of_them = [*texts(given), *own]
    separators = _separators(job, all_of_them)
    for part, data in found.items():
        _write(data, files[part], separators)
    return all_of_them


def settings_of_scores(job: Job, given: Texts, folder: str, data: Any) -> list[str]:
    """As `settings`, for an evaluation or a prediction. Training files are not read, and the job may lack them."""
    if data is None:
        return texts(given)
    unread = f"input.train.files={json.dumps([str(Path(folder, 'eval.parquet'))])}"
    return settings(job, [*texts(given), unread], folder, eval=data)


def _separators(job: Job, settings: list[str]) -> list[tuple[str, str]]:
    """Returns the columns of several ids in a field, with the text between them. Of a wrong job, the run tells the mistakes."""
    with job_file(job) as path:
        try:
            return _native.TrainedJob.of_file(path, settings).separators()
        except ValueError:
            return []


def _write(data: Any, file: Path, separators: Separators) -> None:
    """Writes data into a file of Parquet, in its order."""
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, Mapping) or (module == "pandas" and is_frame(data)):
        _write_columns(data, file, separators)
    elif module == "polars" and hasattr(data, "write_parquet"):
        _write_polars(data, file, separators)
    elif hasattr(data, "__arrow_c_stream__"):
        _write_stream(data, file, separators)
    else:
        raise TypeError(
            "data must be a frame of pandas or polars, a table or stream of Arrow, or a dictionary of arrays, given a "
            f"{type(data).__module__}.{type(data).__name__}"
        )


def _write_columns(data: Any, file: Path, separators: Separators) -> None:
    """Writes a frame of pandas, or a dictionary of arrays."""
    names = list(data) if isinstance(data, Mapping) else list(data.columns)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong or len(set(names)) < len(names):
        what = f"given {wrong[0]!r}" if wrong else f"given {names}"
        raise ValueError(f"the columns of data must have texts as names, each once, {what}: rename them")
    columns = [(name, cells(name, data[name])) for name in names]
    lengths = {name: len(values) for name, values in columns}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of data must have one length, given {lengths}")
    _refuse_empty(next(iter(lengths.values()), 0))
    for name, separator in separators:
        for cell in dict(columns).get(name, ()):
            if (isinstance(cell, str) and separator in cell) or (isinstance(cell, bytes) and separator.encode() in cell):
                raise _joined(name, separator)
    for (name, _), (_, is_shortened) in zip(columns, _native.write_table(str(file), columns), strict=True):
        if is_shortened:
            raise ValueError(f"a list in the column `{name}` has missing values beside others: remove or replace them")


def _write_polars(data: Any, file: Path, separators: Separators) -> None:
    """Writes a frame of polars."""
    polars = importlib.import_module("polars")
    _refuse_empty(data.height)
    for name, separator in separators:
        if name in data.columns and not data[name].dtype.is_nested():
            found = data[name].cast(polars.String, strict=False).str.contains(separator, literal=True)
            if found.any():
                raise _joined(name, separator)
    data.write_parquet(file)


def _write_stream(data: Any, file: Path, separators: Separators) -> None:
    """Writes a table or stream of Arrow, a batch at a time."""
    try:
        pyarrow = importlib.import_module("pyarrow")
        compute = importlib.import_module("pyarrow.compute")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError("a stream of Arrow needs pyarrow: pip install pyarrow") from None
    rows = 0
    reader = pyarrow.RecordBatchReader.from_stream(data)
    types = pyarrow.types
    kinds = [getattr(types, kind) for kind in ("is_string", "is_large_string", "is_string_view", "is_dictionary") if hasattr(types, kind)]
    of_texts = {field.name for field in reader.schema if any(is_kind(field.type) for is_kind in kinds)}
    split = [(name, separator) for name, separator in separators if name in of_texts]
    with parquet.ParquetWriter(file, reader.schema) as writer:
        for batch in reader:
            for name, separator in split:
                if compute.any(compute.match_substring(batch.column(name).cast("string"), separator)).as_py():
                    raise _joined(name, separator)
            writer.write_batch(batch)
            rows += batch.num_rows
    _refuse_empty(rows, ", or is a stream that was read before: make one for each call")


def _joined(column: str, separator: str) -> ValueError:
    return ValueError(
        f"a text in the column `{column}` holds the separator {separator!r} of its feature, and texts of data are not split: make lists "
        f"of them, for example frame[{column!r}].str.split({separator!r}), or give the feature another separator if it belongs to the text"
    )


def _refuse_empty(rows: int, otherwise: str = "") -> None:
    if rows == 0:
        raise ValueError(f"data must have at least one row, and has none{otherwise}")
