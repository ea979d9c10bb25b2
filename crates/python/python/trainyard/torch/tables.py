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
from trainyard.torch.parameters import exported
from trainyard.torch.rows import looked_up, looked_up_together


class Tables:
    """The tables of the embeddings of a module."""

    def __init__(self, embeddings: Sequence[Embedding], device: torch.device) -> None:
        """Groups the tables by their dimensions. Their rows are put on `device`."""
        self.matrices = Matrices([each.described for each in embeddings])
        self._place = {id(embedding): place for place, embedding in enumerate(embeddings)}
        self._device = device

    def __len__(self) -> int:
        return len(self.matrices)

    def load(self, values: Sequence[Array], lookups: Sequence[MatrixLookups]) -> LoadedTables:
        """Returns the rows of a batch, with the lookups of the embeddings."""
        matrices = [
            torch.from_numpy(array).view(-1, dimension).to(self._device).requires_grad_()
            for dimension, array in zip(self.matrices.tables, values, strict=True)
        ]
        return LoadedTables(matrices, lookups, self._place)


class LoadedTables:
    """The rows of a batch, one matrix for each dimension. Its last row is 0."""

    def __init__(
        self, matrices: list[torch.Tensor], lookups: Sequence[MatrixLookups], place: dict[int, int]
    ) -> None:
        self._matrices = matrices
        self._place = place
        self._found: dict[int, torch.Tensor] = {}
        self._others: dict[int, tuple[torch.Tensor, Ids]] = {}
        for matrix, (_, single, places, others) in zip(matrices, lookups, strict=True):
            if single:
                found = looked_up_together(matrix, torch.from_numpy(places).to(matrix.device), len(single))
                self._found.update(zip(single, found, strict=True))
            for embedding, ids in others:
                self._others[embedding] = (matrix, ids)

    def of_rows(self, embedding: torch.nn.Module) -> torch.Tensor | None:
        """Returns `[rows, dimension]` if each row has at most one id, without weight; otherwise None."""
        return self._found.get(self._place[id(embedding)])

    def of_ids(self, embedding: torch.nn.Module) -> tuple[torch.Tensor, RowIds]:
        """Returns the vectors of all ids, `[ids, dimension]`, and the rows to which they belong."""
        matrix, ids = self._others[self._place[id(embedding)]]
        rows = row_ids(ids, matrix.device)
        return looked_up(matrix, rows.values), rows

    def gradients(self) -> list[Array]:
        """Returns the gradient of each matrix."""
        return [exported(matrix.grad, matrix) for matrix in self._matrices]


def row_ids(ids: Ids, device: torch.device) -> RowIds:
    """Returns arrays as tensors."""
    values, offsets, weights = ids
    return RowIds(
        torch.from_numpy(values).to(device),
        None if offsets is None else torch.from_numpy(offsets).to(device),
        None if weights is None else torch.from_numpy(weights).to(device),
    )
