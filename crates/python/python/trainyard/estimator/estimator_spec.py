"""What a `model_fn` returns (`tf.estimator.EstimatorSpec`), and its modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainyard.estimator.optimizers import TrainOp

if TYPE_CHECKING:
    from trainyard.estimator.head import Head
    from trainyard.metrics import Metric


class ModeKeys:
    """The modes of a `model_fn`."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@dataclass(frozen=True)
class EstimatorSpec:
    """The results of a `model_fn` for a batch.

    `export_outputs` is not looked at: there is no export of a function, and `predict` returns `predictions`.
    """

    mode: str
    predictions: Any = None
    """Tensors of as many rows as the batch, by their keys."""
    loss: Any = None
    """A tensor of one number, from which PyTorch computes the gradients."""
    train_op: TrainOp | None = None
    """The result of an optimizer's `minimize`."""
    eval_metric_ops: Mapping[str, Metric] | None = None
    """Results of the functions of `trainyard.estimator.metrics`."""
    export_outputs: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None
    head: Head | None = None
    """The head that computes loss, metrics and predictions of `logits`, in a result of its `create_estimator_spec`."""
    logits: Any = None

    def __post_init__(self) -> None:
        """Raises ValueError if a result that the mode needs is missing."""
        for name in ("training_chief_hooks", "training_hooks", "evaluation_hooks", "prediction_hooks", "scaffold"):
            if getattr(self, name):
                raise ValueError(f"{name} must be None: TrainSpec, EvalSpec and train take hooks, and there is no graph")
        if self.mode == ModeKeys.TRAIN and not isinstance(self.train_op, TrainOp):
            raise ValueError(
                "train_op must be the result of minimize() of an optimizer of trainyard.estimator.optimizers, given "
                f"{self.train_op!r}"
            )
        if self.head is not None:
            return
        if self.mode in (ModeKeys.TRAIN, ModeKeys.EVAL) and self.loss is None:
            raise ValueError(f"loss must be given in the mode {self.mode!r}")
        if self.mode == ModeKeys.PREDICT and self.predictions is None:
            raise ValueError("predictions must be given in the mode 'infer'")
