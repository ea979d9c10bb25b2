"""The program of this process, which starts the tasks of a cluster on this machine as more processes of itself."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

from trainyard import _native

if TYPE_CHECKING:
    from trainyard.adapter import Adapter
    from trainyard.callbacks import Callbacks


class Runner(Protocol):
    """Runs command lines in this process."""

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command line with these arguments, and returns its exit code."""
        ...


@dataclass(frozen=True)
class Program:
    """A command that begins this program once more, for the premade models."""

    file: str
    """The interpreter."""
    leading: list[str]
    """Its first arguments: the script, or a module."""

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command line with these arguments, and returns its exit code."""
        refuse_fork()
        return _native.run_command(self, list(arguments))


@dataclass(frozen=True)
class ObservedProgram:
    """A program for the premade models, whose runs call callbacks."""

    program: Program
    callbacks: Callbacks

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command line with these arguments, and returns its exit code."""
        refuse_fork()
        return _within(self.callbacks, lambda: _native.run_command(self.program, list(arguments), self.callbacks))


@dataclass(frozen=True)
class ModelProgram:
    """A program for a model in Python."""

    program: Program
    build: Callable[[str], Adapter]
    """Builds the model of a job, which is JSON."""
    callbacks: Callbacks | None = None

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command line with these arguments, and returns its exit code."""
        refuse_fork()
        return _within(self.callbacks, lambda: _native.run_module(self.program, list(arguments), self._built))

    def _built(self, job: str) -> Adapter:
        adapter = self.build(job)
        adapter.callbacks = self.callbacks
        return adapter


def _within(callbacks: Callbacks | None, run: Callable[[], int]) -> int:
    """Runs between the begin and the end of callbacks."""
    if callbacks is None:
        return run()
    callbacks.begin()
    code = run()
    if code == 0:
        callbacks.end()
    return code


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


def run_to_exit(runner: Runner) -> NoReturn:
    """Runs the command line of this process, and exits with its code."""
    # The job handles an interrupt: it writes a checkpoint and ends. Python must not raise KeyboardInterrupt after it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(runner.run(sys.argv[1:]))
