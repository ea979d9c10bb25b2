"""Premade estimators: each is the `[model]` and the features of a job."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard import run
from trainyard.estimator.feature_column import AnyColumn, features
from trainyard.estimator.head import Head, reduction
from trainyard.estimator.input import InputFn, read
from trainyard.estimator.optimizers import Choice, chosen
from trainyard.estimator.run_config import RunConfig
from trainyard.estimator.spec import refuse_hooks

LINEAR_FTRL = {"kind": "ftrl", "learning_rate": 0.2}
"""Default of `Linear*`: the text `Ftrl` there means this rate."""


class Estimator:
    """A model, its features and its run."""

    def __init__(
        self,
        kind: str,
        keys: Mapping[str, Any],
        columns: Sequence[dict[str, Any]],
        *,
        model_dir: str | None = None,
        config: RunConfig | None = None,
        label_vocabulary: Sequence[str] | None = None,
        weight_column: str | None = None,
        warm_start_from: str | None = None,
    ) -> None:
        """Describes an estimator of a kind of `[model]`."""
        self.config = config or RunConfig()
        folder = model_dir or self.config.model_dir
        if folder and self.config.model_dir and folder != self.config.model_dir:
            raise ValueError(
                f"model_dir must be that of config, given {folder!r} and {self.config.model_dir!r}"
            )
        self.model_dir = str(folder or tempfile.mkdtemp(prefix="trainyard-"))
        self._model = {"kind": kind, "defaults": "tensorflow2", **keys}
        self._features = columns
        self._vocabulary = label_vocabulary
        self._weight_column = weight_column
        self._warm_start_from = warm_start_from

    def job(self, train: InputFn | None, evaluate: InputFn | None, scratch: Path) -> dict[str, Any]:
        """Returns the job of these inputs. Batches in memory become files in `scratch`.

        Raises ValueError if the inputs have different columns or labels.
        """
        readers = {
            part: read(input_fn, scratch / f"{part}.csv")
            for part, input_fn in (("train", train), ("eval", evaluate))
            if input_fn is not None
        }
        shared = [dict(reader.shared) for reader in readers.values()]
        if any(other != shared[0] for other in shared):
            raise ValueError(
                f"the inputs of training and evaluation must have one format, columns and label, given {shared[0]} and "
                f"{shared[1]}"
            )
        label = {**shared[0]["label"], "vocabulary": self._vocabulary}
        parts = {part: dict(reader.part) for part, reader in readers.items()}
        # A job names the input of its training, even one that only evaluates.
        parts.setdefault("train", dict(parts.get("eval", {})))
        return {
            "model_dir": self.model_dir,
            "run": self.config.keys(),
            "input": {**shared[0], "label": label, "weight_column": self._weight_column, **parts},
            "feature": list(self._features),
            "model": dict(self._model),
            # A job has an end, even one that only evaluates.
            "train": {"max_steps": 1},
        }

    def train(
        self,
        input_fn: InputFn,
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> Estimator:
        """Trains for `steps` more steps, to `max_steps`, or to the end of the input."""
        refuse_hooks(hooks)
        if steps is not None and max_steps is not None:
            raise ValueError("steps and max_steps exclude each other, given both")
        with tempfile.TemporaryDirectory() as folder:
            job = self.job(input_fn, None, Path(folder))
            end = max_steps if steps is None else self._global_step() + steps
            job["train"] = {"max_steps": end, "warm_start": self._warm_start()}
            run.train(job)
        return self

    def evaluate(
        self,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, float]:
        """Scores the newest checkpoint, and returns its metrics with the global step."""
        refuse_hooks(hooks)
        _refuse_checkpoint(checkpoint_path)
        with tempfile.TemporaryDirectory() as folder:
            job = self.job(None, input_fn, Path(folder))
            job["eval"] = {"steps": steps}
            return {**run.evaluate(job), "global_step": self._global_step()}

    def predict(
        self,
        input_fn: InputFn,
        predict_keys: str | Sequence[str] | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """Yields the predictions of each record, as arrays by TensorFlow's keys."""
        import numpy as np

        refuse_hooks(hooks)
        _refuse_checkpoint(checkpoint_path)
        if not yield_single_examples:
            raise ValueError("yield_single_examples must be True: predictions come one record at a time")
        wanted = None if predict_keys is None else {predict_keys} if isinstance(predict_keys, str) else set(predict_keys)
        with tempfile.TemporaryDirectory() as folder:
            job = self.job(None, input_fn, Path(folder))
            for row in run.predict(job):
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
        return self._warm_start()

    def _warm_start(self) -> dict[str, Any] | None:
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


