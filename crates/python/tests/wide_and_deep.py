"""Wide and deep as a module, with the variables of the premade estimator: the program of a test, and its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

import trainyard.torch as ty

BUCKETS = {"item_id": 50, "user_id": 100}
SCOPE = "dnn/input_from_feature_columns/input_layer"


class Dense(torch.nn.Module):
    """A dense layer whose kernel is laid out as TensorFlow's."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.rand(inputs, units))
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the outputs."""
        return inputs @ self.kernel + self.bias


class Net(ty.Module):
    """Equal names give the initial values that the premade estimator has."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        deep = {name: ty.Embedding(name, 8, table=f"{SCOPE}/{name}_embedding") for name in BUCKETS}
        wide = {
            name: ty.Embedding(name, 1, table=f"{name}_wide", combiner="sum", stddev=0.0, optimizer=ty.Ftrl(0.05))
            for name in BUCKETS
        }
        self.deep = torch.nn.ModuleDict(deep)
        self.wide = torch.nn.ModuleDict(wide)
        units = params["hidden_units"][0]
        self.dnn = torch.nn.ModuleDict({"hiddenlayer_0": Dense(17, units), "logits": Dense(units, 1)})
        self.linear = torch.nn.Parameter(torch.zeros(1))

    def optimizer(self, name: str) -> ty.Optimizer | None:
        """Returns that of the linear part for its bias."""
        return ty.Ftrl(0.05) if name == "linear" else None

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        """Returns a logit for each row."""
        # In the order of TensorFlow's names of columns.
        inputs = torch.cat([self.deep["item_id"](batch), batch["price"], self.deep["user_id"](batch)], 1)
        hidden = torch.relu(self.dnn["hiddenlayer_0"](inputs))
        wide = sum(self.wide[name](batch) for name in BUCKETS)
        return self.dnn["logits"](hidden) + wide + self.linear


def features(*, premade: bool) -> list[dict[str, Any]]:
    """Returns the features of the premade estimator, or of the module."""
    found: list[dict[str, Any]] = [{"column": "price", "kind": "numeric"}]
    for name, buckets in BUCKETS.items():
        hashed = {"column": name, "kind": "hashed", "buckets": buckets}
        found.append({**hashed, "wide": True, "deep": {"embedding": 8}} if premade else hashed)
    return found


if __name__ == "__main__":
    ty.main(Net)
