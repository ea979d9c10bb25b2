"""Data of Python as an input of a job: frames of pandas and polars, tables and streams of Arrow, and dictionaries of arrays."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard import _native
from trainyard.callbacks import role_of
from trainyard.cells import cells, is_frame
from trainyard.data import Texts, texts
from trainyard.job import Job, job_file

Separators = list[tuple[str, str]]
"""Columns of several ids in a field, with the text between them."""


@dataclass(frozen=True)
class Data:
    """Data of an argument, and the part of the input that it takes the place of."""

    argument: str
    part: str
    given: Any

    def file(self, folder: str) -> Path:
        """Returns the file that the data becomes."""
        return Path(folder, f"{self.argument}.parquet")


def settings(job: Job, given: Texts, folder: str, *data: Data, model_dir: str | None = None) -> list[str]:
    """Writes data into a folder, and returns the settings of a job, `given` and those by which it reads the data.

    Raises TypeError if data is of no kind that can be read, ValueError if it has no rows, or texts that the job would split in other
    files or knows otherwise, or if the job names a format for it, and RuntimeError in a task of a cluster.
    """
    found = [each for each in data if each.given is not None]
    if not found:
        return texts(given)
    _refuse_format(job, texts(given), found)
    if role_of(["run"], os.environ.get("TF_CONFIG")) != "alone":
        raise RuntimeError(
            "data of this process reaches no other task of the cluster that TF_CONFIG names: write it to files that all tasks read, for "
            "example frame.to_parquet(path), and name them in input.train.files"
        )
    files = [f"input.{each.part}.files={json.dumps([str(each.file(folder))])}" for each in found]
    all_of_them = [*texts(given), 'input.format="parquet"', *files]
    described = _described(job, all_of_them)
    separators = [] if described is None else described.separators()
    days = _Days(described, model_dir)
    for each in found:
        days.refuse(each)
        _write(each.given, each.file(folder), separators)
    return all_of_them


def settings_of_scores(job: Job, given: Texts, folder: str, data: Any, model_dir: str | None = None) -> list[str]:
    """As `settings`, for an evaluation or a prediction. Training files are not read, and the job may lack them."""
    own = Data("data", "eval", data)
    unread = [] if data is None else [f"input.train.files={json.dumps([str(own.file(folder))])}"]
    return settings(job, [*texts(given), *unread], folder, own, model_dir=model_dir)


def renamed(text: str, folder: str) -> str:
    """Returns a message about data without the path of its file, which is gone: the argument alone."""
    return re.sub(re.escape(folder + os.sep) + r"(data|eval_data)\.parquet", r"\1", text)


def _refuse_format(job: Job, given: list[str], data: Sequence[Data]) -> None:
    """Refuses settings of files beside data that takes their place, and the format of a job that has no files."""
    names = {f"input.{each.part}.files": each.argument for each in data}
    for setting in given:
        key = setting.partition("=")[0].strip()
        if key == "input.format" or key in names:
            raise ValueError(
                f"`{setting}` has no effect beside {names.get(key, data[0].argument)}=, which takes the place of files and has the keys of "
                "Parquet: leave one of them out"
            )
    own = job.get("input") if isinstance(job, Mapping) else None
    if not isinstance(own, Mapping) or own.get("format", "parquet") == "parquet":
        return
    if not any(isinstance(part, Mapping) and part.get("files") for part in own.values()):
        raise ValueError(
            f"input.format = {json.dumps(own['format'])} has no effect: the job has no files, and data has the keys of Parquet. Leave the "
            "key out"
        )


def _described(job: Job, settings: list[str]) -> _native.TrainedJob | None:
    """Returns what a job says of its columns; None of a wrong job, whose mistakes the run tells."""
    with job_file(job) as path:
        try:
            return _native.TrainedJob.of_file(path, settings)
        except ValueError:
            return None


class _Days:
    """Times of pandas and numpy that are ids of a model which was trained on a file of texts.

    They become texts with the time of the day, which a file may lack: pandas writes days where all times of a column are midnight.
    Any other type of times is no text, and compared by the run.
    """

    def __init__(self, described: _native.TrainedJob | None, model_dir: str | None) -> None:
        self._described = described
        self._model_dir = model_dir

    def refuse(self, data: Data) -> None:
        """Refuses midnights.

        Raises ValueError.
        """
        if self._described is None or not isinstance(data.given, Mapping) and type(data.given).__module__.partition(".")[0] != "pandas":
            return
        for name in self._described.columns_of_texts():
            column = data.given[name] if name in data.given else None
            if getattr(getattr(column, "dtype", None), "kind", None) == "M" and _are_midnights(name, column) and self._knows_texts():
                raise ValueError(
                    f"the column `{name}` of {data.argument} holds times that are all midnight, and the model was trained on texts: as "
                    "pandas writes them into a file they are days, and here they become `2024-02-29 00:00:00`. Make texts of them as the "
                    f'file has them, for example frame[{name!r}].dt.strftime("%Y-%m-%d")'
                )

    def _knows_texts(self) -> bool:
        """Returns whether the newest checkpoint was trained on files of texts."""
        assert self._described is not None
        try:
            lines = _native.Checkpoint(os.fspath(self._model_dir or self._described.model_dir())).job
        except _native.CheckpointError:
            return False
        return not {'input.format="csv"', 'input.format="tsv"'}.isdisjoint(lines)


def _are_midnights(name: str, column: Any) -> bool:
    found = [str(cell) for cell in cells(name, column) if cell is not None]
    return all(re.fullmatch(r"[-+0-9]+ 00:00:00(\+00:00)?", text) for text in found if text != "NaT") and bool(found)


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
