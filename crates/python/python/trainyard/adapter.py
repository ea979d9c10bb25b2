"""The interface between the native part and a model in Python: arrays of numpy in, arrays out.

The native part reads and transforms batches, talks to the parameter servers, and calls an `Adapter` with a batch and the
values that the batch needs. Each framework has its own.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from trainyard.callbacks import Callbacks
from trainyard.initializers import initial_values, penalty
from trainyard.metrics import Metric, Sums
from trainyard.optimizer import Optimizer

Array = np.ndarray[Any, Any]
Ids = tuple[Array, "Array | None", "Array | None"]
"""Values, offsets of rows, weights. Without offsets, each row has one value; without weights, all are 1."""
MatrixLookups = tuple[list[int], list[int], Array, list[tuple[int, Ids]]]
"""The lookups of a batch in a matrix: the first row of each table; the embeddings that have at most one id in each row,
without weight; a row of the matrix for each of them and each row of the batch; the other embeddings, with rows of the
matrix as ids."""
Input = tuple[int, Array, list[MatrixLookups], list[Ids]]
"""Rows, numbers, the lookups in each matrix, and the ids of features without embedding."""
Shown = tuple[dict[str, tuple[int, int]], list[str]]
"""First column and width of each numeric feature, and the names of the other features that no embedding looks up."""
Predictions = Union[Array, tuple[Array, dict[str, Array]], dict[str, Any]]
"""Logits, from which the head of the job predicts, or those and outputs of the model's own; or flat arrays and lists of texts by their
keys."""


def params_of(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the argument `params` of a model: the keys of `[model]`, and those of `[model.params]`, which win."""
    return {**model, **model.get("params", {})}


@dataclass(frozen=True)
class Lookup:
    """A description of an embedding for the servers."""

    feature: str
    table: str
    dimension: int
    rows_max: int | None
    separator: str | None
    initializer: str
    optimizer: str | None
    combined: bool
    """The vectors of a row are combined to one."""
    regularizer: str | None = None
    given: frozenset[str] = frozenset()
    """The fields of the table that are no defaults."""

    @classmethod
    def of(
        cls,
        feature: str,
        dimension: int,
        *,
        table: str | None,
        optimizer: Optimizer | None,
        stddev: float | None,
        rows_max: int | None,
        separator: str | None,
        initializer: Any = None,
        regularizer: Any = None,
        combined: bool = True,
    ) -> Lookup:
        """Returns the description of an embedding, with the defaults of all frameworks.

        Raises ValueError if the dimension is below 1, or there is no such initializer or regularizer.
        """
        if dimension < 1:
            raise ValueError(f"dimension must be >= 1, given {dimension}")
        if stddev is not None and initializer is not None:
            raise ValueError("stddev and initializer exclude each other: stddev is that of a truncated normal distribution")
        deviation = 1 / math.sqrt(dimension) if stddev is None else stddev
        rule = {"kind": "truncated_normal", "stddev": deviation} if initializer is None else initial_values(initializer)
        given = {
            "initializer": initializer if stddev is None else stddev,
            "optimizer": optimizer,
            "regularizer": regularizer,
            "rows_max": rows_max,
        }
        return cls(
            feature=feature,
            table=table or feature,
            dimension=dimension,
            rows_max=rows_max,
            separator=separator,
            initializer=json.dumps(rule),
            optimizer=None if optimizer is None else optimizer.to_json(),
            combined=combined,
            regularizer=None if regularizer is None else json.dumps(penalty(regularizer)),
            given=frozenset(name for name, value in given.items() if value is not None),
        )


def resolved(lookups: Sequence[Lookup]) -> list[Lookup]:
    """Returns lookups of which those of one table describe it alike: an argument that one of them gives counts for all.

    Raises ValueError if two give different ones.
    """
    by_table: dict[str, dict[str, tuple[str, Any]]] = {}
    for lookup in lookups:
        of_table = by_table.setdefault(lookup.table, {})
        for name in sorted(lookup.given):
            value = getattr(lookup, name)
            feature, known = of_table.setdefault(name, (lookup.feature, value))
            if known != value:
                raise ValueError(
                    f"the embeddings of the table `{lookup.table}` must have one {name}: that of `{feature}` gives {known}, "
                    f"and that of `{lookup.feature}` {value}. Give it once"
                )
    return [
        dataclasses.replace(lookup, **{name: value for name, (_, value) in by_table[lookup.table].items()})
        for lookup in lookups
    ]


