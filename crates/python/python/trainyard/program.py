"""The program of this process, which starts the tasks of a cluster on this machine as more processes of itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from trainyard import _native


@dataclass(frozen=True)
class Program:
    """A command that begins this program once more."""

    file: str
    """The interpreter."""
    leading: list[str]
    """Its first arguments: the script, or a module."""

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command line with these arguments, and returns its exit code."""
        return _native.run_command(self, list(arguments))


PACKAGE = Program(sys.executable, ["-m", "trainyard"])
"""The package's own command."""


def this_program() -> Program:
    """Returns the program of this process: a script, or the package's own command."""
    script = sys.argv[0]
    if os.path.isfile(script) and os.path.basename(script) != "__main__.py":
        return Program(sys.executable, [script])
    return PACKAGE
