"""Models whose gradients are written by hand, over arrays of numpy.

    class Net(tn.Model):
        def __init__(self, params):
            self.user = tn.Embedding("user_id", 4)
            self.weights = tn.Variable("weights", [5])
            super().__init__([self.user], [self.weights])

        def logits(self, batch, values): ...

        def gradients(self, batch, values, delta): ...

`trainyard.torch` and `trainyard.jax` are the same without a backward pass of one's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Union

import numpy as np

from trainyard import _native, adapter
from trainyard.adapter import Array, Ids, Input, Lookup, Matrices, MatrixLookups, Parameter, Predictions, Shown
from trainyard.callbacks import Callback, Callbacks
from trainyard.constants import constants, limited
from trainyard.metrics import Metric, Sums
from trainyard.optimizer import SGD, Adagrad, Adam, Ftrl, Optimizer
from trainyard.program import ModelProgram, run_to_exit, this_program

__all__ = [
    "SGD", "Adagrad", "Adam", "Batch", "Embedding", "Ftrl", "Metric", "Model", "Optimizer", "Places", "Values", "Variable",
    "main", "program",
]  # fmt: skip

COMBINERS = ("mean", "sum", "sqrtn")
BUILD_ROWS = 2
"""Rows of the batch of zeros that shows the shape of the logits."""


@dataclass(frozen=True)
class Variable:
    """A dense variable. Without `initializer`, matrices begin with Glorot's values, and vectors with 0."""

    name: str
    shape: Sequence[int]
    initializer: Mapping[str, Any] | None = None
    optimizer: Optimizer | None = None

    def described(self) -> Parameter:
        """Returns the description for the servers."""
        rule = self.initializer or {"kind": "glorot_uniform" if len(self.shape) > 1 else "zeros"}
        optimizer = None if self.optimizer is None else self.optimizer.to_json()
        return Parameter(self.name, list(self.shape), json.dumps(rule), optimizer)


class Embedding:
    """A lookup of the ids of a feature: the vectors of each row, combined."""

    def __init__(
        self,
        feature: str,
        dimension: int,
        *,
        table: str | None = None,
        combiner: str = "mean",
        optimizer: Optimizer | None = None,
        stddev: float | None = None,
        rows_max: int | None = None,
        separator: str | None = None,
        initializer: Any = None,
        regularizer: Any = None,
    ) -> None:
        """Describes a lookup, as `trainyard.torch.Embedding` does."""
        if combiner not in COMBINERS:
            raise ValueError(f"combiner must be one of {', '.join(COMBINERS)}, given {combiner!r}")
        self.combiner = combiner
        self.described = Lookup.of(
            feature,
            dimension,
            table=table,
            optimizer=optimizer,
            stddev=stddev,
            rows_max=rows_max,
            separator=separator,
            initializer=initializer,
            regularizer=regularizer,
        )

    def forward(self, batch: Batch, values: Values) -> Array:
        """Returns the combined vectors of each row, `[rows, dimension]`. A row without ids is 0."""
        places = batch.places(self)
        vectors = values[self.described.table][places.ids] * places.shares[:, None]
        return _summed(vectors, places.rows, batch.rows)

    def backward(self, batch: Batch, values: Values, delta: Array) -> Array:
        """Returns the gradient of the table's rows, given that of the combined vectors."""
        places = batch.places(self)
        rows = delta[places.rows] * places.shares[:, None]
        return _summed(rows, places.ids, len(values[self.described.table]))


@dataclass(frozen=True)
class Places:
    """The ids of an embedding: row of the table, row of the batch and share of each."""

    ids: Array
    rows: Array
    shares: Array


