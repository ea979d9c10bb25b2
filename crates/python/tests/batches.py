"""Batches as the native part passes them to a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainyard.adapter import Ids, Input


def ids(values: list[int], offsets: list[int] | None = None, weights: list[float] | None = None) -> Ids:
    """Returns ids by row."""
    whole = None if offsets is None else np.array(offsets, dtype=np.int64)
    parts = None if weights is None else np.array(weights, dtype=np.float32)
    return np.array(values, dtype=np.int64), whole, parts


def places(*lines: list[int]) -> Any:
    """Returns a row of a matrix for each embedding and each row of a batch."""
    return np.array(lines, dtype=np.int64).reshape(-1)


def clicks(prices: list[float]) -> Input:
    """Returns two rows for the embeddings of a user, an item and past items, which are one matrix.

    The rows of the matrix are one of users, three of items, and the row of 0.
    """
    history = ids([3, 2, 1], [0, 2, 3])
    lookups = ([0, 1], [0, 1], places([0, 0], [1, 2]), [(2, history)])
    return 2, np.array(prices, dtype=np.float32), [lookups], []
