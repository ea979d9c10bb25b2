"""The program of this process, which starts the tasks of a cluster on this machine as more processes of itself."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

from trainyard import _native
from trainyard.callbacks import Callbacks, role_of
from trainyard.console import Console

if TYPE_CHECKING:
    from trainyard.adapter import Adapter


USAGE = 64
"""Exit code of a wrong command line. A supervisor does not restart a task that ends with it."""
ENDS_WITH = "TRAINYARD_ENDS_WITH"
"""Environment variable in which `up` passes its process id to the tasks that it starts."""


class Ended(NamedTuple):
    """The end of a command line."""

    code: int
    """Exit code."""
    messages: str
    """The messages of a failure, as they are on standard error."""
    problems: Sequence[tuple[str, str, str | None]] = ()
    """The same one by one: code, text, and place. A wrong command line has none."""


class Runner(Protocol):
    """Runs command lines in this process."""

    def run(self, arguments: Sequence[str], *, owns_signals: bool = False, console: Console | None = None) -> Ended:
        """Runs the command line with these arguments.

        Handlers of Python receive the signals meanwhile: an exception of theirs, such as KeyboardInterrupt, ends the run, and is
        raised when the run has ended. With `owns_signals`, the run catches the signals itself, as the command does. `console`
        receives what the run would print.
        """
        ...


@dataclass(frozen=True)
class Program:
    """A command that begins this program once more, for the premade models."""

    file: str
    """The interpreter."""
    leading: list[str]
    """Its first arguments: the script, or a module."""

    def run(self, arguments: Sequence[str], *, owns_signals: bool = False, console: Console | None = None) -> Ended:
        """Runs the command line with these arguments."""
        _check_process(arguments)
        with _terminable(owns_signals):
            return Ended(*_native.run_command(self, list(arguments), owns_signals, None, console))


@dataclass(frozen=True)
class ObservedProgram:
    """A program for the premade models, whose runs call callbacks."""

    program: Program
    callbacks: Callbacks

    def run(self, arguments: Sequence[str], *, owns_signals: bool = False, console: Console | None = None) -> Ended:
        """Runs the command line with these arguments."""
        _check_process(arguments)
        with _terminable(owns_signals):
            return _within(
                self.callbacks,
                arguments,
                lambda: _native.run_command(self.program, list(arguments), owns_signals, self.callbacks, console),
            )


@dataclass(frozen=True)
class ModelProgram:
    """A program for a model in Python."""

    program: Program
    build: Callable[[str], Adapter]
    """Builds the model of a job, which is JSON."""
    callbacks: Callbacks | None = None

    def run(self, arguments: Sequence[str], *, owns_signals: bool = False, console: Console | None = None) -> Ended:
        """Runs the command line with these arguments."""
        _check_process(arguments)
        if arguments[:1] == ["up"] and self.program == PACKAGE:
            return _refused(
                "`up` starts the program of this process once for each task, and a notebook, or a session of an interpreter, is "
                "no program that can be started",
                "write the model and its call of `main` to a file, and run `python FILE.py up ...`",
            )
        with _terminable(owns_signals):
            return _within(
                self.callbacks,
                arguments,
                lambda: _native.run_module(self.program, list(arguments), owns_signals, self._built, console),
            )

    def _built(self, job: str) -> Adapter:
        adapter = self.build(job)
        adapter.callbacks = self.callbacks
        return adapter


def _within(
    callbacks: Callbacks | None,
    arguments: Sequence[str],
    run: Callable[[], tuple[int, str, list[tuple[str, str, str | None]]]],
) -> Ended:
    """Runs between the begin and the end of callbacks, if the command has events for them."""
    if callbacks is None or arguments[:1] not in (["train"], ["run"]):
        return Ended(*run())
    callbacks.begin(role_of(arguments, os.environ.get("TF_CONFIG")))
    ended = Ended(*run())
    if ended.code == 0:
        callbacks.end()
    return ended


@contextmanager
def _terminable(owns_signals: bool) -> Iterator[None]:
    """Lets SIGTERM end a run as an interrupt does, if Python has no handler for it, which would end the process at once."""
    if (
        owns_signals
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminated(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _check_process(arguments: Sequence[str]) -> None:
    """Checks that this process may run a command line.

    Raises RuntimeError in a process that was forked from one that has run a job. Ends a process that `up` has started for a
    task, and whose first command line is another: `up` would start it again and again.
    """
    is_first = not _first_process.cache_info().currsize
    refuse_fork()
    is_task = os.environ.get(ENDS_WITH) == str(os.getppid())
    if is_first and is_task and arguments[:1] != ["run"]:
        ended = _refused(
            f"`up` has started this process for a task, by `{' '.join(sys.argv[1:])}`, and the script runs "
            f"`{' '.join(arguments)}` instead",
            "pass the arguments of the process on: `trainyard.torch.main(Net)`, or `run(Net, sys.argv[1:])` before arguments of "
            'the script\'s own are read, if sys.argv[1:2] == ["run"]',
        )
        sys.exit(ended.code)


def _refused(problem: str, remedy: str) -> Ended:
    """Prints why a command line is refused, in the form of the command's own messages."""
    messages = f"error[E1000]: {problem}\n = help: {remedy}\n"
    sys.stderr.write(messages)
    return Ended(USAGE, messages, [("E1000", problem, None)])


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
    """Returns the program of this process: a script, or the package's own command.

    A notebook's process has a script, the kernel, which is not what runs in it.
    """
    script = sys.argv[0]
    runs_script = hasattr(sys.modules["__main__"], "__file__")
    if runs_script and os.path.isfile(script) and os.path.basename(script) != "__main__.py":
        return Program(sys.executable, [script])
    return PACKAGE


def run_to_exit(runner: Runner) -> NoReturn:
    """Runs the command line of this process, and exits with its code."""
    # The job handles an interrupt: it writes a checkpoint and ends. Python must not raise KeyboardInterrupt after it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(runner.run(sys.argv[1:], owns_signals=True).code)
