"""The program of this process, which starts the tasks of a cluster on this machine as more processes of itself."""

from __future__ import annotations

import functools
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
        refuse_fork()
        return _native.run_command(self, list(arguments))


def refuse_fork() -> None:
    """Raises RuntimeError in a process that was forked from one that has run a job.

    Threads do not survive a fork, and a job in the child would wait for them.
    """
    if _first_process() != os.getpid():
        raise RuntimeError(
            f"process {os.getpid()} was forked from process {_first_process()}, which has run a job: start it by the "
            'method "spawn", for example multiprocessing.get_context("spawn")'
        )


@functools.cache
def _first_process() -> int:
    """Returns the process that called this first, in all processes that are forked from it."""
    return os.getpid()


PACKAGE = Program(sys.executable, ["-m", "trainyard"])
"""The package's own command."""


def this_program() -> Program:
    """Returns the program of this process: a script, or the package's own command."""
    script = sys.argv[0]
    if os.path.isfile(script) and os.path.basename(script) != "__main__.py":
        return Program(sys.executable, [script])
    return PACKAGE
