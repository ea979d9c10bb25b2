"""Metrics of a model's own (`tf.compat.v1.metrics`): each function returns the part of one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Metric:
    """The part of a batch in a metric: numbers that are summed over the batches, and what the sums mean."""

    sums: Array
    result: Callable[[Array], float]


class Sums:
    """The sums of an evaluation."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[Array, Callable[[Array], float]]] = {}

    def add(self, metrics: Mapping[str, Metric]) -> dict[str, float]:
        """Adds a batch, and returns the metrics of the batches so far.

        Raises TypeError if a value is no metric.
        """
        for name, metric in metrics.items():
            if not isinstance(metric, Metric):
                raise TypeError(
                    f"the metric `{name}` must be made by a function of trainyard.metrics, given a "
                    f"{type(metric).__name__}"
                )
            before = self._sums.get(name)
            sums = metric.sums if before is None else before[0] + metric.sums
            self._sums[name] = (sums, metric.result)
        return {name: float(result(sums)) for name, (sums, result) in self._sums.items()}


def mean(values: Any, weights: Any = None) -> Metric:
    """The weighted mean of numbers."""
    numbers = _flat(values)
    shares = _weights(weights, numbers)
    return Metric(np.array([(numbers * shares).sum(), shares.sum()]), _ratio)


def accuracy(labels: Any, predictions: Any, weights: Any = None) -> Metric:
    """The share of predictions that equal the labels."""
    wanted, found = _pair(labels, predictions)
    return mean(wanted == found, weights)


def mean_absolute_error(labels: Any, predictions: Any, weights: Any = None) -> Metric:
    """The mean distance of predictions from labels."""
    wanted, found = _pair(labels, predictions)
    return mean(np.abs(wanted - found), weights)


def mean_squared_error(labels: Any, predictions: Any, weights: Any = None) -> Metric:
    """The mean square of the distance of predictions from labels."""
    wanted, found = _pair(labels, predictions)
    return mean((wanted - found) ** 2, weights)


def root_mean_squared_error(labels: Any, predictions: Any, weights: Any = None) -> Metric:
    """The root of the mean square of the distance of predictions from labels."""
    return Metric(mean_squared_error(labels, predictions, weights).sums, lambda sums: _ratio(sums) ** 0.5)


def precision(labels: Any, predictions: Any, weights: Any = None) -> Metric:
    """The share of predicted positives that are positive. Predictions are true or false."""
    wanted, found = _pair(labels, predictions)
    shares = _weights(weights, wanted) * (found != 0)
    return Metric(np.array([(shares * (wanted != 0)).sum(), shares.sum()]), _ratio)


def recall(labels: Any, predictions: Any, weights: Any = None) -> Metric:
    """The share of positives that are predicted to be positive. Predictions are true or false."""
    wanted, found = _pair(labels, predictions)
    shares = _weights(weights, wanted) * (wanted != 0)
    return Metric(np.array([(shares * (found != 0)).sum(), shares.sum()]), _ratio)


def auc(labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200) -> Metric:
    """The area under the receiver operating characteristic, by trapezoids between thresholds.

    Predictions are probabilities.
    """
    if num_thresholds < 2:
        raise ValueError(f"num_thresholds must be >= 2, given {num_thresholds}")
    wanted, found = _pair(labels, predictions)
    shares = _weights(weights, wanted)
    # Bucket k holds the predictions that are above k of the thresholds 0, 1/(n-1), ..., 1.
    bucket = np.clip(np.ceil(found * (num_thresholds - 1)), 0, num_thresholds - 1).astype(np.int64)
    positives = np.bincount(bucket, shares * (wanted != 0), num_thresholds)
    negatives = np.bincount(bucket, shares * (wanted == 0), num_thresholds)
    return Metric(np.stack([positives, negatives]), _area)


def _area(sums: Array) -> float:
    """Returns the area under the curve of positives and negatives by bucket."""
    above = np.concatenate([np.zeros((2, 1)), np.cumsum(sums[:, ::-1], axis=1)], axis=1)
    rates = above / np.maximum(above[:, -1:], 1e-30)
    heights = (rates[0, 1:] + rates[0, :-1]) / 2
    return float((heights * np.diff(rates[1])).sum())


def _ratio(sums: Array) -> float:
    return float(sums[0] / sums[1]) if sums[1] else 0.0


def _flat(values: Any) -> Array:
    """Returns numbers as a flat array; also a tensor of PyTorch, whose gradient is left behind."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64).reshape(-1)


def _pair(labels: Any, predictions: Any) -> tuple[Array, Array]:
    wanted = _flat(labels)
    found = _flat(predictions)
    if wanted.shape != found.shape:
        raise ValueError(f"labels and predictions must be as many, given {wanted.size} and {found.size}")
    return wanted, found


def _weights(weights: Any, like: Array) -> Array:
    if weights is None:
        return np.ones_like(like, dtype=np.float64)
    shares = _flat(weights)
    if shares.size == 1:
        return np.broadcast_to(shares, like.shape)
    if shares.size != like.size:
        raise ValueError(f"weights must be one, or as many as the values, {like.size}, given {shares.size}")
    return shares
