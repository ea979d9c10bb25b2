"""Heads (`tf.estimator.BinaryClassHead` and others): the loss, the metrics and the predictions of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.estimator.estimator_spec import EstimatorSpec, ModeKeys
from trainyard.estimator.optimizers import Choice, Optimizer, TrainOp, chosen

SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


@dataclass(frozen=True)
class Head:
    """The keys of a head in `[model]` and `[input]`."""

    keys: dict[str, Any]
    label_vocabulary: Sequence[str] | None = None
    weight_column: str | None = None

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Choice = None,
        trainable_variables: Any = None,
        train_op_fn: Callable[[Any], TrainOp] | None = None,
        update_ops: Any = None,
        regularization_losses: Any = None,
    ) -> EstimatorSpec:
        """Returns what a `model_fn` returns, with the loss, metrics and predictions of this head.

        The head computes the loss of `logits` itself: `labels` and `trainable_variables` are not looked at.
        """
        if regularization_losses:
            raise ValueError("regularization_losses must be None: give EstimatorSpec a loss of your own")
        keys = chosen(optimizer, None, "")
        train_op = None if keys is None else TrainOp(Optimizer(keys))
        if train_op_fn is not None:
            train_op = train_op_fn(None)
        if mode == ModeKeys.TRAIN and train_op is None:
            raise ValueError("optimizer or train_op_fn must be given in training")
        return EstimatorSpec(mode, train_op=train_op, head=self, logits=logits)


def reduction(loss_reduction: Any) -> str:
    """Returns a reduction as the job has it.

    Raises ValueError if there is no such reduction.
    """
    name = str(getattr(loss_reduction, "value", loss_reduction)).lower()
    if name not in ("sum", SUM_OVER_BATCH_SIZE):
        raise ValueError(f"loss_reduction must be 'sum' or 'sum_over_batch_size', given {loss_reduction!r}")
    return name


def _refuse_loss(loss_fn: Any) -> None:
    if loss_fn is not None:
        raise ValueError('loss_fn must be None: write a module of trainyard.torch, or set "loss" in a job')


def BinaryClassHead(
    weight_column: str | None = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: Any = SUM_OVER_BATCH_SIZE,
    loss_fn: Any = None,
    name: str | None = None,
) -> Head:
    """One of two classes."""
    _refuse_loss(loss_fn)
    keys = {"head": "binary", "thresholds": thresholds and list(thresholds), "loss_reduction": reduction(loss_reduction)}
    return Head(keys, label_vocabulary, weight_column)


def MultiClassHead(
    n_classes: int,
    weight_column: str | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: Any = SUM_OVER_BATCH_SIZE,
    loss_fn: Any = None,
    name: str | None = None,
) -> Head:
    """One of more than two classes."""
    _refuse_loss(loss_fn)
    if n_classes <= 2:
        raise ValueError(f"n_classes must be > 2, given {n_classes}: use BinaryClassHead for two classes")
    keys = {"head": "multi_class", "n_classes": n_classes, "loss_reduction": reduction(loss_reduction)}
    return Head(keys, label_vocabulary, weight_column)


def MultiLabelHead(
    n_classes: int,
    weight_column: str | None = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: Any = SUM_OVER_BATCH_SIZE,
    loss_fn: Any = None,
    classes_for_class_based_metrics: Sequence[int] | None = None,
    name: str | None = None,
) -> Head:
    """Any number of classes."""
    _refuse_loss(loss_fn)
    keys = {
        "head": "multi_label",
        "n_classes": n_classes,
        "thresholds": thresholds and list(thresholds),
        "classes_for_class_based_metrics": classes_for_class_based_metrics and list(classes_for_class_based_metrics),
        "loss_reduction": reduction(loss_reduction),
    }
    return Head(keys, label_vocabulary, weight_column)


def RegressionHead(
    label_dimension: int = 1,
    weight_column: str | None = None,
    loss_reduction: Any = SUM_OVER_BATCH_SIZE,
    loss_fn: Any = None,
    inverse_link_fn: Any = None,
    name: str | None = None,
) -> Head:
    """Numbers, by the mean squared error."""
    _refuse_loss(loss_fn)
    if inverse_link_fn is not None:
        raise ValueError("inverse_link_fn must be None: use PoissonRegressionHead or LogisticRegressionHead")
    keys = {"head": "regression", "label_dimension": label_dimension, "loss_reduction": reduction(loss_reduction)}
    return Head(keys, None, weight_column)


def PoissonRegressionHead(
    label_dimension: int = 1,
    weight_column: str | None = None,
    compute_full_loss: bool = True,
    loss_reduction: Any = SUM_OVER_BATCH_SIZE,
    name: str | None = None,
) -> Head:
    """Counts, by the loss of Poisson's distribution."""
    if not compute_full_loss:
        raise ValueError("compute_full_loss must be True: the loss has Stirling's term")
    keys = {"head": "poisson", "label_dimension": label_dimension, "loss_reduction": reduction(loss_reduction)}
    return Head(keys, None, weight_column)


def LogisticRegressionHead(
    weight_column: str | None = None, loss_reduction: Any = SUM_OVER_BATCH_SIZE, name: str | None = None
) -> Head:
    """Numbers between 0 and 1, by the cross entropy."""
    keys = {"head": "logistic_regression", "loss_reduction": reduction(loss_reduction)}
    return Head(keys, None, weight_column)
