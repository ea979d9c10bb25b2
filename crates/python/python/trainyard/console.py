"""The console of a run: what it prints, its warnings, and its progress, as Python has them."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol

LOG = logging.getLogger("trainyard")
"""Receives the log lines of quiet runs."""
LEVELS = {"ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO, "DEBUG": logging.DEBUG, "TRACE": logging.DEBUG}
LINE_INTERVAL_SECS = 10.0
"""Time between two lines of progress where a line cannot be written over."""
OF_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class JobWarning(UserWarning):
    """A warning about a job or its data: the text has its code, its place and the remedy, as messages of the command have."""


class Bar(Protocol):
    """A display of progress."""

    def update(self, step: int, max_steps: int | None, loss: float) -> None:
        """Shows a step."""
        ...

    def write(self, text: str) -> None:
        """Writes lines beside the display."""
        ...

    def close(self) -> None:
        """Ends the display."""
        ...


class Console:
    """Receives what a run would print. The native part calls it in the thread that has started the run."""

    def __init__(self, bar: Bar | None, edited: Callable[[str], str] = str) -> None:
        self._bar = bar
        self._edited = edited

    @classmethod
    def of(cls, quiet: bool, progress: bool | None, edited: Callable[[str], str] = str) -> Console | None:
        """Returns the console of a run; None if the run prints by itself, as the command does. `edited` returns a message as it is
        shown."""
        if not quiet and progress is None:
            return None
        bar = make_bar() if progress else None
        return Quiet(bar, edited) if quiet else cls(bar, edited)

    def log(self, level: str, line: str) -> None:
        """Receives a log line. Beside a display of progress, only those of warnings are shown."""
        if LEVELS[level] >= (logging.INFO if self._bar is None else logging.WARNING):
            self._write(f"{level} {self._edited(line)}\n")

    def report(self, severity: str, text: str) -> None:
        """Receives a message about the job or its data."""
        self._write(self._edited(text))

    def print(self, text: str) -> None:
        """Receives the text of a result."""
        if self._bar is not None:
            self._bar.close()
        sys.stdout.write(text)

    def step(self, step: int, max_steps: int | None, loss: float) -> None:
        """Receives the latest step of training."""
        if self._bar is not None:
            self._bar.update(step, max_steps, loss)

    def close(self) -> None:
        """Called at the end of the run, also of one that has failed."""
        if self._bar is not None:
            self._bar.close()

    def _write(self, text: str) -> None:
        if self._bar is None:
            sys.stderr.write(text)
        else:
            self._bar.write(text)


class Quiet(Console):
    """A console that prints nothing: log lines go to `logging`, and warnings to `warnings`. An error is that of the exception."""

    def log(self, level: str, line: str) -> None:
        """Logs a line."""
        LOG.log(LEVELS[level], "%s", self._edited(line))

    def report(self, severity: str, text: str) -> None:
        """Warns at the line that has called the package."""
        if severity == "warning":
            warnings.warn(self._edited(text).strip(), JobWarning, stacklevel=_level_of_caller())

    def print(self, text: str) -> None:
        """Leaves the text of a result out."""


class TqdmBar:
    """A bar of tqdm: of its widgets in a notebook that has them, and of text elsewhere."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def update(self, step: int, max_steps: int | None, loss: float) -> None:
        """Shows a step. The first one is where the run begins: it may go on from a checkpoint."""
        if self._bar is None:
            self._bar = self._tqdm(total=max_steps, initial=step, unit="step", dynamic_ncols=True)
        self._bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
        self._bar.update(step - self._bar.n)

    def write(self, text: str) -> None:
        """Writes lines above the bar."""
        self._tqdm.write(text, file=sys.stderr, end="")

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()


class PlainBar:
    """A line of text, which is written over on a terminal and in a notebook, and repeated now and then elsewhere."""

    def __init__(self) -> None:
        self._is_rewritten = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._begun = 0.0
        self._first_step = 0
        self._written = -1.0
        self._line = ""

    def update(self, step: int, max_steps: int | None, loss: float) -> None:
        """Shows a step."""
        now = time.monotonic()
        if not self._line:
            self._begun, self._first_step = now, step
        rate = (step - self._first_step) / max(now - self._begun, 1e-9)
        of_all = "" if max_steps is None else f" of {max_steps} ({100 * step // max(max_steps, 1)} %)"
        left = "" if max_steps is None or not rate else f", {(max_steps - step) / rate:.0f} s left"
        line = f"step {step}{of_all}, {rate:.0f} steps/s, loss {loss:.4f}{left}"
        if self._is_rewritten:
            sys.stderr.write("\r" + line.ljust(len(self._line)))
            sys.stderr.flush()
        elif now - self._written >= LINE_INTERVAL_SECS or step == max_steps:
            self._written = now
            sys.stderr.write(f"{line}\n")
        self._line = line

    def write(self, text: str) -> None:
        """Writes lines above the line."""
        if self._line and self._is_rewritten:
            sys.stderr.write("\r" + " " * len(self._line) + "\r" + text + self._line)
        else:
            sys.stderr.write(text)

    def close(self) -> None:
        """Ends the line."""
        if self._line and self._is_rewritten:
            sys.stderr.write("\n")
        self._line = ""


def make_bar() -> Bar:
    """Returns a bar of tqdm if it is installed, otherwise a line of text."""
    try:
        found = importlib.import_module("tqdm.auto")
    except ImportError:
        return PlainBar()
    return TqdmBar(found.tqdm)


def _level_of_caller() -> int:
    """Returns the `stacklevel` of the first frame outside of the package, for a call in the calling function."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(OF_PACKAGE):
        frame = frame.f_back
        level += 1
    return level
