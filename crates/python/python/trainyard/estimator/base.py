"""What all estimators have in common: they become jobs, which train, evaluate and predict."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard import run
from trainyard.callbacks import Callback, Callbacks
from trainyard.data import Reader
from trainyard.estimator.hooks import callbacks_of
from trainyard.estimator.input import InputFn, parts, read
from trainyard.estimator.run_config import RunConfig
from trainyard.program import PACKAGE, ObservedProgram, Runner


class BaseEstimator:
    """A model, its features and its run."""

    def __init__(
        self,
        model: Mapping[str, Any],
        columns: Sequence[dict[str, Any]],
        *,
        model_dir: str | None = None,
        config: RunConfig | None = None,
        label_vocabulary: Sequence[str] | None = None,
        weight_column: str | None = None,
        warm_start_from: str | None = None,
    ) -> None:
        """Describes an estimator by the keys of `[model]` and its features."""
        self.config = config or RunConfig()
        folder = model_dir or self.config.model_dir
        if folder and self.config.model_dir and folder != self.config.model_dir:
            raise ValueError(
                f"model_dir must be that of config, given {folder!r} and {self.config.model_dir!r}"
            )
        self.model_dir = str(folder or tempfile.mkdtemp(prefix="trainyard-"))
        self._model = dict(model)
        self._features = columns
        self._vocabulary = label_vocabulary
        self._weight_column = weight_column
        self._warm_start_from = warm_start_from

    def runner(self, callbacks: Sequence[Callback] = ()) -> Runner:
        """Returns the program that runs the jobs of this estimator."""
        observed = Callbacks.of(callbacks)
        return PACKAGE if observed is None else ObservedProgram(PACKAGE, observed)

    def job(self, train: Reader | None, evaluate: Reader | None) -> dict[str, Any]:
        """Returns the job of these inputs.

        Raises ValueError if the inputs have different columns or labels.
        """
        readers = {part: reader for part, reader in (("train", train), ("eval", evaluate)) if reader is not None}
        shared = [dict(reader.shared) for reader in readers.values()]
        if any(other != shared[0] for other in shared):
            raise ValueError(
                f"the inputs of training and evaluation must have one format, columns and label, given {shared[0]} and "
                f"{shared[1]}"
            )
        label = dict(shared[0]["label"])
        if self._vocabulary is not None:
            label["vocabulary"] = list(self._vocabulary)
        model, features = self.described(label)
        parts = {part: dict(reader.part) for part, reader in readers.items()}
        # A job names the input of its training, even one that only evaluates.
        parts.setdefault("train", dict(parts.get("eval", {})))
        return {
            "model_dir": self.model_dir,
            "run": self.config.keys(),
            "input": {**shared[0], "label": label, "weight_column": self._weight_column, **parts},
            "feature": features,
            "model": model,
            # A job has an end, even one that only evaluates.
            "train": {"max_steps": 1},
        }

    def described(self, label: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Returns the keys of `[model]` for a label, and the features."""
        return dict(self._model), list(self._features)

    def train(
        self,
        input_fn: InputFn,
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> BaseEstimator:
        """Trains for `steps` more steps, to `max_steps`, or to the end of the input."""
        if steps is not None and max_steps is not None:
            raise ValueError("steps and max_steps exclude each other, given both")
        runner = self.runner(callbacks_of(hooks, saving_listeners))
        end = max_steps if steps is None else self._global_step() + steps
        for job in self.jobs(input_fn, None, end):
            if "ended_early" in run.train(job, runner=runner):
                break
        return self

    def jobs(self, train: InputFn, evaluate: InputFn | None, max_steps: int | None) -> Iterator[dict[str, Any]]:
        """Yields the jobs that train an input, each of which must be run before the next.

        Batches are trained a part at a time, until they end, or the job does.
        """
        with tempfile.TemporaryDirectory() as folder:
            scored = None if evaluate is None else read(evaluate, Path(folder, "eval.csv"))
            for reader in parts(train, Path(folder), self._global_step()):
                job = self.job(reader, scored)
                job["train"] = {"max_steps": max_steps, "warm_start": self.warm_start()}
                begun = self._global_step()
                yield job
                ended = self._global_step()
                # A run that adds no step has reached its end before.
                if ended == begun or (max_steps is not None and ended >= max_steps):
                    return

    def evaluate(
        self,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, float]:
        """Scores the newest checkpoint, and returns its metrics with the global step. Its hooks receive nothing."""
        callbacks_of(hooks)
        _refuse_checkpoint(checkpoint_path)
        with tempfile.TemporaryDirectory() as folder:
            job = self.job(None, read(input_fn, Path(folder, "eval.csv")))
            job["eval"] = {"steps": steps}
            return {**run.evaluate(job, runner=self.runner()), "global_step": self._global_step()}

    def predict(
        self,
        input_fn: InputFn,
        predict_keys: str | Sequence[str] | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """Yields the predictions of each record, as arrays by TensorFlow's keys. Its hooks receive nothing."""
        import numpy as np

        callbacks_of(hooks)
        _refuse_checkpoint(checkpoint_path)
        if not yield_single_examples:
            raise ValueError("yield_single_examples must be True: predictions come one record at a time")
        wanted = None if predict_keys is None else {predict_keys} if isinstance(predict_keys, str) else set(predict_keys)
        with tempfile.TemporaryDirectory() as folder:
            job = self.job(None, read(input_fn, Path(folder, "eval.csv")))
            for row in run.predict(job, runner=self.runner()):
                chosen_keys = (key for key in row if wanted is None or key in wanted)
                yield {key: np.asarray(row[key]) for key in chosen_keys}

    def export_saved_model(
        self, export_dir_base: str, serving_input_receiver_fn: Any = None, assets_extra: Any = None
    ) -> str:
        """Exports the newest checkpoint as a SavedModel, and returns its folder.

        The receiver function is not called: the export reads the columns of the job.
        """
        job = self._without_input()
        run.export(job, export_dir_base, format="saved_model")
        return str(max(Path(export_dir_base).iterdir(), key=lambda path: path.name))

    def latest_checkpoint(self) -> str | None:
        """Returns the newest checkpoint, or None."""
        checkpoints = [path for path in Path(self.model_dir).glob("model.ckpt-*") if path.is_dir()]
        newest = max(checkpoints, key=_step, default=None)
        return None if newest is None else str(newest)

    def warm_start(self) -> dict[str, Any] | None:
        """Returns the key `train.warm_start`."""
        return None if self._warm_start_from is None else {"from": self._warm_start_from}

    def _global_step(self) -> int:
        newest = self.latest_checkpoint()
        return 0 if newest is None else _step(Path(newest))

    def _without_input(self) -> dict[str, Any]:
        none = {"files": ["none"], "batch_size": 1}
        return {
            "model_dir": self.model_dir,
            "input": {"label": {"column": "label", "vocabulary": self._vocabulary}, "train": none},
            "feature": list(self._features),
            "model": dict(self._model),
            "train": {"max_steps": 1},
        }


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("model.ckpt-").split(".")[0])


def _refuse_checkpoint(path: str | None) -> None:
    if path is not None:
        raise ValueError("checkpoint_path must be None: the newest checkpoint of model_dir is read")
