"""The object that the native part calls: it puts a batch and values into a module, and takes gradients out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from trainyard.torch.batch import Batch, RowIds
from trainyard.torch.embedding import Embedding, Lookup
from trainyard.torch.module import Module
from trainyard.torch.parameters import Parameter, Parameters, flat

Array = np.ndarray[Any, Any]
Ids = tuple[Array, "Array | None", "Array | None"]
Input = tuple[int, Array, tuple[list[Ids], list[Ids]]]
"""Rows, numbers, and the ids of embeddings and of other features."""
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

MULTI_CLASS = "multi_class"


class Adapter:
    """A module in a process of a job."""

    def __init__(self, build: Callable[[Mapping[str, Any]], Module], loss: Loss | None, job: str) -> None:
        """Builds the module of a job, which is JSON."""
        settings = json.loads(job)
        threads = settings["run"]["intra_op_parallelism_threads"]
        if threads:
            torch.set_num_threads(threads)
        self._module = build(settings["model"])
        if not isinstance(self._module, Module):
            raise TypeError(
                f"a model must be a trainyard.torch.Module, given a {type(self._module).__name__}: derive the class "
                "from it"
            )
        self._loss = loss
        self._sums = settings["model"]["loss_reduction"] == "sum"
        self._head = settings["model"]["head"]
        self._embeddings = [each for each in self._module.modules() if isinstance(each, Embedding)]
        names = list(dict.fromkeys(each.described.table for each in self._embeddings))
        self._tables = {name: place for place, name in enumerate(names)}
        self._dimensions = {each.described.table: each.described.dimension for each in self._embeddings}
        self._numbers: dict[str, tuple[int, int]] = {}
        self._ids: list[str] = []
        self._units = 1
        self._parameters: Parameters | None = None
        self._vectors: list[torch.Tensor] = []
        self._logits: torch.Tensor | None = None

    @property
    def has_loss(self) -> bool:
        """Whether the module's own loss is trained, instead of the head's."""
        return self._loss is not None

    def tables(self) -> list[Lookup]:
        """Returns the embeddings, whose tables are the first variables."""
        return [each.described for each in self._embeddings]

    def parameters(self, shown: tuple[dict[str, tuple[int, int]], list[str]], units: int) -> list[Parameter]:
        """Learns the columns and the width of the logits, and returns the parameters, the further variables.

        A batch of two rows of zeros passes through the module, which gives lazy layers their shapes.
        """
        self._numbers, self._ids = shown
        self._units = units
        rows = 2
        width = max((begin + count for begin, count in self._numbers.values()), default=0)
        ids: Ids = (np.zeros(rows, dtype=np.int64), None, None)
        lookups = ([ids] * len(self._embeddings), [ids] * len(self._ids))
        values = [np.zeros(dimension, dtype=np.float32) for dimension in self._dimensions.values()]
        batch = self._batch((rows, np.zeros(rows * width, dtype=np.float32), lookups), values)
        self._module.eval()
        with torch.no_grad():
            self._checked(self._module(batch), rows)
        self._parameters = Parameters(self._module)
        return self._parameters.described

    def infer(self, features: Input, values: Sequence[Array]) -> Array:
        """Returns the logits, without what training alone does."""
        self._module.eval()
        with torch.no_grad():
            return self._forward(features, values).contiguous().view(-1).numpy()

    def forward(self, features: Input, values: Sequence[Array]) -> Array:
        """Returns the logits, and keeps what `backward` needs."""
        self._module.train()
        self._logits = self._forward(features, values)
        return self._logits.detach().contiguous().view(-1).numpy()

    def backward(self, delta: Array) -> list[Array]:
        """Returns the gradient of each variable, given that of the logits."""
        logits, self._logits = self._logits, None
        if logits is None:
            raise RuntimeError("backward follows forward")
        logits.backward(torch.from_numpy(delta).view(logits.shape))
        return self._gradients()

    def train(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None
    ) -> tuple[float, list[Array]]:
        """Returns the module's own loss, and the gradient of each variable."""
        if self._loss is None:
            raise RuntimeError("the module has no loss of its own")
        self._module.train()
        logits = self._forward(features, values)
        wanted = torch.from_numpy(labels)
        if self._head == MULTI_CLASS:
            wanted = wanted.long()
        else:
            wanted = wanted.view(logits.shape)
        losses = self._loss(logits, wanted)
        loss = self._reduced(losses, features[0], weights)
        loss.backward()
        return float(loss.detach()), self._gradients()

    def _reduced(self, losses: torch.Tensor, rows: int, weights: Array | None) -> torch.Tensor:
        """Returns the loss of the batch: the weighted sum over the rows, divided by their number unless the job says
        otherwise."""
        if losses.dim() == 0:
            if weights is not None:
                raise ValueError("the loss must give a value for each row, because the job has weights: reduction=\"none\"")
            return losses
        if losses.shape[0] != rows:
            raise ValueError(f"the loss must give a value for each of {rows} rows, given the shape {list(losses.shape)}")
        if weights is not None:
            losses = losses * torch.from_numpy(weights).view(rows, *[1] * (losses.dim() - 1))
        return losses.sum() if self._sums else losses.sum() / losses.numel()

    def _forward(self, features: Input, values: Sequence[Array]) -> torch.Tensor:
        batch = self._batch(features, values[: len(self._tables)])
        if self._parameters is None:
            raise RuntimeError("the columns of the module are not known")
        self._parameters.load(values[len(self._tables) :])
        return self._checked(self._module(batch), features[0])

    def _checked(self, logits: Any, rows: int) -> torch.Tensor:
        """Returns the logits as `[rows, units]`."""
        if isinstance(logits, torch.Tensor):
            if self._units == 1 and tuple(logits.shape) == (rows,):
                return logits.unsqueeze(1)
            if tuple(logits.shape) == (rows, self._units):
                return logits
        given = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(f"forward must return logits of shape [{rows}, {self._units}], as the label needs, given {given}")

    def _batch(self, features: Input, tables: Sequence[Array]) -> Batch:
        rows, numbers, (lookups, ids) = features
        matrix = torch.from_numpy(numbers).view(rows, -1)
        columns = {name: matrix[:, begin : begin + width] for name, (begin, width) in self._numbers.items()}
        batch = Batch(rows, columns, {name: _row_ids(each) for name, each in zip(self._ids, ids, strict=True)})
        widths = self._dimensions.values()
        self._vectors = [torch.from_numpy(table).view(-1, width) for table, width in zip(tables, widths, strict=True)]
        for vectors in self._vectors:
            vectors.requires_grad_()
        for embedding, each in zip(self._embeddings, lookups, strict=True):
            batch.set_lookup(embedding, self._vectors[self._tables[embedding.described.table]], _row_ids(each))
        return batch

    def _gradients(self) -> list[Array]:
        if self._parameters is None:
            raise RuntimeError("the columns of the module are not known")
        tables = [flat(vectors.grad, vectors) for vectors in self._vectors]
        return tables + self._parameters.gradients()


def _row_ids(ids: Ids) -> RowIds:
    values, offsets, weights = ids
    return RowIds(
        torch.from_numpy(values),
        None if offsets is None else torch.from_numpy(offsets),
        None if weights is None else torch.from_numpy(weights),
    )
