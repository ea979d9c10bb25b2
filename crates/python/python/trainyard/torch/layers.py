"""The layers of a `model_fn`, which is called once for each batch: a layer is made at the first call, and found later.

Names and arguments are those of `tf.compat.v1.layers` and `tf.compat.v1.feature_column`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trainyard.estimator.feature_column import AnyColumn, Column, DeepColumn, buckets
from trainyard.torch.batch import Batch
from trainyard.torch.embedding import Embedding, row_of_id
from trainyard.torch.module import Module
from trainyard.torch.rows import summed


class Layers(Module):
    """The layers of a `model_fn`, by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict()
        self._used: dict[str, int] = {}
        self._arguments: dict[str, Any] = {}
        """The arguments with which each layer was made."""
        self._is_complete = False
        self.columns: dict[str, Column] = {}
        """The features that `input_layer` and `linear_model` read, by their names."""

    def begin(self) -> None:
        """Begins a call: names are given anew."""
        self._used = {}

    def complete(self) -> None:
        """Ends the first calls: no layer can be made any more."""
        self._is_complete = True

    def module(self, name: str, make: Callable[[], torch.nn.Module], arguments: Any = None) -> torch.nn.Module:
        """Returns the module of a name, which `make` makes at the first call.

        Raises ValueError if a module of this name was made with other `arguments`.
        """
        key = _key(name)
        if key not in self.layers:
            if self._is_complete:
                raise ValueError(
                    f"the layer `{name}` was made neither in training nor in evaluation with an empty batch: a model_fn "
                    "must make the same layers in each call"
                )
            self.layers[key] = make().train(self.training)
            self._arguments[key] = arguments
        elif self._arguments[key] != arguments:
            raise ValueError(
                f"the layer `{name}` was made with {self._arguments[key]}, and is asked for with {arguments}: give one of "
                "them another name"
            )
        return self.layers[key]

    def dense(
        self,
        inputs: torch.Tensor,
        units: int,
        activation: Callable[[torch.Tensor], torch.Tensor] | None = None,
        use_bias: bool = True,
        name: str | None = None,
    ) -> torch.Tensor:
        """Returns the outputs of a dense layer (`tf.compat.v1.layers.dense`).

        As there, its weights begin by Glorot's rule, and its bias at 0.
        """
        outputs = self._linear(inputs, units, use_bias, self._name("dense", name), "glorot_uniform")
        return outputs if activation is None else activation(outputs)

    def batch_normalization(
        self, inputs: torch.Tensor, momentum: float = 0.99, epsilon: float = 1e-3, name: str | None = None
    ) -> torch.Tensor:
        """Returns normalised inputs (`tf.compat.v1.layers.batch_normalization`).

        The mode of the call says whether the statistics are those of the batch or the moving ones.
        """
        width = int(inputs.shape[-1])
        layer = self.module(
            self._name("batch_normalization", name),
            lambda: torch.nn.BatchNorm1d(width, eps=epsilon, momentum=1 - momentum),
            f"{width} inputs, momentum={momentum}, epsilon={epsilon}",
        )
        outputs: torch.Tensor = layer(inputs)
        return outputs

    def dropout(self, inputs: torch.Tensor, rate: float = 0.5) -> torch.Tensor:
        """Returns inputs, of which training drops a share (`tf.compat.v1.layers.dropout`)."""
        return torch.nn.functional.dropout(inputs, rate, self.training)

    def embedding(self, features: Batch, feature: str, dimension: int, **keys: Any) -> Any:
        """Returns what a `trainyard.torch.Embedding` looks up."""
        return self._looked_up(features, feature, feature, dimension, keys)

    def input_layer(
        self, features: Batch, feature_columns: AnyColumn | Sequence[AnyColumn], name: str | None = None
    ) -> torch.Tensor:
        """Returns the columns beside each other, in the order of their names (`feature_column.input_layer`).

        Each call has tables of its own: `input_layer`, `input_layer_1`, ...
        """
        columns = [feature_columns] if isinstance(feature_columns, (Column, DeepColumn)) else list(feature_columns)
        if not columns:
            raise ValueError("feature_columns must not be empty")
        scope = self._name("input_layer", name)
        return torch.cat([self._dense(features, column, scope) for column in sorted(columns, key=_name_of)], 1)

    def linear_model(
        self, features: Batch, feature_columns: Sequence[AnyColumn], units: int = 1, name: str | None = None
    ) -> torch.Tensor:
        """Returns the sums of the weights of the columns, and a bias (`feature_column.linear_model`).

        Each call has weights of its own: `linear_model`, `linear_model_1`, ... All begin at 0.
        """
        scope = self._name("linear_model", name)
        numbers = [column for column in feature_columns if isinstance(column, Column) and column.is_numeric]
        dense = [self._dense(features, column, scope) for column in sorted(numbers, key=_name_of)]
        total = self.module(scope, lambda: _Bias(units), f"units={units}")(features)
        if dense:
            total = total + self._linear(torch.cat(dense, 1), units, False, f"{scope}_numbers", "zeros")
        for column in feature_columns:
            if isinstance(column, DeepColumn):
                raise ValueError(
                    f"linear_model takes `{column.column.name}` itself, without indicator_column or embedding_column"
                )
            if not column.is_numeric:
                feature = self._feature(column, f"{column.name}_{scope}")
                total = total + self.embedding(features, feature, units, combiner="sum", stddev=0.0)
        return total

    def initializer(self, name: str, shape: tuple[int, ...]) -> Mapping[str, Any] | None:
        """Returns the rule of the initial values of a dense layer, or None for those of other modules."""
        path, _, last = name.rpartition(".")
        owner = self.get_submodule(path)
        if not isinstance(owner, _Linear):
            return None
        return {"kind": owner.initial if last == "weight" else "zeros"}

    def _linear(self, inputs: torch.Tensor, units: int, use_bias: bool, name: str, initial: str) -> torch.Tensor:
        width = int(inputs.shape[-1])
        outputs: torch.Tensor = self.module(
            name,
            lambda: _Linear(width, units, use_bias, initial),
            f"{width} inputs, units={units}, use_bias={use_bias}",
        )(inputs)
        return outputs

    def _looked_up(self, features: Batch, layer: str, feature: str, dimension: int, keys: dict[str, Any]) -> Any:
        arguments = f"feature={feature!r}, dimension={dimension}, {keys}"
        return self.module(layer, lambda: Embedding(feature, dimension, **keys), arguments)(features)

    def _dense(self, features: Batch, column: AnyColumn, scope: str) -> torch.Tensor:
        """Returns a column as numbers."""
        if isinstance(column, DeepColumn):
            if dict(column.deep).get("indicator"):
                return self._counts(features, column.column)
            return self._embedded(features, column, scope)
        if column.is_numeric:
            return features[self._feature(column, column.name)]
        if dict(column.keys)["kind"] != "bucketized":
            raise ValueError(f"dense layers need indicator_column or embedding_column around `{column.name}`")
        return self._counts(features, column)

    def _counts(self, features: Batch, column: Column) -> torch.Tensor:
        """Returns how often each id is in each row, or the sum of its weights."""
        width = buckets(column)
        ids = features.ids(self._feature(column, f"{column.name}_indicator"))
        weights = ids.weights
        if weights is None:
            weights = torch.ones(len(ids.values), device=ids.values.device)
        places = row_of_id(ids, features.rows).mul(width).add(ids.values)
        return summed(weights.unsqueeze(1), places, features.rows * width).view(features.rows, width)

    def _embedded(self, features: Batch, column: DeepColumn, scope: str) -> torch.Tensor:
        deep = dict(column.deep)
        feature = self._feature(column.column, column.column.name)
        if deep.get("max_norm") is not None or not deep.get("trainable", True):
            raise ValueError(f"the embedding of `{feature}` must be without max_norm, and trainable")
        table = deep.get("table")
        layer = feature
        if scope != "input_layer":
            # The first call has the names of a model_fn with one. A named table is that of all calls.
            layer = f"{scope}/{feature}"
            if table is None:
                table = layer
            else:
                # A feature is looked up once in a table.
                feature = self._feature(column.column, f"{feature}_{scope}")
        keys = {"table": table, "combiner": deep.get("combiner", "mean"), "initializer": deep.get("initializer")}
        vectors: torch.Tensor = self._looked_up(features, layer, feature, deep["embedding"], keys)
        return vectors

    def _feature(self, column: Column, name: str) -> str:
        """Adds a feature. One that is read in two ways has two names."""
        if name not in self.columns:
            self.columns[name] = dataclasses.replace(column, name=name)
        return name

    def _name(self, kind: str, name: str | None) -> str:
        """Returns a name, or the next of a kind: `dense`, `dense_1`, ..."""
        if name is not None:
            return name
        count = self._used.get(kind, 0)
        self._used[kind] = count + 1
        return kind if count == 0 else f"{kind}_{count}"


class _Linear(torch.nn.Linear):
    """A dense layer that knows the rule of its initial weights."""

    def __init__(self, width: int, units: int, use_bias: bool, initial: str) -> None:
        super().__init__(width, units, bias=use_bias)
        self.initial = initial


class _Bias(torch.nn.Module):
    """A bias for each row."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, features: Batch) -> torch.Tensor:
        return self.bias.expand(features.rows, -1)


def _key(name: str) -> str:
    """Returns the key of a name in a ModuleDict, which takes neither `.` nor the name of an attribute of its own."""
    escaped = name.replace("%", "%25").replace(".", "%2E")
    return f"{escaped}%" if hasattr(torch.nn.ModuleDict, name) else escaped


def _name_of(column: AnyColumn) -> str:
    """Returns TensorFlow's name of a column."""
    if isinstance(column, Column):
        return column.name
    return f"{column.column.name}_{'indicator' if dict(column.deep).get('indicator') else 'embedding'}"
