"""The tables of a module's embeddings: values in, lookups, gradients out.

All tables of one dimension are one leaf tensor, and its embeddings that have at most one id in each row are looked up
together: each operation of PyTorch costs some microseconds, and a module may have many embeddings of few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trainyard.adapter import Array, Ids, Matrices, MatrixLookups
from trainyard.torch.batch import RowIds
from trainyard.torch.embedding import Embedding
from trainyard.torch.parameters import flat
from trainyard.torch.rows import looked_up


class Tables:
    """The tables of the embeddings of a module."""

    def __init__(self, embeddings: Sequence[Embedding], device: torch.device) -> None:
        """Groups the tables by their dimensions. Their rows are put on `device`."""
        self.matrices = Matrices([each.described for each in embeddings])
        self._place = {id(embedding): place for place, embedding in enumerate(embeddings)}
        self._device = device

    def __len__(self) -> int:
        return len(self.matrices)

    def load(self, values: Sequence[Array], lookups: Sequence[MatrixLookups], rows: int) -> LoadedTables:
        """Returns the rows of a batch, with the lookups of the embeddings."""
        matrices = [
            torch.from_numpy(array).view(-1, dimension).to(self._device).requires_grad_()
            for dimension, array in zip(self.matrices.tables, values, strict=True)
        ]
        return LoadedTables(matrices, lookups, rows, self._place)


class LoadedTables:
    """The rows of a batch, one matrix for each dimension. Its last row is 0."""

    def __init__(
        self, matrices: list[torch.Tensor], lookups: Sequence[MatrixLookups], rows: int, place: dict[int, int]
    ) -> None:
        self._matrices = matrices
        self._rows = rows
        self._place = place
        self._single: dict[int, tuple[int, MatrixLookups]] = {}
        self._others: dict[int, tuple[int, Ids]] = {}
        self._found: dict[int, torch.Tensor] = {}
        for matrix, of_matrix in enumerate(lookups):
            _, single, _, others = of_matrix
            for embedding in single:
                self._single[embedding] = (matrix, of_matrix)
            for embedding, ids in others:
                self._others[embedding] = (matrix, ids)

    def of_rows(self, embedding: torch.nn.Module) -> torch.Tensor | None:
        """Returns `[rows, dimension]` if each row has at most one id, without weight; otherwise None."""
        place = self._place[id(embedding)]
        if place not in self._found:
            if place in self._others:
                return None
            self._look_up(*self._single[place])
        return self._found[place]

    def of_ids(self, embedding: torch.nn.Module) -> tuple[torch.Tensor, RowIds]:
        """Returns the vectors of all ids, `[ids, dimension]`, and the rows to which they belong."""
        matrix, ids = self._others[self._place[id(embedding)]]
        rows = row_ids(ids, self._matrices[matrix].device)
        return looked_up(self._matrices[matrix], rows.values), rows

    def gradients(self) -> list[Array]:
        """Returns the gradient of each matrix."""
        return [flat(matrix.grad, matrix) for matrix in self._matrices]

    def _look_up(self, matrix: int, lookups: MatrixLookups) -> None:
        """Looks the ids of all embeddings of a matrix up at once."""
        _, single, places, _ = lookups
        rows = self._matrices[matrix]
        found = looked_up(rows, torch.from_numpy(places).to(rows.device))
        # The gradient of all parts is one operation.
        parts = found.view(len(single), self._rows, rows.shape[1]).unbind(0)
        self._found.update(zip(single, parts, strict=True))


def row_ids(ids: Ids, device: torch.device) -> RowIds:
    """Returns arrays as tensors."""
    values, offsets, weights = ids
    return RowIds(
        torch.from_numpy(values).to(device),
        None if offsets is None else torch.from_numpy(offsets).to(device),
        None if weights is None else torch.from_numpy(weights).to(device),
    )
