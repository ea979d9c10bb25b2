"""Runs of a job in this process: training, evaluation, prediction, export."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trainyard import frames
from trainyard.callbacks import Callback, Callbacks
from trainyard.console import Console
from trainyard.data import Texts, texts
from trainyard.job import Job, job_file
from trainyard.program import PACKAGE, Ended, ObservedProgram, Runner


class JobError(Exception):
    """A job has failed. The text has the messages of the command, with their codes and places.

    `code`, `message` and `place` are those of the first message.
    """

    code: str | None
    """Code of the error, as `E1201`: docs/errors.md lists them. None if only tasks in other processes have failed."""
    message: str
    """What has failed: the wrong value and its rule, in one line."""
    place: str | None
    """Where: `job.toml:4:1` for a key of a job file, a flag, or a variable of the environment. None if it has no place."""
    exit_code: int
    """Exit code of the command."""
    messages: str
    """The messages of the command. Empty if only tasks in other processes have failed: theirs are on standard error."""

    def __init__(self, command: str, ended: Ended) -> None:
        reason = ended.messages.strip() or "the messages of its tasks on standard error say why"
        super().__init__(f"`trainyard {command}` ended with exit code {ended.code}: {reason}")
        self.code, self.message, self.place = next(iter(ended.problems), _first_line(reason))
        self.exit_code = ended.code
        self.messages = ended.messages
        self._made_of = (command, ended)

    def __reduce__(self) -> tuple[Any, ...]:
        """Lets an exception travel between processes."""
        return (JobError, self._made_of)


def train(
    job: Job,
    *,
    model_dir: str | None = None,
    settings: Texts = (),
    callbacks: Sequence[Callback] = (),
    runner: Runner | None = None,
    data: Any = None,
    eval_data: Any = None,
    quiet: bool = False,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Trains, evaluates and exports in this process, and returns the report of the run.

    `settings` change keys of the job, as `--set` does: `["train.max_steps=1000"]`. `callbacks` receive its events. An
    interrupt ends training with a checkpoint, and is raised here after it. `runner` is the program of a model in Python,
    which has callbacks of its own.

    `report["eval"]` has the metrics of the last step, or is None if the job has no evaluation.

    `data` takes the place of `input.train.files`, and `eval_data` that of `input.eval.files`: a frame of pandas or polars, a table or
    stream of Arrow, or a dictionary of arrays. They become files of Parquet, so that the job has the keys of that format.

    With `quiet`, nothing is printed: warnings about job and data are `trainyard.JobWarning` of `warnings`, and log lines those of
    the logger `trainyard` of `logging`. `progress=True` shows a bar of tqdm, also in notebooks, or a line of text where tqdm is not
    installed; `progress=False` shows none; by default, a terminal shows a line.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        further = ["--report", str(path)]
        console = Console.of(quiet, progress, lambda text: frames.renamed(text, folder))
        own = (frames.Data("data", "train", data), frames.Data("eval_data", "eval", eval_data))
        settings = frames.settings(job, settings, folder, *own, model_dir=model_dir)
        runner = runner or _observed(callbacks)
        run("train", job, model_dir=model_dir, settings=settings, further=further, runner=runner, console=console, folder=folder)
        report = dict(json.loads(path.read_text()))
        report["eval"] = report.get("eval") or None
        return report


def evaluate(
    job: Job,
    *,
    model_dir: str | None = None,
    settings: Texts = (),
    step: int | None = None,
    runner: Runner = PACKAGE,
    data: Any = None,
    quiet: bool = False,
) -> dict[str, float]:
    """Scores a checkpoint, by default the newest, and returns its metrics.

    `data` takes the place of `input.eval.files`, and `quiet` is that of `train`.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "metrics.json")
        further = ["--format", "json", "--output", str(output), *_of_step(step)]
        console = Console.of(quiet, None, lambda text: frames.renamed(text, folder))
        settings = frames.settings_of_scores(job, settings, folder, data, model_dir)
        run("evaluate", job, model_dir=model_dir, settings=settings, further=further, runner=runner, console=console, folder=folder)
        return dict(json.loads(output.read_text())["metrics"])


