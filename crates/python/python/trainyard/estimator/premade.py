"""Premade estimators: each is the `[model]` and the features of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.estimator.base import BaseEstimator
from trainyard.estimator.feature_column import AnyColumn, features
from trainyard.estimator.head import Head, reduction
from trainyard.estimator.optimizers import Choice, chosen
from trainyard.estimator.run_config import RunConfig

LINEAR_FTRL = {"kind": "ftrl", "learning_rate": 0.2}
"""Default of `Linear*`: the text `Ftrl` there means this rate."""


class Premade(BaseEstimator):
    """A premade estimator."""

    def __init__(self, kind: str, keys: Mapping[str, Any], columns: Sequence[dict[str, Any]], **others: Any) -> None:
        """Describes an estimator of a kind of `[model]`."""
        super().__init__({"kind": kind, "defaults": "tensorflow2", **keys}, columns, **others)


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


class LinearClassifier(Premade):
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


class LinearRegressor(Premade):
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


class DNNClassifier(Premade):
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


class DNNRegressor(Premade):
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


class DNNLinearCombinedClassifier(Premade):
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


class DNNLinearCombinedRegressor(Premade):
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


class BaselineClassifier(Premade):
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


class BaselineRegressor(Premade):
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


class BaselineEstimator(Premade):
    """Ignores the features, with a head (`tf.estimator.BaselineEstimator`)."""

    def __init__(
        self, head: Head, model_dir: str | None = None, optimizer: Choice = "Ftrl", config: RunConfig | None = None
    ) -> None:
        keys = {**head.keys, "linear_optimizer": chosen(optimizer, None, "Ftrl")}
        super().__init__("baseline_estimator", keys, [], model_dir=model_dir, config=config, **_of_head(head))


class LinearEstimator(Premade):
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


class DNNEstimator(Premade):
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


class DNNLinearCombinedEstimator(Premade):
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
