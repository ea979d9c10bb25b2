"""The native part of the package. Its functions are called through the modules beside it."""

from collections.abc import Callable, Sequence
from typing import Any

from trainyard.program import Program

def run_command(own: Program, arguments: Sequence[str]) -> int: ...
def run_module(own: Program, arguments: Sequence[str], factory: Callable[[str], Any]) -> int: ...
def version() -> str: ...
