"""A `model_fn` as a model: which features and layers it has, and its results for each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainyard import metrics
from trainyard.adapter import Array, Input, Predictions
from trainyard.estimator.estimator_spec import EstimatorSpec, ModeKeys
from trainyard.estimator.feature_column import width
from trainyard.constants import limited, named_by
from trainyard.metrics import Sums
from trainyard.torch.adapter import BUILD_ROWS, Adapter, several_rows
from trainyard.torch.batch import Batch, RowIds
from trainyard.torch.embedding import Embedding
from trainyard.torch.layers import Layers
from trainyard.torch.module import Module
from trainyard.torch.outputs import MULTI_CLASS, Outputs
from trainyard.torch.twin import array_of

if TYPE_CHECKING:
    from trainyard.estimator.custom import Estimator


@dataclass(frozen=True)
class Trace:
    """What a `model_fn` does with a batch of zeros."""

    spec: EstimatorSpec
    """Its results in training."""
    layers: Layers
    numbers: list[str]
    """The features that it reads itself, as numbers."""


def traced(estimator: Estimator, head: str) -> Trace:
    """Calls a `model_fn` in each mode with zeros, before its features are known. `head` reads the labels."""
    layers = Layers()
    batch = _TracedBatch(layers)
    labels = torch.zeros(BUILD_ROWS, dtype=torch.long if head == MULTI_CLASS else torch.float32)
    layers.eval()
    with torch.no_grad():
        specs = [_call(estimator, layers, batch, labels, mode) for mode in (ModeKeys.TRAIN, ModeKeys.EVAL)]
        _call(estimator, layers, batch, None, ModeKeys.PREDICT)
    layers.complete()
    return Trace(specs[0], layers, list(batch.asked))


def _call(
    estimator: Estimator, layers: Layers, batch: Batch, labels: torch.Tensor | None, mode: str
) -> EstimatorSpec:
    layers.begin()
    return estimator.call(features=batch, labels=labels, mode=mode, layers=layers)


class _ZeroVectors:
    """Vectors of zeros for any embedding."""

    def of_rows(self, embedding: torch.nn.Module) -> torch.Tensor | None:
        assert isinstance(embedding, Embedding)
        if embedding.combiner is None:
            return None
        return torch.zeros(BUILD_ROWS, embedding.described.dimension)

    def of_ids(self, embedding: torch.nn.Module) -> tuple[torch.Tensor, RowIds]:
        assert isinstance(embedding, Embedding)
        return torch.zeros(BUILD_ROWS, embedding.described.dimension), _zero_ids()


class _TracedBatch(Batch):
    """A batch of zeros that has any feature."""

    def __init__(self, layers: Layers) -> None:
        super().__init__(torch.zeros(BUILD_ROWS, 0), {}, {}, _ZeroVectors())
        self._layers = layers
        self.asked: dict[str, None] = {}
        """The features whose numbers the function has asked for."""

    @property
    def numbers(self) -> torch.Tensor:
        raise ValueError('a model_fn must name each numeric feature, as in features["price"]: it makes them features of the job')

    def __getitem__(self, feature: str) -> torch.Tensor:
        column = self._layers.columns.get(feature)
        if column is not None:
            return torch.zeros(BUILD_ROWS, width(column))
        self.asked[feature] = None
        return torch.zeros(BUILD_ROWS, 1)

    def ids(self, feature: str) -> RowIds:
        return _zero_ids()


def _zero_ids() -> RowIds:
    return RowIds(torch.zeros(BUILD_ROWS, dtype=torch.long), None, None)


class FunctionAdapter(Adapter):
    """A `model_fn` in a process of a job."""

    def __init__(self, estimator: Estimator, job: str) -> None:
        """Finds the layers of the function."""
        self._estimator = estimator
        self._has_head = False

        def build(model: Any) -> Layers:
            trace = traced(estimator, model["head"])
            self._has_head = trace.spec.head is not None
            return trace.layers

        super().__init__(build, None, job)

    @property
    def has_loss(self) -> bool:
        """Whether the function computes its own loss, instead of a head."""
        return not self._has_head

    @property
    def has_logits(self) -> bool:
        """Whether a head of the function takes its logits."""
        return self._has_head

    def constants(self) -> dict[str, str]:
        """Returns a digest of each value outside of the function that it uses, and of those of its layers."""
        found = super().constants()
        return limited(found | dict(named_by(self._estimator.model_fn, array_of, set())))

    def train(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None
    ) -> tuple[float, list[Array]]:
        """Returns the loss, and the gradient of each variable."""
        loss = self._called(features, values, labels, ModeKeys.TRAIN).loss
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            given = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise ValueError(f"loss must be a tensor of one number, given {given}")
        return self._descended(loss.squeeze())

    def evaluate(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None, sums: Sums
    ) -> tuple[Array | None, dict[str, float]]:
        """Returns the logits of a head, and the function's own metrics of the batches so far, with its loss."""
        with torch.no_grad():
            spec = self._called(features, values, labels, ModeKeys.EVAL)
            own = dict(spec.eval_metric_ops or {})
            if spec.head is None:
                return None, sums.add({**own, "loss": metrics.mean(spec.loss)})
            return _flat(self._form.read(spec.logits, features[0]).joined()), sums.add(own)

    def predict(self, features: Input, values: Sequence[Array]) -> Predictions:
        """Returns the predictions of the function, or the logits of a head."""
        with torch.no_grad():
            spec = self._called(features, values, None, ModeKeys.PREDICT)
            if spec.predictions is None:
                return _flat(self._form.read(spec.logits, features[0]).joined())
            found = spec.predictions if isinstance(spec.predictions, dict) else {"predictions": spec.predictions}
            return {key: each if isinstance(each, list) else _flat(_prediction(key, each)) for key, each in found.items()}

    def _build(self, module: Module, batch: Batch) -> None:
        assert isinstance(module, Layers)
        labels = self._flat_labels(np.zeros(batch.rows * self._label_width, dtype=np.float32), batch.rows)
        for mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            _call(self._estimator, module, batch, labels, mode)
        _call(self._estimator, module, batch, None, ModeKeys.PREDICT)

    @property
    def _label_width(self) -> int:
        """The labels of a row, before its logits are known."""
        return 1 if self._head == MULTI_CLASS else self._units

    def _flat_labels(self, labels: Array, rows: int) -> torch.Tensor:
        """Returns labels as TensorFlow does: `[rows]`, or `[rows, labels]` if a row has several."""
        return self._labels(labels, [rows] if self._label_width == 1 else [rows, self._label_width])

    def _trained(self, features: Input, values: Sequence[Array]) -> tuple[Outputs, Batch]:
        self._set_training(True)
        batch = self._loaded_batch(features, values)
        with several_rows(features[0]):
            spec = _call(self._estimator, self._layers, batch, None, ModeKeys.TRAIN)
        return self._form.read(spec.logits, batch.rows), batch

    def _called(self, features: Input, values: Sequence[Array], labels: Array | None, mode: str) -> EstimatorSpec:
        self._set_training(mode == ModeKeys.TRAIN)
        batch = self._loaded_batch(features, values)
        wanted = None if labels is None else self._flat_labels(labels, features[0])
        with several_rows(features[0]):
            return _call(self._estimator, self._layers, batch, wanted, mode)

    @property
    def _layers(self) -> Layers:
        assert isinstance(self._module, Layers)
        return self._module


def _prediction(key: str, values: torch.Tensor) -> torch.Tensor:
    """Returns a prediction: a number or several numbers of each row."""
    if values.dim() > 2:
        raise ValueError(f"the prediction `{key}` must have the shape [rows] or [rows, values], given {list(values.shape)}")
    return values


def _flat(values: torch.Tensor) -> Array:
    """Returns a tensor as a flat array of 32-bit floats, or of integers."""
    kept = values.float() if values.is_floating_point() else values.long()
    return kept.detach().cpu().contiguous().view(-1).numpy()  # type: ignore[no-any-return]
