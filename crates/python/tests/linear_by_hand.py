"""A model over arrays, with its gradients by hand: the program of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import trainyard.numpy as tn
from trainyard import metrics

Array = np.ndarray[Any, Any]


class Net(tn.Model):
    """A user's vector and the mean of past items beside the price, under one weight for each number."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.user = tn.Embedding("user_id", 3, optimizer=tn.Adagrad(0.3))
        self.item = tn.Embedding("item_id", 3)
        self.history = tn.Embedding("history", 3, table="item_id", separator="|")
        self.weights = tn.Variable("weights", [10, 1])
        self.bias = tn.Variable("bias", [1])
        self.threshold: float = params.get("threshold", 0.0)
        super().__init__([self.user, self.item, self.history], [self.weights, self.bias])

    def inputs(self, batch: tn.Batch, values: tn.Values) -> Array:
        """Returns the numbers of each row."""
        looked_up = [each.forward(batch, values) for each in self.embeddings]
        return np.concatenate([*looked_up, batch["price"]], 1)

    def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
        """Returns a logit for each row."""
        return self.inputs(batch, values) @ values[self.weights] + values[self.bias]

    def gradients(self, batch: tn.Batch, values: tn.Values, delta: Array) -> Mapping[str, Array]:
        """Returns the gradients."""
        below = delta @ values[self.weights].T
        items = self.item.backward(batch, values, below[:, 3:6]) + self.history.backward(batch, values, below[:, 6:9])
        return {
            "weights": self.inputs(batch, values).T @ delta,
            "bias": delta.sum(0),
            "user_id": self.user.backward(batch, values, below[:, :3]),
            "item_id": items,
        }

    def metrics(self, logits: Array, labels: Array) -> Mapping[str, metrics.Metric]:
        """Returns a metric of its own."""
        return {"own_accuracy": metrics.accuracy(labels, logits > self.threshold)}


if __name__ == "__main__":
    tn.main(Net)
