"""Training with evaluations (`tf.estimator.train_and_evaluate`)."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from trainyard import run
from trainyard.data import Reader
from trainyard.estimator.base import BaseEstimator
from trainyard.estimator.hooks import StopAtStepHook, callbacks_of, without_stops
from trainyard.estimator.input import BatchReader, InputFn, first, read
from trainyard.estimator.spec import EvalSpec, TrainSpec


def train_and_evaluate(
    estimator: BaseEstimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any], None] | None:
    """Trains and evaluates, alone or as the task that TF_CONFIG names.

    Alone, returns the metrics of the last evaluation, with the global step. As a task, ends with the job, and returns
    None. A task of a cluster trains the batches of its own `input_fn`, and shares the files of a reader with the others.
    """
    is_task = _is_task(os.environ.get("TF_CONFIG"))
    estimator.check_exporters(eval_spec.exporter_list())
    hooks, stop = without_stops(train_spec.hooks, _begun(estimator, train_spec, is_task))
    observers = [*callbacks_of(hooks, train_spec.saving_listeners), *eval_spec.callbacks()]
    runner = estimator.runner(observers)
    ends = [each for each in (train_spec.max_steps, stop) if each is not None]
    max_steps = min(ends, default=None)
    further = {
        "eval": {
            "steps": eval_spec.steps,
            "start_delay_secs": eval_spec.start_delay_secs,
            "throttle_secs": eval_spec.throttle_secs,
        },
        "exporter": [exporter.keys() for exporter in eval_spec.exporter_list()],
    }
    if is_task:
        with tempfile.TemporaryDirectory() as folder:
            scored = read(eval_spec.input_fn, Path(folder, "eval"))
            train = _of_task(train_spec.input_fn, Path(folder, "train"))
            job = estimator.job(train, scored)
            if isinstance(train, BatchReader):
                job["input"]["train"]["sharding"] = "none"
            job["train"] = {"max_steps": max_steps, "warm_start": estimator.warm_start()}
            run.run_task({**job, **further}, runner)
        return None
    report: dict[str, Any] = {"eval": {}, "global_step": 0}
    for job in estimator.jobs(train_spec.input_fn, eval_spec.input_fn, max_steps):
        report = run.train({**job, **further}, runner=runner)
        if "ended_early" in report:
            break
    if not report["eval"]:
        # The job was over before, and nothing has been evaluated.
        return estimator.evaluate(eval_spec.input_fn, eval_spec.steps), None
    return {**report["eval"], "global_step": report["global_step"]}, None


def _begun(estimator: BaseEstimator, train_spec: TrainSpec, is_task: bool) -> int:
    """Returns the step at which the hooks begin.

    Raises ValueError if the tasks of a cluster would count from steps of their own.
    """
    stops = [hook for hook in train_spec.hooks or [] if isinstance(hook, StopAtStepHook)]
    if not stops:
        return 0
    if is_task and any(hook.counts_from_begin for hook in stops):
        raise ValueError("StopAtStepHook must have last_step= in a cluster, whose tasks begin at different steps")
    return estimator.global_step()


def _of_task(input_fn: InputFn, folder: Path) -> Reader:
    """Returns the reader of this task. Batches are written by the tasks that train."""
    try:
        role = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
    except (ValueError, TypeError, KeyError):
        # `run` reports the mistake, with its place.
        role = None
    return first(input_fn, folder) if role in ("ps", "evaluator") else read(input_fn, folder)


def _is_task(tf_config: str | None) -> bool:
    """Returns whether TF_CONFIG names a cluster."""
    try:
        return bool(json.loads(tf_config or "{}").get("cluster"))
    except (ValueError, AttributeError):
        # `run` reports the mistake, with its place.
        return True