class Values(Mapping[str, Array]):
    """The values of a step: those of variables, and the rows of tables that the batch names."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: Union[str, Variable, Embedding]) -> Array:
        if isinstance(name, Variable):
            name = name.name
        elif isinstance(name, Embedding):
            name = name.described.table
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Batch(Mapping[str, Array]):
    """The features of a batch: `batch["price"]` are numbers, `[rows, width]`."""

    def __init__(
        self, rows: int, numbers: Mapping[str, Array], ids: Mapping[str, Ids], places: Mapping[int, Places]
    ) -> None:
        self.rows = rows
        self._numbers = numbers
        self._ids = ids
        self._places = places

    def __getitem__(self, feature: str) -> Array:
        if feature in self._numbers:
            return self._numbers[feature]
        ids = self.ids(feature)
        if ids[2] is not None:
            raise ValueError(
                f"the ids of `{feature}` have weights, which an array of ids leaves out: look them up with an Embedding, or read "
                f'both from batch.ids("{feature}")'
            )
        found = _one_id_a_row(ids)
        if found is None:
            raise ValueError(f"`{feature}` has several ids in a row, and is no array: look it up with an Embedding")
        return found

    def ids(self, feature: str) -> Ids:
        """Returns values, offsets and weights of a feature that has no embedding."""
        if feature not in self._ids:
            raise KeyError(
                f"`{feature}` is no feature of the batch: it has {', '.join(self) or 'none'}; "
                "add a [[feature]] to the job, or an Embedding to the model"
            )
        return self._ids[feature]

    def dense(self) -> dict[str, Array]:
        """Returns the features that are arrays: numbers, and ids without weights of which each row has at most one, or -1."""
        found = {name: _one_id_a_row(ids) for name, ids in self._ids.items() if ids[2] is None}
        return {**self._numbers, **{name: values for name, values in found.items() if values is not None}}

    def places(self, embedding: Embedding) -> Places:
        """Returns the ids of an embedding. Their shares are those of `tf.nn.safe_embedding_lookup_sparse`."""
        return self._places[id(embedding)]

    def __iter__(self) -> Iterator[str]:
        yield from self._numbers
        yield from self._ids

    def __len__(self) -> int:
        return len(self._numbers) + len(self._ids)


class Model:
    """A model over arrays. A subclass computes logits, and gradients from the gradient of the logits, or a loss of its own."""

    sums_losses = False
    """The job has `model.loss_reduction = "sum"`: the loss of a batch is a sum, otherwise a mean. Set before `loss` is called."""
    has_loss = False
    """The model computes its own training loss, by `loss`; otherwise the head of the job does."""

    def __init__(self, embeddings: Sequence[Embedding], variables: Sequence[Variable]) -> None:
        """Lists embeddings and variables."""
        self.embeddings = list(embeddings)
        self.variables = list(variables)

    def logits(self, batch: Batch, values: Values) -> Array:
        """Returns the logits: `[rows]` or `[rows, units]`."""
        raise NotImplementedError

    def gradients(self, batch: Batch, values: Values, delta: Array) -> Mapping[str, Array]:
        """Returns the gradient of each variable and table by its name, given that of the logits. A missing one is 0."""
        raise NotImplementedError

    def loss(self, batch: Batch, values: Values, labels: Array, weights: Array | None) -> tuple[float, Mapping[str, Array]]:
        """Returns the training loss of the batch, and the gradients. Called if `has_loss`.

        The labels have the shape that `logits` returns; those of several classes are `[rows]`. The weights are `[rows]` beside
        labels of that shape, and `[rows, 1]` beside others.
        """
        raise NotImplementedError

    def metrics(self, logits: Array, labels: Array) -> Mapping[str, Metric]:
        """Returns metrics of a batch, besides those of the head. The labels have the shape of the logits; those of several
        classes are `[rows]`. A method with a third argument, `weights`, receives the weights of the rows, `[rows]` or
        `[rows, 1]` as the labels have one or two dimensions, or None.
        """
        return {}


Build = Callable[[Mapping[str, Any]], Model]


class Adapter(adapter.Adapter):
    """A model in a process of a job."""

    def __init__(self, build: Build, job: str) -> None:
        """Builds the model of a job, which is JSON."""
        settings = json.loads(job)["model"]
        if settings.get("tasks"):
            raise ValueError(
                "a job of several tasks has a module of PyTorch, by trainyard.torch: name another model.kind, such as custom_estimator"
            )
        self._model = build(adapter.params_of(settings))
        if not isinstance(self._model, Model):
            raise TypeError(f"a model must be a trainyard.numpy.Model, given a {type(self._model).__name__}")
        self._head = settings.get("head")
        self._model.sums_losses = settings.get("loss_reduction") == "sum"
        self._matrices = Matrices(self.tables())
        self._shapes = {each.name: tuple(each.shape) for each in self._model.variables}
        tables = [name for tables in self._matrices.tables.values() for name in tables]
        self._names = [*tables, *self._shapes]
        if len(set(self._names)) < len(tables) + len(self._model.variables):
            raise ValueError(f"tables and variables must have different names, given {', '.join(self._names)}")
        self._numbers: dict[str, tuple[int, int]] = {}
        self._ids: list[str] = []
        self._units = 1
        self._is_flat = False
        """The logits of a batch are `[rows]`."""
        self._kept: tuple[Batch, Values, tuple[int, ...]] | None = None

    @property
    def has_loss(self) -> bool:
        """Whether the model computes its own training loss."""
        return self._model.has_loss

    def tables(self) -> list[Lookup]:
        """Returns the embeddings, whose tables are the first variables."""
        return adapter.resolved([each.described for each in self._model.embeddings])

    def parameters(self, shown: Shown, units: int) -> list[Parameter]:
        """Learns the columns and the width of the logits, and returns the dense variables."""
        self._numbers, self._ids = shown
        self._units = units
        width = max((begin + count for begin, count in self._numbers.values()), default=0)
        numbers = np.zeros(BUILD_ROWS * width, dtype=np.float32)
        matrices, lookups = self._matrices.zeros(BUILD_ROWS)
        ids: list[Ids] = [(np.zeros(BUILD_ROWS, dtype=np.int64), None, None) for _ in self._ids]
        variables = [np.zeros(math.prod(shape), dtype=np.float32) for shape in self._shapes.values()]
        self._is_flat = self._logits((BUILD_ROWS, numbers, lookups, ids), [*matrices, *variables]).ndim == 1
        return [each.described() for each in self._model.variables]

    def constants(self) -> dict[str, str]:
        """Returns a digest of each value that the model's code makes and no variable is."""
        return limited(dict(constants(self._model, "", lambda _: None)))

    def forward(self, features: Input, values: Sequence[Array]) -> Array:
        """Returns the logits, and keeps what `backward` needs."""
        return self._logits(features, values).reshape(-1)

    def backward(self, delta: Array) -> list[Array]:
        """Returns the gradient of each matrix and variable, given that of the logits."""
        if self._kept is None:
            raise RuntimeError("backward follows forward")
        batch, values, shape = self._kept
        return self._listed(self._model.gradients(batch, values, delta.reshape(shape)), values)

    def train(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None
    ) -> tuple[float, list[Array]]:
        """Returns the model's own loss, and the gradient of each matrix and variable."""
        batch, named = self._named(features, values)
        wanted = self._labels(labels, batch.rows)
        loss, gradients = self._model.loss(batch, named, wanted, adapter.shares_of(weights, wanted))
        if np.size(loss) != 1:
            raise ValueError(f"loss must return one number for the batch, given the shape {list(np.shape(loss))}")
        return float(np.reshape(loss, ())), self._listed(gradients, named)

    def evaluate(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None, sums: Sums
    ) -> tuple[Array | None, dict[str, float]]:
        """Returns the logits, and the model's own metrics of the batches so far."""
        logits = self._logits(features, values)
        wanted = self._labels(labels, features[0])
        return logits.reshape(-1), sums.add(adapter.metrics_of(self._model.metrics, logits, wanted, weights))

    def predict(self, features: Input, values: Sequence[Array]) -> Predictions:
        """Returns the logits."""
        return self._logits(features, values).reshape(-1)

    def _labels(self, labels: Array, rows: int) -> Array:
        """Returns labels in the shape of the logits; `[rows]` if they are one of several classes."""
        is_single = self._is_flat or self._head == "multi_class"
        return labels.reshape(rows) if is_single else labels.reshape(rows, self._units)

    def _logits(self, features: Input, values: Sequence[Array]) -> Array:
        batch, named = self._named(features, values)
        logits = np.ascontiguousarray(self._model.logits(batch, named), dtype=np.float32)
        if logits.shape not in [(batch.rows, self._units), *([(batch.rows,)] if self._units == 1 else [])]:
            raise ValueError(
                f"logits must have the shape [{batch.rows}, {self._units}], as the label needs, given {list(logits.shape)}"
            )
        self._kept = (batch, named, logits.shape)
        return logits

    def _named(self, features: Input, values: Sequence[Array]) -> tuple[Batch, Values]:
        rows, numbers, lookups, ids = features
        matrix = numbers.reshape(rows, -1) if numbers.size else np.zeros((rows, 0), dtype=np.float32)
        columns = {name: matrix[:, begin : begin + width] for name, (begin, width) in self._numbers.items()}
        places: dict[int, Places] = {}
        named: dict[str, Array] = {}
        for (dimension, tables), array, of_matrix in zip(self._matrices.tables.items(), values, lookups):
            vectors = array.reshape(-1, dimension)
            starts = dict(zip(tables, of_matrix[0], strict=True))
            for name, begin, end in zip(tables, of_matrix[0], [*of_matrix[0][1:], len(vectors) - 1], strict=True):
                named[name] = vectors[begin:end]
            for embedding, found in self._placed(of_matrix, rows, empty=len(vectors) - 1):
                start = starts[embedding.described.table]
                places[id(embedding)] = Places(found.ids - start, found.rows, found.shares)
        variables = zip(self._shapes.items(), values[len(self._matrices) :], strict=True)
        named |= {name: array.reshape(shape) for (name, shape), array in variables}
        return Batch(rows, columns, dict(zip(self._ids, ids, strict=True)), places), Values(named)

    def _placed(self, lookups: MatrixLookups, rows: int, empty: int) -> Iterator[tuple[Embedding, Places]]:
        """Yields embeddings of a matrix with their ids, which are rows of the matrix."""
        _, single, lines, others = lookups
        for place, line in zip(single, lines.reshape(len(single), rows), strict=True):
            filled = np.flatnonzero(line != empty)
            yield self._model.embeddings[place], Places(line[filled], filled, np.ones(len(filled), dtype=np.float32))
        for place, ids in others:
            embedding = self._model.embeddings[place]
            yield embedding, _places(ids, rows, embedding.combiner)

    def _listed(self, gradients: Mapping[str, Array], values: Values) -> list[Array]:
        """Returns gradients in the order of matrices and variables."""
        unknown = [name for name in gradients if name not in self._names]
        if unknown:
            raise ValueError(f"`{unknown[0]}` is neither a table nor a variable: the model has {', '.join(self._names)}")
        listed = []
        for dimension, tables in self._matrices.tables.items():
            of_tables = [_gradient_of(name, gradients, values) for name in tables]
            listed.append(np.concatenate([*of_tables, np.zeros(dimension, dtype=np.float32)]))
        return listed + [_gradient_of(name, gradients, values) for name in self._shapes]


