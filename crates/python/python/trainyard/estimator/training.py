"""Training with evaluations (`tf.estimator.train_and_evaluate`)."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from trainyard import run
from trainyard.estimator.base import BaseEstimator
from trainyard.estimator.input import read
from trainyard.estimator.spec import EvalSpec, TrainSpec


def train_and_evaluate(
    estimator: BaseEstimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any], None] | None:
    """Trains and evaluates, alone or as the task that TF_CONFIG names.

    Alone, returns the metrics of the last evaluation, with the global step. As a task, ends with the job, and returns
    None.
    """
    runner = estimator.runner([*train_spec.callbacks(), *eval_spec.callbacks()])
    further = {
        "eval": {
            "steps": eval_spec.steps,
            "start_delay_secs": eval_spec.start_delay_secs,
            "throttle_secs": eval_spec.throttle_secs,
        },
        "exporter": [exporter.keys() for exporter in eval_spec.exporter_list()],
    }
    if _is_task(os.environ.get("TF_CONFIG")):
        with tempfile.TemporaryDirectory() as folder:
            scored = read(eval_spec.input_fn, Path(folder, "eval.csv"))
            job = estimator.job(read(train_spec.input_fn, Path(folder, "train.csv")), scored)
            job["train"] = {"max_steps": train_spec.max_steps, "warm_start": estimator.warm_start()}
            run.run_task({**job, **further}, runner)
        return None
    report: dict[str, Any] = {"eval": {}, "global_step": 0}
    for job in estimator.jobs(train_spec.input_fn, eval_spec.input_fn, train_spec.max_steps):
        report = run.train({**job, **further}, runner=runner)
        if "ended_early" in report:
            break
    return {**report["eval"], "global_step": report["global_step"]}, None


def _is_task(tf_config: str | None) -> bool:
    """Returns whether TF_CONFIG names a cluster."""
    try:
        return bool(json.loads(tf_config or "{}").get("cluster"))
    except (ValueError, AttributeError):
        # `run` reports the mistake, with its place.
        return True
