"""What all estimators have in common: they become jobs, which train, evaluate and predict."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard import run
from trainyard.callbacks import Callback, Callbacks
from trainyard.data import Reader, texts
from trainyard.estimator.finished import finished_passes
from trainyard.estimator.hooks import callbacks_of, without_stops
from trainyard.estimator.input import LABEL, BatchReader, InputFn, Labels, parts, read
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
        self._vocabulary = None if label_vocabulary is None else texts(label_vocabulary)
        self._weight_column = weight_column
        self._warm_start_from = warm_start_from
        self._lists: set[str] = set()
        """Columns whose records have several values, in the batches so far."""

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
            label["vocabulary"] = self._vocabulary
        model, features = self.described(label)
        features = self._separated(features, [reader for reader in readers.values() if isinstance(reader, BatchReader)])
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

    def _separated(self, features: list[dict[str, Any]], readers: Sequence[BatchReader]) -> list[dict[str, Any]]:
        """Returns the features, of which those of several values in a record have a separator.

        Raises ValueError if values with weights are missing: the weights that follow would move to other values.
        """
        for reader in readers:
            self._lists |= reader.lists
            for feature in features:
                pair = {feature.get("column"), feature.get("weights")}
                if "weights" in feature and pair & reader.shortened:
                    raise ValueError(
                        f"the column `{feature['column']}` and its weights `{feature['weights']}` must have no missing "
                        "value beside others in a record: leave out the value and its weight"
                    )
        return [
            {**feature, "separator": "|"}
            if feature.get("column") in self._lists and feature["kind"] not in ("numeric", "bucketized")
            else feature
            for feature in features
        ]

    def check_exporters(self, exporters: Sequence[Any]) -> None:
        """Raises ValueError if the model has no form as a SavedModel, which exporters write."""

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
        """Trains for `steps` more steps, to `max_steps`, or to the end of the input.

        Each call reads a reader of finite `num_epochs` that many times more. Raises RuntimeError if a call adds no step
        although its end is not reached.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("steps and max_steps exclude each other, given both")
        begun = self.global_step()
        others, stop = without_stops(hooks, begun)
        runner = self.runner(callbacks_of(others, saving_listeners))
        ends = [max_steps if steps is None else begun + steps, stop]
        end = min((each for each in ends if each is not None), default=None)
        if end is not None and begun >= end:
            return self
        for job in self.jobs(input_fn, None, end):
            if "ended_early" in run.train(job, runner=runner):
                return self
        if self.global_step() == begun:
            raise RuntimeError(
                f"this call added no step to {self.model_dir}, whose newest checkpoint is of step {begun}: its input was "
                "read before. Give num_epochs=None and steps=, or another input"
            )
        return self

    def jobs(self, train: InputFn, evaluate: InputFn | None, max_steps: int | None) -> Iterator[dict[str, Any]]:
        """Yields the jobs that train an input, each of which must be run before the next.

        Batches are trained a part at a time, until they end, or the job does.
        """
        with tempfile.TemporaryDirectory() as folder:
            scored = None if evaluate is None else read(evaluate, Path(folder, "eval"))
            begun = self.global_step()
            for reader in parts(train, Path(folder), begun):
                job = self.job(reader, scored)
                if not isinstance(reader, BatchReader) and reader.part.get("epochs") is not None:
                    job["input"]["train"]["epochs"] += finished_passes(self.model_dir, reader)
                job["train"] = {"max_steps": max_steps, "warm_start": self.warm_start()}
                yield job
                ended = self.global_step()
                # A run that adds no step has reached its end before.
                if ended == begun or (max_steps is not None and ended >= max_steps):
                    return
                begun = ended

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
            job = self.job(None, read(input_fn, Path(folder, "eval")))
            job["eval"] = {"steps": steps}
            return {**run.evaluate(job, runner=self.runner()), "global_step": self.global_step()}

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
            job = self.job(None, read(input_fn, Path(folder, "eval"), Labels.UNREAD))
            for row in run.predict(job, runner=self.runner()):
                unknown = sorted((wanted or set()) - set(row))
                if unknown:
                    raise ValueError(
                        f"predict_keys must be among {', '.join(row)}, given {', '.join(map(repr, unknown))}"
                    )
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
        exports = (path for path in Path(export_dir_base).iterdir() if path.name.isdigit() and path.is_dir())
        return str(max(exports, key=lambda path: int(path.name)))

    def latest_checkpoint(self) -> str | None:
        """Returns the newest checkpoint, or None.

        Raises JobError if `model_dir` is in a bucket that does not answer.
        """
        if "://" in self.model_dir:
            found = run.inspect(self.model_dir)
            return None if found is None else str(found["checkpoints"][-1])
        checkpoints = [path for path in Path(self.model_dir).glob("model.ckpt-*") if path.is_dir()]
        newest = max(checkpoints, key=_step, default=None)
        return None if newest is None else str(newest)

    def warm_start(self) -> dict[str, Any] | None:
        """Returns the key `train.warm_start`."""
        return None if self._warm_start_from is None else {"from": self._warm_start_from}

    def global_step(self) -> int:
        """Returns the step of the newest checkpoint, or 0."""
        newest = self.latest_checkpoint()
        return 0 if newest is None else _step(Path(newest))

    def _without_input(self) -> dict[str, Any]:
        none = {"files": ["none"], "batch_size": 1}
        return {
            "model_dir": self.model_dir,
            "input": {"label": {"column": LABEL, "vocabulary": self._vocabulary}, "train": none},
            "feature": self._separated(list(self._features), []),
            "model": dict(self._model),
            "train": {"max_steps": 1},
        }


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("model.ckpt-").split(".")[0])


def _refuse_checkpoint(path: str | None) -> None:
    if path is not None:
        raise ValueError("checkpoint_path must be None: the newest checkpoint of model_dir is read")
