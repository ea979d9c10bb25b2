"""The tables of a module's embeddings: values in, lookups, gradients out.

A module may have many embeddings of few numbers, and each operation of PyTorch costs some microseconds. So all tables of
one dimension are one leaf tensor, and its embeddings that have at most one id in each row are looked up together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from trainyard.adapter import Array, Ids
from trainyard.torch.batch import RowIds
from trainyard.torch.embedding import Embedding
from trainyard.torch.parameters import flat
from trainyard.torch.rows import looked_up


class Tables:
    """The tables of the embeddings of a module."""

    def __init__(self, embeddings: Sequence[Embedding]) -> None:
        """Groups the tables by their dimensions."""
        self._embeddings = list(embeddings)
        self._dimensions = {each.described.table: each.described.dimension for each in embeddings}
        self._place = {name: place for place, name in enumerate(self._dimensions)}
        self._members: dict[int, list[int]] = {}
        for name, dimension in self._dimensions.items():
            self._members.setdefault(dimension, []).append(self._place[name])

    def __len__(self) -> int:
        return len(self._dimensions)

    @property
    def dimensions(self) -> list[int]:
        """Values in a row of each table."""
        return list(self._dimensions.values())

    def load(self, values: Sequence[Array], lookups: Sequence[Ids], rows: int) -> LoadedTables:
        """Returns the rows of a batch, with the lookups of the embeddings."""
        first = [0] * len(self)
        matrices = {}
        for dimension, members in self._members.items():
            begin = 0
            for place in members:
                first[place] = begin
                begin += values[place].size // dimension
            # The last row is the vector of a row without id.
            joined = np.concatenate([*[values[place] for place in members], np.zeros(dimension, dtype=np.float32)])
            matrices[dimension] = torch.from_numpy(joined).view(-1, dimension).requires_grad_()
        loaded = LoadedTables(matrices, rows)
        for embedding, ids in zip(self._embeddings, lookups, strict=True):
            loaded.add(embedding, first[self._place[embedding.described.table]], ids)
        return loaded

    def gradients(self, loaded: LoadedTables, values: Sequence[Array]) -> list[Array]:
        """Returns the gradient of each table."""
        gradients: list[Array] = [np.zeros(0, dtype=np.float32)] * len(self)
        for dimension, members in self._members.items():
            matrix = loaded.matrices[dimension]
            joined = flat(matrix.grad, matrix)
            begin = 0
            for place in members:
                end = begin + values[place].size
                gradients[place] = joined[begin:end]
                begin = end
        return gradients


class LoadedTables:
    """The rows of a batch, one matrix for each dimension. Its last row is 0."""

    def __init__(self, matrices: dict[int, torch.Tensor], rows: int) -> None:
        self.matrices = matrices
        self._rows = rows
        self._single: dict[int, list[tuple[Embedding, Ids, int]]] = {dimension: [] for dimension in matrices}
        self._others: dict[int, tuple[int, int, Ids]] = {}
        self._found: dict[int, torch.Tensor] = {}

    def add(self, embedding: Embedding, first: int, ids: Ids) -> None:
        """Adds a lookup in the rows from `first` on."""
        dimension = embedding.described.dimension
        if embedding.combiner is not None and _has_at_most_one(ids):
            self._single[dimension].append((embedding, ids, first))
        else:
            self._others[id(embedding)] = (dimension, first, ids)

    def of_rows(self, embedding: torch.nn.Module) -> torch.Tensor | None:
        """Returns `[rows, dimension]` if each row has at most one id, without weight; otherwise None."""
        found = self._found.get(id(embedding))
        if found is not None:
            return found
        if id(embedding) in self._others:
            return None
        assert isinstance(embedding, Embedding)
        self._look_up(embedding.described.dimension)
        return self._found[id(embedding)]

    def _look_up(self, dimension: int) -> None:
        """Looks the ids of all embeddings of a dimension up at once."""
        single = self._single[dimension]
        matrix = self.matrices[dimension]
        places = np.empty((len(single), self._rows), dtype=np.int64)
        for line, (_, (values, offsets, _), first) in zip(places, single, strict=True):
            if offsets is None:
                np.add(values, first, out=line)
            else:
                line.fill(matrix.shape[0] - 1)
                line[np.diff(offsets) == 1] = values + first
        found = looked_up(matrix, torch.from_numpy(places.reshape(-1)))
        # The gradient of all parts is one operation.
        parts = found.view(len(single), self._rows, dimension).unbind(0)
        for (embedding, _, _), part in zip(single, parts, strict=True):
            self._found[id(embedding)] = part

    def of_ids(self, embedding: torch.nn.Module) -> tuple[torch.Tensor, RowIds]:
        """Returns the vectors of all ids, `[ids, dimension]`, and the rows to which they belong."""
        dimension, first, (values, offsets, weights) = self._others[id(embedding)]
        vectors = looked_up(self.matrices[dimension], torch.from_numpy(values + first))
        return vectors, row_ids((values, offsets, weights))


def _has_at_most_one(ids: Ids) -> bool:
    """Returns whether each row has at most one id, without weight: whatever the combiner is, it returns its vector."""
    _, offsets, weights = ids
    return weights is None and (offsets is None or bool((np.diff(offsets) <= 1).all()))


def row_ids(ids: Ids) -> RowIds:
    """Returns arrays as tensors."""
    values, offsets, weights = ids
    return RowIds(
        torch.from_numpy(values),
        None if offsets is None else torch.from_numpy(offsets),
        None if weights is None else torch.from_numpy(weights),
    )
