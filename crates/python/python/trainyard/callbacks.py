"""Callbacks: code of the user that receives the steps, checkpoints and evaluations of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A training step of this process, applied by the parameter servers."""

    global_step: int
    """Steps of all processes."""
    task_steps: int
    """Steps of this process since it started."""
    examples: int
    """Examples in the batch."""
    loss: float
    """Training loss, before the update."""


class Callback:
    """Receives the events of a run. A subclass overrides the methods that it needs.

    Each process calls its own callbacks: one that trains after its steps, the chief after checkpoints, the evaluator
    after evaluations. The run waits for them. An exception ends the task, with its traceback.
    """

    role: str = "alone"
    """The role of this process, known from `begin` on: "alone", "chief", "worker", "ps" or "evaluator"."""
    _end: str | None = None

    def begin(self) -> None:
        """Called before the run."""

    def after_step(self, step: Step) -> None:
        """Called after each step of this process that counts."""

    def after_save(self, global_step: int, checkpoint: str) -> None:
        """Called with the path of each checkpoint that is complete."""

    def after_evaluation(self, global_step: int, name: str, metrics: Mapping[str, float]) -> None:
        """Called with the metrics of a checkpoint. `name` is the folder of the results, for example `eval`."""

    def end(self) -> None:
        """Called after a run that has not failed."""

    def request_end(self, reason: str) -> None:
        """Ends the job after the present event, as early stopping does.

        In an evaluator of its own process, the chief ends the job when it learns of the evaluation, within seconds. Raises
        RuntimeError in a worker and a server, which evaluate and save nothing.
        """
        if self.role not in ("alone", "chief", "evaluator"):
            raise RuntimeError(
                f"a callback of the task {self.role} cannot end the job, only one of the chief or the evaluator can: call "
                'request_end where self.role is "chief", "evaluator" or "alone", or end the job by its evaluations with '
                "the key train.early_stopping"
            )
        self._end = reason


class Callbacks:
    """The callbacks of a run, as the native part calls them. Each method returns the reason why the job is to end."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        """Raises TypeError if an object is no callback."""
        for each in callbacks:
            if not isinstance(each, Callback):
                raise TypeError(f"a callback must be a trainyard.Callback, given a {type(each).__name__}")
        self._callbacks = list(callbacks)

    @classmethod
    def of(cls, callbacks: Sequence[Callback]) -> Callbacks | None:
        """Returns callbacks, or None if there are none: then steps do not enter Python for them."""
        return cls(callbacks) if callbacks else None

    def begin(self, role: str) -> None:
        """Called before the run, with the role of this process."""
        for each in self._callbacks:
            each.role = role
            each._end = None
            each.begin()

    def end(self) -> None:
        """Called after a run that has not failed."""
        for each in self._callbacks:
            each.end()

    def after_step(self, global_step: int, task_steps: int, examples: int, loss: float) -> str | None:
        """Called after a step."""
        step = Step(global_step, task_steps, examples, loss)
        for each in self._callbacks:
            each.after_step(step)
        return self._reason()

    def after_save(self, global_step: int, checkpoint: object) -> str | None:
        """Called after a checkpoint."""
        for each in self._callbacks:
            each.after_save(global_step, str(checkpoint))
        return self._reason()

    def after_evaluation(self, global_step: int, name: str, metrics: Mapping[str, float]) -> str | None:
        """Called after an evaluation."""
        for each in self._callbacks:
            each.after_evaluation(global_step, name, metrics)
        return self._reason()

    def _reason(self) -> str | None:
        return next((each._end for each in self._callbacks if each._end is not None), None)


def role_of(arguments: Sequence[str], tf_config: str | None) -> str:
    """Returns the role of the process that runs a command line, with the value of TF_CONFIG."""
    if list(arguments[:1]) != ["run"]:
        return "alone"
    for place, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--role":
            return value or "".join(arguments[place + 1 : place + 2])
    try:
        config = json.loads(tf_config or "{}")
        tasks = sum(len(addresses) for addresses in config.get("cluster", {}).values())
        role = str(config["task"]["type"])
    except (ValueError, TypeError, KeyError, AttributeError):
        # Without a task in TF_CONFIG, the process runs the whole job. `run` reports a mistake.
        return "alone"
    return "alone" if role == "chief" and tasks <= 1 else role
