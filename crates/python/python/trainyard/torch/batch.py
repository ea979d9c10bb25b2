"""A batch as a module receives it: numbers and ids by the names of their features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class RowIds:
    """Integers by row."""

    values: torch.Tensor
    """All values, row after row."""
    offsets: torch.Tensor | None
    """First value of each row, and then the number of values. None: each row has one value."""
    weights: torch.Tensor | None
    """A weight for each value. None: all are 1."""


class Batch(Mapping[str, torch.Tensor]):
    """The features of a batch.

    `batch["price"]` are the numbers of a numeric feature, `[rows, width]`. `batch["day"]` are the ids of any other
    feature that has no embedding, `[rows]`.
    """

    def __init__(self, rows: int, numbers: Mapping[str, torch.Tensor], ids: Mapping[str, RowIds]) -> None:
        self.rows = rows
        self._numbers = numbers
        self._ids = ids
        self._lookups: dict[int, tuple[torch.Tensor, RowIds]] = {}

    def __getitem__(self, feature: str) -> torch.Tensor:
        if feature in self._numbers:
            return self._numbers[feature]
        if feature not in self._ids:
            raise KeyError(
                f"`{feature}` is no feature of the batch: it has {', '.join(self) or 'none'}; "
                "add a [[feature]] to the job, or an Embedding to the module"
            )
        ids = self._ids[feature]
        if ids.offsets is not None:
            raise ValueError(
                f"`{feature}` must have one id in every row to be a tensor: look it up with an Embedding instead"
            )
        return ids.values

    def __iter__(self) -> Iterator[str]:
        yield from self._numbers
        yield from self._ids

    def __len__(self) -> int:
        return len(self._numbers) + len(self._ids)

    def set_lookup(self, embedding: torch.nn.Module, vectors: torch.Tensor, ids: RowIds) -> None:
        """Gives an embedding the vectors that the batch needs, and their places."""
        self._lookups[id(embedding)] = (vectors, ids)

    def lookup(self, embedding: torch.nn.Module) -> tuple[torch.Tensor, RowIds]:
        """Returns the vectors and places of an embedding."""
        return self._lookups[id(embedding)]