def _wide(columns: Sequence[AnyColumn]) -> list[dict[str, Any]]:
    found = features(columns, [])
    for feature in found:
        del feature["deep"]
    return found


def _deep(columns: Sequence[AnyColumn]) -> list[dict[str, Any]]:
    found = features([], columns)
    for feature in found:
        del feature["wide"]
    return found


def _activation(function: Any) -> str:
    return function if isinstance(function, str) else str(getattr(function, "__name__", function))


def _classes(n_classes: int, vocabulary: Sequence[str] | None) -> dict[str, Any]:
    if n_classes < 2:
        raise ValueError(f"n_classes must be >= 2, given {n_classes}")
    return {} if vocabulary else {"n_classes": n_classes}


def _dnn_keys(
    hidden_units: Sequence[int] | None, optimizer: Choice, activation_fn: Any, dropout: float | None, batch_norm: bool
) -> dict[str, Any]:
    if not hidden_units:
        raise ValueError("hidden_units must be a list of widths, for example [128, 64]")
    return {
        "hidden_units": list(hidden_units),
        "dnn_optimizer": chosen(optimizer, None, "Adagrad"),
        "activation": _activation(activation_fn),
        "dropout": dropout,
        "batch_norm": batch_norm,
    }


class LinearClassifier(Estimator):
    """A linear model of classes (`tf.estimator.LinearClassifier`)."""

    def __init__(
        self,
        feature_columns: Sequence[AnyColumn],
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: str | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Choice = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | None = None,
        loss_reduction: Any = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        keys = {
            **_classes(n_classes, label_vocabulary),
            "linear_optimizer": chosen(optimizer, LINEAR_FTRL, "Ftrl"),
            "loss_reduction": reduction(loss_reduction),
            "sparse_combiner": sparse_combiner,
        }
        super().__init__(
            "linear_classifier",
            keys,
            _wide(feature_columns),
            model_dir=model_dir,
            config=config,
            label_vocabulary=label_vocabulary,
            weight_column=weight_column,
            warm_start_from=warm_start_from,
        )


class LinearRegressor(Estimator):
    """A linear model of numbers (`tf.estimator.LinearRegressor`)."""

    def __init__(
        self,
        feature_columns: Sequence[AnyColumn],
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: str | None = None,
        optimizer: Choice = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | None = None,
        loss_reduction: Any = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        keys = {
            "label_dimension": label_dimension,
            "linear_optimizer": chosen(optimizer, LINEAR_FTRL, "Ftrl"),
            "loss_reduction": reduction(loss_reduction),
            "sparse_combiner": sparse_combiner,
        }
        super().__init__(
            "linear_regressor",
            keys,
            _wide(feature_columns),
            model_dir=model_dir,
            config=config,
            weight_column=weight_column,
            warm_start_from=warm_start_from,
        )


class DNNClassifier(Estimator):
    """Dense layers for classes (`tf.estimator.DNNClassifier`)."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[AnyColumn],
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: str | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Choice = "Adagrad",
        activation_fn: Any = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | None = None,
        loss_reduction: Any = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        keys = {
            **_classes(n_classes, label_vocabulary),
            **_dnn_keys(hidden_units, optimizer, activation_fn, dropout, batch_norm),
            "loss_reduction": reduction(loss_reduction),
        }
        super().__init__(
            "dnn_classifier",
            keys,
            _deep(feature_columns),
            model_dir=model_dir,
            config=config,
            label_vocabulary=label_vocabulary,
            weight_column=weight_column,
            warm_start_from=warm_start_from,
        )


class DNNRegressor(Estimator):
    """Dense layers for numbers (`tf.estimator.DNNRegressor`)."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[AnyColumn],
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: str | None = None,
        optimizer: Choice = "Adagrad",
        activation_fn: Any = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | None = None,
        loss_reduction: Any = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        keys = {
            "label_dimension": label_dimension,
            **_dnn_keys(hidden_units, optimizer, activation_fn, dropout, batch_norm),
            "loss_reduction": reduction(loss_reduction),
        }
        super().__init__(
            "dnn_regressor",
            keys,
            _deep(feature_columns),
            model_dir=model_dir,
            config=config,
            weight_column=weight_column,
            warm_start_from=warm_start_from,
        )


class DNNLinearCombinedClassifier(Estimator):
    """Wide and deep, for classes (`tf.estimator.DNNLinearCombinedClassifier`)."""

    def __init__(
        self,
        model_dir: str | None = None,
        linear_feature_columns: Sequence[AnyColumn] | None = None,
        linear_optimizer: Choice = "Ftrl",
        dnn_feature_columns: Sequence[AnyColumn] | None = None,
        dnn_optimizer: Choice = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: str | None = None,
        label_vocabulary: Sequence[str] | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | None = None,
        loss_reduction: Any = "sum_over_batch_size",
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        keys = {
            **_classes(n_classes, label_vocabulary),
            **_dnn_keys(dnn_hidden_units, dnn_optimizer, dnn_activation_fn, dnn_dropout, batch_norm),
            "linear_optimizer": chosen(linear_optimizer, None, "Ftrl"),
            "loss_reduction": reduction(loss_reduction),
            "sparse_combiner": linear_sparse_combiner,
        }
        super().__init__(
            "dnn_linear_combined_classifier",
            keys,
            features(linear_feature_columns or [], dnn_feature_columns or []),
            model_dir=model_dir,
            config=config,
            label_vocabulary=label_vocabulary,
            weight_column=weight_column,
            warm_start_from=warm_start_from,
        )


class DNNLinearCombinedRegressor(Estimator):
    """Wide and deep, for numbers (`tf.estimator.DNNLinearCombinedRegressor`)."""

    def __init__(
        self,
        model_dir: str | None = None,
        linear_feature_columns: Sequence[AnyColumn] | None = None,
        linear_optimizer: Choice = "Ftrl",
        dnn_feature_columns: Sequence[AnyColumn] | None = None,
        dnn_optimizer: Choice = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: str | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | None = None,
        loss_reduction: Any = "sum_over_batch_size",
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        keys = {
            "label_dimension": label_dimension,
            **_dnn_keys(dnn_hidden_units, dnn_optimizer, dnn_activation_fn, dnn_dropout, batch_norm),
            "linear_optimizer": chosen(linear_optimizer, None, "Ftrl"),
            "loss_reduction": reduction(loss_reduction),
            "sparse_combiner": linear_sparse_combiner,
        }
        super().__init__(
            "dnn_linear_combined_regressor",
            keys,
            features(linear_feature_columns or [], dnn_feature_columns or []),
            model_dir=model_dir,
            config=config,
            weight_column=weight_column,
            warm_start_from=warm_start_from,
        )


class BaselineClassifier(Estimator):
    """Predicts the shares of the classes (`tf.estimator.BaselineClassifier`)."""

    def __init__(
        self,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: str | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Choice = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        keys = {**_classes(n_classes, label_vocabulary), "linear_optimizer": chosen(optimizer, None, "Ftrl")}
        super().__init__(
            "baseline_classifier",
            keys,
            [],
            model_dir=model_dir,
            config=config,
            label_vocabulary=label_vocabulary,
            weight_column=weight_column,
        )


class BaselineRegressor(Estimator):
    """Predicts the mean (`tf.estimator.BaselineRegressor`)."""

    def __init__(
        self,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: str | None = None,
        optimizer: Choice = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        keys = {"label_dimension": label_dimension, "linear_optimizer": chosen(optimizer, None, "Ftrl")}
        super().__init__("baseline_regressor", keys, [], model_dir=model_dir, config=config, weight_column=weight_column)


class BaselineEstimator(Estimator):
    """Ignores the features, with a head (`tf.estimator.BaselineEstimator`)."""

    def __init__(
        self, head: Head, model_dir: str | None = None, optimizer: Choice = "Ftrl", config: RunConfig | None = None
    ) -> None:
        keys = {**head.keys, "linear_optimizer": chosen(optimizer, None, "Ftrl")}
        super().__init__("baseline_estimator", keys, [], model_dir=model_dir, config=config, **_of_head(head))


class LinearEstimator(Estimator):
    """A linear model with a head (`tf.estimator.LinearEstimator`)."""

    def __init__(
        self,
        head: Head,
        feature_columns: Sequence[AnyColumn],
        model_dir: str | None = None,
        optimizer: Choice = "Ftrl",
        config: RunConfig | None = None,
        sparse_combiner: str = "sum",
        warm_start_from: str | None = None,
    ) -> None:
        keys = {
            **head.keys,
            "linear_optimizer": chosen(optimizer, LINEAR_FTRL, "Ftrl"),
            "sparse_combiner": sparse_combiner,
        }
        super().__init__(
            "linear_estimator",
            keys,
            _wide(feature_columns),
            model_dir=model_dir,
            config=config,
            warm_start_from=warm_start_from,
            **_of_head(head),
        )


class DNNEstimator(Estimator):
    """Dense layers with a head (`tf.estimator.DNNEstimator`)."""

    def __init__(
        self,
        head: Head,
        hidden_units: Sequence[int],
        feature_columns: Sequence[AnyColumn],
        model_dir: str | None = None,
        optimizer: Choice = "Adagrad",
        activation_fn: Any = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | None = None,
        batch_norm: bool = False,
    ) -> None:
        keys = {**head.keys, **_dnn_keys(hidden_units, optimizer, activation_fn, dropout, batch_norm)}
        super().__init__(
            "dnn_estimator",
            keys,
            _deep(feature_columns),
            model_dir=model_dir,
            config=config,
            warm_start_from=warm_start_from,
            **_of_head(head),
        )


class DNNLinearCombinedEstimator(Estimator):
    """Wide and deep, with a head (`tf.estimator.DNNLinearCombinedEstimator`)."""

    def __init__(
        self,
        head: Head,
        model_dir: str | None = None,
        linear_feature_columns: Sequence[AnyColumn] | None = None,
        linear_optimizer: Choice = "Ftrl",
        dnn_feature_columns: Sequence[AnyColumn] | None = None,
        dnn_optimizer: Choice = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        keys = {
            **head.keys,
            **_dnn_keys(dnn_hidden_units, dnn_optimizer, dnn_activation_fn, dnn_dropout, batch_norm),
            "linear_optimizer": chosen(linear_optimizer, None, "Ftrl"),
            "sparse_combiner": linear_sparse_combiner,
        }
        super().__init__(
            "dnn_linear_combined_estimator",
            keys,
            features(linear_feature_columns or [], dnn_feature_columns or []),
            model_dir=model_dir,
            config=config,
            **_of_head(head),
        )


def _of_head(head: Head) -> dict[str, Any]:
    return {"label_vocabulary": head.label_vocabulary, "weight_column": head.weight_column}
