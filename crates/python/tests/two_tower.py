"""A module with a shared table and a history: the program of the tests, and their job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

import trainyard.torch as ty


class Net(ty.Module):
    """User, item and past items, under two dense layers."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        self.user = ty.Embedding("user_id", 4, optimizer=ty.Adagrad(0.3))
        self.item = ty.Embedding("item_id", 4)
        self.history = ty.Embedding("history", 4, table="item_id", combiner=None, separator="|")
        self.mlp = torch.nn.Sequential(
            torch.nn.LazyLinear(params["hidden_units"][0]), torch.nn.ReLU(), torch.nn.LazyLinear(1)
        )

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        """Returns a logit for each row."""
        if os.environ.get("TESTED_FAILURE") and self.training:
            raise ValueError("a mistake of the user")
        vectors, mask = self.history(batch)
        past = (vectors * mask.unsqueeze(2)).sum(1)
        return self.mlp(torch.cat([self.user(batch), self.item(batch), past, batch["price"]], 1)).squeeze(1)


if __name__ == "__main__":
    ty.main(Net, loss=torch.nn.BCEWithLogitsLoss(reduction="none"))