def _gradient_of(name: str, gradients: Mapping[str, Array], values: Values) -> Array:
    """Returns the gradient of a table or variable as a flat array, 0 if it is missing."""
    like = values[name]
    gradient = np.ascontiguousarray(gradients.get(name, np.zeros_like(like)), dtype=np.float32)
    if gradient.shape != like.shape:
        raise ValueError(f"the gradient of `{name}` must have the shape {list(like.shape)}, given {list(gradient.shape)}")
    return gradient.reshape(-1)


def main(model: Build, *, callbacks: Sequence[Callback] = ()) -> NoReturn:
    """Runs the command line of this process for a model, and exits with its code.

    `model` is the class, or a function from the keys of `[model]` to a model.
    """
    run_to_exit(program(model, callbacks))


def program(model: Build, callbacks: Sequence[Callback] = ()) -> ModelProgram:
    """Returns the program of a model."""
    return ModelProgram(this_program(), lambda job: Adapter(model, job), Callbacks.of(callbacks))


def _one_id_a_row(ids: Ids) -> Array | None:
    """Returns an id for each row, and -1 for a row without one; None if a row has several."""
    values, offsets, _ = ids
    if offsets is None:
        return values
    counts = np.diff(offsets)
    if (counts > 1).any():
        return None
    found = np.full(len(counts), -1, dtype=np.int64)
    found[counts == 1] = values
    return found


def _places(ids: Ids, rows: int, combiner: str) -> Places:
    values, offsets, weights = ids
    if offsets is None:
        row_of_id = np.arange(rows)
    else:
        row_of_id = np.repeat(np.arange(rows), np.diff(offsets))
    shares = np.ones(len(values), dtype=np.float32) if weights is None else weights
    if combiner != "sum":
        shares = np.maximum(shares, 0)
        of_row = np.bincount(row_of_id, shares if combiner == "mean" else shares * shares, rows)
        divisor = of_row if combiner == "mean" else np.sqrt(of_row)
        shares = (shares / np.maximum(divisor, 1e-30)[row_of_id]).astype(np.float32)
    return Places(values, row_of_id, shares)


def _summed(rows: Array, places: Array, count: int) -> Array:
    """Returns `count` sums: row i is added to the sum at `places[i]`."""
    width = rows.shape[1]
    sums = np.zeros(count * width, dtype=np.float32)
    flat = np.ascontiguousarray(rows, dtype=np.float32).reshape(-1)
    _native.add_rows(np.ascontiguousarray(places, dtype=np.int64), flat, sums, width)
    return sums.reshape(count, width)
