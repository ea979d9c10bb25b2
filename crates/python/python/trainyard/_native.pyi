"""The native part of the package. Its functions are called through the modules beside it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainyard.adapter import Adapter
from trainyard.callbacks import Callbacks
from trainyard.program import Program

__all__ = ["run_command", "run_module", "version", "add_rows", "write_table"]

def run_command(
    own: Program, arguments: Sequence[str], owns_signals: bool, callbacks: Callbacks | None = None
) -> tuple[int, str]: ...
def run_module(
    own: Program, arguments: Sequence[str], owns_signals: bool, factory: Callable[[str], Adapter]
) -> tuple[int, str]: ...
def add_rows(
    places: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], sums: np.ndarray[Any, Any], width: int
) -> None: ...
def write_table(path: str, columns: Sequence[tuple[str, list[Any]]]) -> list[tuple[bool, bool]]: ...
def version() -> str: ...
