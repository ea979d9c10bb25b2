"""An estimator with a model of the user's own (`tf.estimator.Estimator`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainyard.callbacks import Callback, Callbacks
from trainyard.estimator.base import BaseEstimator
from trainyard.estimator.estimator_spec import EstimatorSpec
from trainyard.estimator.feature_column import numeric_column, plain_features
from trainyard.estimator.run_config import RunConfig
from trainyard.program import ModelProgram, Runner, this_program

if TYPE_CHECKING:
    from trainyard.torch.model_fn import Trace

ARGUMENTS = ("features", "labels", "mode", "params", "config", "layers")
"""The arguments that a `model_fn` may have."""


class Estimator(BaseEstimator):
    """Trains a function of PyTorch's tensors.

    `model_fn(features, labels, mode, params, config, layers)` may have fewer arguments, and returns an `EstimatorSpec`.
    It is called once for each batch. `layers` makes its layers, and finds them at the next call; it has the functions of
    `tf.compat.v1.layers` and `feature_column.input_layer`. An optimizer in `train_op` is that of the parameter servers.
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: str | None = None,
    ) -> None:
        self._arguments = list(inspect.signature(model_fn).parameters)
        unknown = [name for name in self._arguments if name not in ARGUMENTS]
        if unknown or "features" not in self._arguments:
            raise ValueError(
                f"model_fn must have the argument features, and may have {', '.join(ARGUMENTS[1:])}, given "
                f"{', '.join(self._arguments)}"
            )
        self.model_fn = model_fn
        self.params = dict(params or {})
        super().__init__({}, [], model_dir=model_dir, config=config, warm_start_from=warm_start_from)

    def call(self, **given: Any) -> EstimatorSpec:
        """Calls the `model_fn` with the arguments that it has.

        Raises TypeError if it returns something else than an EstimatorSpec.
        """
        given |= {"params": dict(self.params), "config": self.config}
        spec = self.model_fn(**{name: given[name] for name in self._arguments})
        if not isinstance(spec, EstimatorSpec):
            raise TypeError(f"model_fn must return an EstimatorSpec, given a {type(spec).__name__}")
        return spec

    def runner(self, callbacks: Sequence[Callback] = ()) -> Runner:
        """Returns the program that runs the jobs of this estimator."""
        from trainyard.torch.model_fn import FunctionAdapter

        return ModelProgram(this_program(), lambda job: FunctionAdapter(self, job), Callbacks.of(callbacks))

    def export_saved_model(
        self, export_dir_base: str, serving_input_receiver_fn: Any = None, assets_extra: Any = None
    ) -> str:
        """Raises ValueError: a function of PyTorch has no form as a SavedModel."""
        raise self._no_saved_model()

    def check_exporters(self, exporters: Sequence[Any]) -> None:
        """Raises ValueError if there is one: a function of PyTorch has no form as a SavedModel."""
        if exporters:
            raise self._no_saved_model()

    def _no_saved_model(self) -> ValueError:
        return ValueError(
            "a model_fn cannot be exported as a SavedModel: `predict` answers with it, and the checkpoints in "
            f"{self.model_dir} have its values"
        )

    def described(self, label: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Returns the keys of `[model]` for a label, and the features that the `model_fn` reads."""
        from trainyard.torch.model_fn import traced

        head = _head_of(label)
        trace = traced(self, head)
        spec = trace.spec
        optimizer = None if spec.train_op is None else spec.train_op.optimizer.keys
        keys = {"head": head} if spec.head is None else spec.head.keys
        if spec.head is not None and spec.head.weight_column is not None:
            self._weight_column = spec.head.weight_column
        return {"kind": "custom_estimator", **keys, "optimizer": optimizer}, _features(trace)


def _features(trace: Trace) -> list[dict[str, Any]]:
    columns = dict(trace.layers.columns)
    for name in trace.numbers:
        columns.setdefault(name, numeric_column(name))
    return plain_features(list(columns.values()))


def _head_of(label: Mapping[str, Any]) -> str:
    """Returns the head that reads a label: texts are classes, and numbers are numbers."""
    vocabulary = label.get("vocabulary")
    if vocabulary and len(vocabulary) > 2:
        return "multi_class"
    return "binary" if vocabulary or label.get("positive") is not None else "regression"
