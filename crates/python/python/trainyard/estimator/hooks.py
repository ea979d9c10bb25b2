"""Hooks (`tf.estimator.SessionRunHook`, `tf.estimator.CheckpointSaverListener`) as callbacks of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.callbacks import Callback, Step


@dataclass
class SessionRunContext:
    """The step after which a hook is called. There is no session: `session` is None."""

    original_args: Any = None
    session: None = None
    stop_requested: bool = False

    def request_stop(self) -> None:
        """Ends the job after this step."""
        self.stop_requested = True


@dataclass(frozen=True)
class SessionRunValues:
    """The values of a step: `results["global_step"]`, `results["loss"]`, `results["examples"]`."""

    results: Mapping[str, float]
    options: Any = None
    run_metadata: Any = None


class SessionRunHook:
    """Receives the steps of this process. Sessions are None, and graphs and feeds do not exist."""

    def begin(self) -> None:
        """Called before the run."""

    def after_create_session(self, session: None, coord: None) -> None:
        """Called before the first step."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each step."""

    def end(self, session: None) -> None:
        """Called after a run that has not failed."""


class CheckpointSaverListener:
    """Receives the checkpoints, in the chief."""

    def begin(self) -> None:
        """Called before the run."""

    def after_save(self, session: None, global_step_value: int) -> bool | None:
        """Called after each checkpoint. True ends the job."""
        return None

    def end(self, session: None, global_step_value: int) -> None:
        """Called after a run that has not failed, with the step of the last checkpoint."""


class StopAtStepHook(SessionRunHook):
    """Ends the job at a step, or after a number of steps of a call of `train` (`tf.estimator.StopAtStepHook`).

    An estimator takes it as the end of its job, `train.max_steps`, which ends exactly there.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise ValueError("exactly one of num_steps and last_step must be given")
        self._num_steps = num_steps
        self._last_step = last_step

    def end_step(self, begun: int) -> int:
        """Returns the step at which a run ends that begins at step `begun`."""
        if self._last_step is not None:
            return self._last_step
        assert self._num_steps is not None
        return begun + self._num_steps

    @property
    def counts_from_begin(self) -> bool:
        """Whether the end depends on the step at which the run begins."""
        return self._num_steps is not None


def without_stops(hooks: Sequence[Any] | None, begun: int) -> tuple[list[Any], int | None]:
    """Returns the hooks that are no StopAtStepHook, and the step at which the first of those ends the job."""
    stops = [hook.end_step(begun) for hook in hooks or [] if isinstance(hook, StopAtStepHook)]
    return [hook for hook in hooks or [] if not isinstance(hook, StopAtStepHook)], min(stops, default=None)


def callbacks_of(hooks: Sequence[Any] | None, listeners: Sequence[Any] | None = None) -> list[Callback]:
    """Returns hooks and listeners as callbacks.

    Raises ValueError if an object is none of them.
    """
    return [_of_hook(each) for each in hooks or []] + [_of_listener(each) for each in listeners or []]


def _of_hook(hook: Any) -> Callback:
    if isinstance(hook, Callback):
        return hook
    if isinstance(hook, SessionRunHook):
        if hasattr(hook, "before_run"):
            raise ValueError(
                f"{type(hook).__name__} must be without before_run: a step has no fetches, and after_run receives its loss"
            )
        return _Hook(hook)
    raise ValueError(
        f"a hook must be a trainyard.Callback or a trainyard.estimator.SessionRunHook, given a {type(hook).__name__}; "
        "the key train.early_stopping of a job stops early, and summaries and checkpoints are keys of RunConfig"
    )


def _of_listener(listener: Any) -> Callback:
    if isinstance(listener, Callback):
        return listener
    if isinstance(listener, CheckpointSaverListener):
        return _Listener(listener)
    raise ValueError(
        "a listener must be a trainyard.Callback or a trainyard.estimator.CheckpointSaverListener, given a "
        f"{type(listener).__name__}"
    )


@dataclass
class _Hook(Callback):
    """A hook as a callback."""

    hook: SessionRunHook
    _is_created: bool = field(default=False)

    def begin(self) -> None:
        self._is_created = False
        self.hook.begin()

    def after_step(self, step: Step) -> None:
        if not self._is_created:
            self._is_created = True
            self.hook.after_create_session(None, None)
        context = SessionRunContext()
        results = {"global_step": step.global_step, "loss": step.loss, "examples": step.examples}
        self.hook.after_run(context, SessionRunValues(results))
        if context.stop_requested:
            self.request_end(f"{type(self.hook).__name__} has requested it at step {step.global_step}")

    def end(self) -> None:
        self.hook.end(None)


@dataclass
class _Listener(Callback):
    """A listener as a callback."""

    listener: CheckpointSaverListener
    _step: int = field(default=0)

    def begin(self) -> None:
        self.listener.begin()

    def after_save(self, global_step: int, checkpoint: str) -> None:
        self._step = global_step
        if self.listener.after_save(None, global_step):
            self.request_end(f"{type(self.listener).__name__} has requested it at step {global_step}")

    def end(self) -> None:
        self.listener.end(None, self._step)
