"""A batch as a module receives it: numbers and ids by the names of their features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

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


class Vectors(Protocol):
    """The vectors that the embeddings of a batch look up."""

    def of_rows(self, embedding: torch.nn.Module) -> torch.Tensor | None:
        """Returns `[rows, dimension]` if each row has at most one id, without weight; otherwise None."""
        ...

    def of_ids(self, embedding: torch.nn.Module) -> tuple[torch.Tensor, RowIds]:
        """Returns the vectors of all ids, `[ids, dimension]`, and the rows to which they belong."""
        ...


class Batch(Mapping[str, torch.Tensor]):
    """The features of a batch.

    `batch["price"]` are the numbers of a numeric feature, `[rows, width]`. `batch["day"]` are the ids of any other
    feature that has no embedding, `[rows]`; a row without id has -1. A feature of several ids in a row, or of weights, is
    refused: `batch.ids(name)` has its ids and weights.
    """

    def __init__(
        self,
        numbers: torch.Tensor,
        columns: Mapping[str, tuple[int, int]],
        ids: Mapping[str, RowIds],
        vectors: Vectors,
    ) -> None:
        self.rows = numbers.shape[0]
        self.vectors = vectors
        self._numbers = numbers
        self._columns = columns
        self._ids = ids

    @property
    def numbers(self) -> torch.Tensor:
        """All numeric features side by side, in the order of the job: `[rows, width]`."""
        return self._numbers

    def __getitem__(self, feature: str) -> torch.Tensor:
        columns = self._columns.get(feature)
        if columns is not None:
            return self._numbers.narrow(1, *columns)
        ids = self.ids(feature)
        if ids.weights is not None:
            raise ValueError(
                f"the ids of `{feature}` have weights, which a tensor of ids leaves out: look them up with an Embedding, or read "
                f'both from batch.ids("{feature}")'
            )
        if ids.offsets is None:
            return ids.values
        counts = ids.offsets[1:] - ids.offsets[:-1]
        if bool((counts > 1).any()):
            raise ValueError(f"`{feature}` has several ids in a row, and is no tensor: look it up with an Embedding instead")
        found = ids.values.new_full((len(counts),), -1)
        found[counts == 1] = ids.values
        return found

    def ids(self, feature: str) -> RowIds:
        """Returns the ids of a feature that has no embedding."""
        if feature not in self._ids:
            raise KeyError(
                f"`{feature}` is no feature of the batch: it has {', '.join(self) or 'none'}; "
                "add a [[feature]] to the job, or an Embedding to the module"
            )
        return self._ids[feature]

    def __iter__(self) -> Iterator[str]:
        yield from self._columns
        yield from self._ids

    def __len__(self) -> int:
        return len(self._columns) + len(self._ids)


class LabelledBatch(Batch):
    """A batch with the labels of the job's tasks, as losses and metrics receive it: requests for predictions have no labels."""

    labels: Mapping[str, torch.Tensor]
    """The label of each task in the shape of its logits, NaN where a row has none; of several classes `[rows]`, whole numbers, -100
    where a row has none, as `torch.nn.functional.cross_entropy` leaves out."""
    is_labelled: Mapping[str, torch.Tensor]
    """Which rows have the label of a task, `[rows]`."""

    def __init__(
        self,
        batch: Batch,
        labels: Mapping[str, torch.Tensor],
        is_labelled: Mapping[str, torch.Tensor],
        weights: Mapping[str, torch.Tensor] | None,
    ) -> None:
        super().__init__(batch.numbers, batch._columns, batch._ids, batch.vectors)
        self.labels = labels
        self.is_labelled = is_labelled
        self._weights = weights
        self.are_weights_read = False
        """Whether `weights` has been asked for."""

    @property
    def weights(self) -> Mapping[str, torch.Tensor] | None:
        """The weight of each row in each task, `[rows]`; None if the job has none."""
        self.are_weights_read = True
        return self._weights