def predict(
    job: Job,
    *,
    model_dir: str | None = None,
    settings: Texts = (),
    input: Texts = (),
    step: int | None = None,
    runner: Runner = PACKAGE,
    data: Any = None,
    quiet: bool = False,
) -> Iterator[dict[str, Any]]:
    """Returns an iterator over the predictions of a checkpoint, one dictionary per record. They are computed when the first one is
    asked for, of `data` as it was at the call.

    `input` names files in the job's format, and `data` is what it is in `train`, without labels; without both, the job's evaluation
    input is predicted. `quiet` is that of `train`.
    """
    if data is not None and input:
        raise ValueError("input and data exclude each other, given both")
    # What is predicted is data as it is now, whenever the first prediction is asked for.
    folder = tempfile.TemporaryDirectory()
    try:
        settings = frames.settings_of_scores(job, settings, folder.name, data, model_dir)
    except BaseException:
        folder.cleanup()
        raise
    output = Path(folder.name, "predictions.jsonl")
    further = ["--output", str(output), *_of_step(step)]
    if input:
        further += ["--input", *texts(input)]

    def predictions() -> Iterator[dict[str, Any]]:
        with folder:
            console = Console.of(quiet, None, lambda text: frames.renamed(text, folder.name))
            run(
                "predict",
                job,
                model_dir=model_dir,
                settings=settings,
                further=further,
                runner=runner,
                console=console,
                folder=folder.name,
            )
            with output.open() as lines:
                for line in lines:
                    yield json.loads(line)

    return predictions()


def export(
    job: Job,
    output: str,
    *,
    model_dir: str | None = None,
    settings: Texts = (),
    format: str = "safetensors",
    quiet: bool = False,
) -> None:
    """Writes a checkpoint for other programs into the folder `output`. `quiet` is that of `train`."""
    further = ["--output", output, "--format", format]
    run("export", job, model_dir=model_dir, settings=settings, further=further, console=Console.of(quiet, None))


def inspect(model_dir: str) -> dict[str, Any] | None:
    """Returns what `trainyard inspect` says of a model directory, or None if it has no checkpoint.

    Raises JobError if the directory cannot be read.
    """
    command = [sys.executable, "-m", "trainyard", "inspect", model_dir, "--format", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0 and "E3004" in ended.stderr:
        return None
    if ended.returncode != 0:
        sys.stderr.write(ended.stderr)
        raise JobError("inspect", Ended(ended.returncode, ended.stderr))
    return dict(json.loads(ended.stdout))


def run(
    command: str,
    job: Job,
    *,
    model_dir: str | None = None,
    settings: Texts = (),
    further: Sequence[str] = (),
    runner: Runner = PACKAGE,
    console: Console | None = None,
    folder: str | None = None,
) -> None:
    """Runs a command of the command line on a job in this process. `console` receives what it would print, and `folder` has the
    files that data of arguments has become.

    Raises JobError if the command fails.
    """
    with job_file(job) as path:
        arguments = [command, path]
        for setting in texts(settings):
            arguments += ["--set", setting]
        if model_dir is not None:
            arguments += ["--model-dir", os.fspath(model_dir)]
        try:
            ended = runner.run([*arguments, *further], console=console)
        finally:
            if console is not None:
                console.close()
    if ended.code != 0:
        raise JobError(command, ended if folder is None else _renamed(ended, folder))


def _renamed(ended: Ended, folder: str) -> Ended:
    """Returns the end of a run whose messages name arguments in the place of their files."""
    problems = [(code, frames.renamed(message, folder), place) for code, message, place in ended.problems]
    return Ended(ended.code, frames.renamed(ended.messages, folder), problems)


def run_task(job: Job, runner: Runner = PACKAGE) -> None:
    """Runs the task that TF_CONFIG names to the end of the job.

    Raises JobError if the task fails.
    """
    with job_file(job) as path:
        ended = runner.run(["run", "--job", path])
    if ended.code != 0:
        raise JobError("run", ended)


def _observed(callbacks: Sequence[Callback]) -> Runner:
    observed = Callbacks.of(callbacks)
    return PACKAGE if observed is None else ObservedProgram(PACKAGE, observed)


def _first_line(messages: str) -> tuple[str | None, str, None]:
    """Returns code and text of messages that are known as text alone."""
    line = messages.partition("\n")[0]
    found = re.match(r"error\[(E\d+)\]: (.*)", line)
    return (found[1], found[2], None) if found else (None, line, None)


def _of_step(step: int | None) -> list[str]:
    return [] if step is None else ["--step", str(step)]
