"""Embeddings whose tables lie on the parameter servers."""

from __future__ import annotations

from typing import Any

import torch

from trainyard.adapter import Lookup
from trainyard.optimizer import Optimizer
from trainyard.torch.batch import Batch, RowIds
from trainyard.torch.rows import summed

COMBINERS = ("mean", "sum", "sqrtn")


class Embedding(torch.nn.Module):
    """Looks the ids of a feature up in a table: `[rows, dimension]`, or vectors and mask without a combiner.

    The table is not in this module. Each step receives the rows that its batch names, and their gradient goes back to
    the servers, whose optimizer applies it.
    """

    def __init__(
        self,
        feature: str,
        dimension: int,
        *,
        table: str | None = None,
        combiner: str | None = "mean",
        optimizer: Optimizer | None = None,
        stddev: float | None = None,
        rows_max: int | None = None,
        separator: str | None = None,
        initializer: Any = None,
        regularizer: Any = None,
    ) -> None:
        """Describes a lookup.

        Args:
            feature: A `[[feature]]` of the job. If the job has none of this name, it is a dynamic feature of the column
                of this name: each value gets a row when it occurs.
            dimension: Values of a vector.
            table: Name of the table, which several embeddings may share. By default, that of the feature.
            combiner: `mean`, `sum` or `sqrtn` over the ids of a row. None: `forward` returns the vectors of each row,
                `[rows, length, dimension]`, and a mask, `[rows, length]`.
            optimizer: Optimizer of the table. By default, that of the job.
            stddev: Deviation of the initial values, `1 / sqrt(dimension)` by default.
            rows_max: Most rows, if the job does not describe the feature; a million by default. Otherwise the feature says it.
            separator: Character between several values of a field, if the job does not describe the feature. Otherwise the
                feature says it.
            initializer: Rule of the initial values in place of `stddev`, as a job names it, `{"kind": "normal", "stddev": 0.1}`, or
                an initializer of TensorFlow. The kinds are normal, truncated_normal, uniform, glorot_uniform, he_normal, zeros
                and constant.
            regularizer: Penalty of the vectors that a batch reads, `{"l1": 0.0, "l2": 1e-5}`. The loss that is told is
                without it.
        """
        super().__init__()
        if combiner is not None and combiner not in COMBINERS:
            raise ValueError(f"combiner must be one of {', '.join(COMBINERS)} or None, given {combiner!r}")
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
            combined=combiner is not None,
        )

    def forward(self, batch: Batch) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Looks the ids of a batch up."""
        found = batch.vectors.of_rows(self)
        if found is not None:
            return found
        vectors, ids = batch.vectors.of_ids(self)
        if self.combiner is None:
            return _padded(vectors, ids, batch.rows)
        return _combined(vectors, ids, batch.rows, self.combiner)

    def extra_repr(self) -> str:
        """Returns the arguments, for the module's text."""
        described = self.described
        return f"{described.feature!r}, {described.dimension}, table={described.table!r}, combiner={self.combiner!r}"


def _combined(vectors: torch.Tensor, ids: RowIds, rows: int, combiner: str) -> torch.Tensor:
    """Returns the combined vectors of each row. A row without ids is 0.

    The shares are those of `tf.nn.safe_embedding_lookup_sparse`.
    """
    owners = row_of_id(ids, rows)
    weights = vectors.new_ones(len(ids.values)) if ids.weights is None else ids.weights
    if combiner != "sum":
        weights = torch.where(torch.gt(weights, 0), weights, torch.zeros_like(weights))
        of_row = vectors.new_zeros(rows)
        of_row.index_add_(0, owners, weights if combiner == "mean" else weights * weights)
        divisor = of_row if combiner == "mean" else of_row.sqrt()
        weights = weights / divisor.clamp_min(1e-30)[owners]
    return summed(vectors * weights.unsqueeze(1), owners, rows)


def _padded(vectors: torch.Tensor, ids: RowIds, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the vectors of each row, filled up with 0, and a mask that is true at vectors."""
    if ids.offsets is None:
        return vectors.unsqueeze(1), torch.ones(rows, 1, dtype=torch.bool, device=vectors.device)
    owners = row_of_id(ids, rows)
    counts = ids.offsets[1:] - ids.offsets[:-1]
    length = max(int(counts.max()) if rows else 0, 1)
    column = torch.arange(len(ids.values), device=vectors.device) - ids.offsets[:-1][owners]
    # Each vector has a place of its own, so that the sums are the vectors.
    out = summed(vectors, owners * length + column, rows * length).view(rows, length, vectors.shape[1])
    mask = torch.zeros(rows, length, dtype=torch.bool, device=vectors.device)
    mask[owners, column] = True
    return out, mask


def row_of_id(ids: RowIds, rows: int) -> torch.Tensor:
    """Returns the row to which each id belongs."""
    of_rows = torch.arange(rows, device=ids.values.device)
    return of_rows if ids.offsets is None else torch.repeat_interleave(of_rows, ids.offsets[1:] - ids.offsets[:-1])
