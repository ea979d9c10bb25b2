"""Lookups and sums of rows as operations of PyTorch. Its own are slow in the backward pass of many small vectors."""

from __future__ import annotations

from typing import Any

import torch

from trainyard import _native


class _Lookup(torch.autograd.Function):
    """Rows of a matrix. The gradient adds the rows that were looked up more than once."""

    @staticmethod
    def forward(context: Any, matrix: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(places)
        context.rows = matrix.shape[0]
        return matrix.index_select(0, places)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (places,) = context.saved_tensors
        return _added(gradient, places, context.rows), None


class _Sum(torch.autograd.Function):
    """Sums of rows by their places: the transpose of a lookup."""

    @staticmethod
    def forward(context: Any, rows: torch.Tensor, places: torch.Tensor, count: int) -> torch.Tensor:
        context.save_for_backward(places)
        return _added(rows, places, count)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (places,) = context.saved_tensors
        return gradient.index_select(0, places), None, None


def looked_up(matrix: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Returns the rows of a matrix at places."""
    return _Lookup.apply(matrix, places)  # type: ignore[no-any-return]


def looked_up_together(matrix: torch.Tensor, places: torch.Tensor, lookups: int) -> tuple[torch.Tensor, ...]:
    """Returns the rows of a matrix for several lookups of as many places. The gradient of all is one operation."""
    return looked_up(matrix, places).view(lookups, places.numel() // lookups, matrix.shape[1]).unbind(0)


def summed(rows: torch.Tensor, places: torch.Tensor, count: int) -> torch.Tensor:
    """Returns `count` sums: row i is added to the sum at `places[i]`."""
    return _Sum.apply(rows, places, count)  # type: ignore[no-any-return]


def _added(rows: torch.Tensor, places: torch.Tensor, count: int) -> torch.Tensor:
    width = rows.shape[1]
    if rows.device.type != "cpu":
        # The order of additions is not determined, unless `torch.use_deterministic_algorithms` asks for it.
        return torch.zeros(count, width, device=rows.device).index_add_(0, places, rows.detach())
    sums = torch.zeros(count, width, device="cpu")
    flat = rows.detach().contiguous().view(-1)
    _native.add_rows(places.contiguous().numpy(), flat.numpy(), sums.view(-1).numpy(), width)
    return sums