def metrics_of(
    metrics: Callable[..., Mapping[str, Metric]], logits: Any, labels: Any, weights: Any
) -> Mapping[str, Metric]:
    """Calls the metrics of a model, with the weights if they have such an argument."""
    if "weights" in inspect.signature(metrics).parameters:
        return metrics(logits, labels, shares_of(weights, labels))
    return metrics(logits, labels)


def shares_of(weights: Any, labels: Any) -> Any:
    """Returns the weights of rows in a shape in which they multiply what was computed of labels row by row.

    That is `[rows]` beside labels of that shape, and `[rows, 1]` beside those of `[rows, units]`.
    """
    return None if weights is None else weights.reshape(weights.shape[0], *[1] * (labels.ndim - 1))


class Matrices:
    """The matrices of a model: all tables of one dimension are one, in the order in which dimensions first occur.

    The rows that a batch names lie behind each other, and behind them is a row of 0, the vector of a row without id.
    """

    def __init__(self, lookups: Sequence[Lookup]) -> None:
        """Groups the tables of embeddings."""
        self._lookups = list(lookups)
        self.tables: dict[int, list[str]] = {}
        """The tables of each dimension."""
        for lookup in lookups:
            tables = self.tables.setdefault(lookup.dimension, [])
            if lookup.table not in tables:
                tables.append(lookup.table)

    def __len__(self) -> int:
        return len(self.tables)

    def zeros(self, rows: int) -> tuple[list[Array], list[MatrixLookups]]:
        """Returns matrices of 0, and lookups in which each row of a batch has one id."""
        values, lookups = [], []
        for dimension, tables in self.tables.items():
            own = [place for place, lookup in enumerate(self._lookups) if lookup.dimension == dimension]
            single = [place for place in own if self._lookups[place].combined]
            ids: Ids = (np.zeros(rows, dtype=np.int64), None, None)
            others = [(place, ids) for place in own if not self._lookups[place].combined]
            values.append(np.zeros((len(tables) + 1) * dimension, dtype=np.float32))
            lookups.append((list(range(len(tables))), single, np.zeros(len(single) * rows, dtype=np.int64), others))
        return values, lookups


@dataclass(frozen=True)
class Parameter:
    """A description of a dense variable for the servers."""

    name: str
    shape: list[int]
    initializer: str
    optimizer: str | None
    moving: bool = False
    """It is a moving average: no optimizer moves it, and its "gradient" is how far it falls in a step."""
    values: Array | None = None
    """The flat array in which the model keeps its values: those of each step are written into it. None: each step brings an
    array of its own."""


class Adapter:
    """A model in a process of a job.

    The values of a step are flat arrays: one for each matrix of tables, then one for each parameter, which is the model's own
    if it has one. So are its gradients, which may have other shapes.
    """

    callbacks: Callbacks | None = None
    """Receives the events of the run."""

    @property
    def has_loss(self) -> bool:
        """Whether the model computes its own training loss, instead of the head of the job."""
        return False

    @property
    def has_logits(self) -> bool:
        """Whether evaluations return logits for the head of the job."""
        return True

    def tables(self) -> list[Lookup]:
        """Returns the embeddings, whose tables are the first variables."""
        raise NotImplementedError

    def parameters(self, shown: Shown, units: int) -> list[Parameter]:
        """Learns the columns and the width of the logits, and returns the dense variables."""
        raise NotImplementedError

    def outputs(self) -> list[str]:
        """Returns the names of the outputs of the model's own, which predictions have beside those of the head. Called after
        `parameters`."""
        return []

    def constants(self) -> dict[str, str]:
        """Returns a digest of each value that the model's code makes and no parameter is. Called after `parameters`."""
        return {}

    def forward(self, features: Input, values: Sequence[Array]) -> Array:
        """Returns the logits, and keeps what `backward` needs. Called if the head computes the loss."""
        raise NotImplementedError

    def backward(self, delta: Array) -> list[Array]:
        """Returns the gradient of each matrix and parameter, given that of the logits."""
        raise NotImplementedError

    def train(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None
    ) -> tuple[float, list[Array]]:
        """Returns the model's own loss, and the gradient of each matrix and parameter. Called if the model computes the loss."""
        raise NotImplementedError

    def metrics(self) -> Sums:
        """Returns empty sums of the model's own metrics."""
        return Sums()

    def evaluate(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None, sums: Sums
    ) -> tuple[Array | None, dict[str, float]]:
        """Returns the logits, and the model's own metrics of the batches so far.

        Without logits, the metrics of the head are left out.
        """
        raise NotImplementedError

    def predict(self, features: Input, values: Sequence[Array]) -> Predictions:
        """Returns the logits or predictions of a batch without labels. The logits of several tasks are side by side."""
        raise NotImplementedError
