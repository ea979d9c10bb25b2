"""The native part of the package. Its functions are called through the modules beside it."""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from trainyard.adapter import Adapter, Lookup
from trainyard.callbacks import Callbacks
from trainyard.console import Console
from trainyard.program import Program

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "TrainedJob",
    "add_rows",
    "fingerprints",
    "run_command",
    "run_module",
    "variable_name",
    "version",
    "write_table",
]

_Array = np.ndarray[Any, Any]

class CheckpointError(Exception):
    """A checkpoint is absent or damaged, or lacks what is asked of it."""

@final
class Checkpoint:
    def __new__(cls, model_dir: str, step: int | None = None) -> Checkpoint: ...
    @property
    def step(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def job(self) -> list[str]: ...
    def variables(self) -> list[tuple[str, list[int], int | None, bool]]: ...
    def read(self, name: str) -> _Array: ...
    def read_dynamic(self, name: str) -> tuple[_Array, _Array]: ...
    def rows(self, name: str, rows: _Array) -> _Array: ...
    def rows_of_ids(self, name: str, ids: _Array) -> tuple[_Array, _Array]: ...
    def initial_rows(self, name: str, ids: _Array) -> _Array: ...

@final
class TrainedJob:
    @staticmethod
    def of_run(model_dir: str) -> TrainedJob | None: ...
    @staticmethod
    def of_file(path: str, settings: Sequence[str] = ...) -> TrainedJob: ...
    def json(self) -> str: ...
    def shown(self, tables: Sequence[Lookup]) -> tuple[dict[str, tuple[int, int]], list[str]]: ...
    def separators(self) -> list[tuple[str, str]]: ...
    def units(self) -> int: ...
    def difference(self, trained: Sequence[str], constants: dict[str, str]) -> str | None: ...


def run_command(
    own: Program,
    arguments: Sequence[str],
    owns_signals: bool,
    callbacks: Callbacks | None = None,
    console: Console | None = None,
) -> tuple[int, str, list[tuple[str, str, str | None]]]: ...
def run_module(
    own: Program,
    arguments: Sequence[str],
    owns_signals: bool,
    factory: Callable[[str], Adapter],
    console: Console | None = None,
) -> tuple[int, str, list[tuple[str, str, str | None]]]: ...
def add_rows(
    places: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], sums: np.ndarray[Any, Any], width: int
) -> None: ...
def write_table(path: str, columns: Sequence[tuple[str, list[Any]]]) -> list[tuple[bool, bool]]: ...
def version() -> str: ...
def fingerprints(texts: Sequence[bytes]) -> _Array: ...
def variable_name(name: str) -> str: ...
