"""A model whose logit is the number of a word, and which only a penalty moves: the program of a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import trainyard.numpy as tn

Array = np.ndarray[Any, Any]


class Net(tn.Model):
    """The number of a word, and a bias that stays 0."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        rules = {key: params[key] for key in ("initializer", "regularizer") if key in params}
        self.word = tn.Embedding("word", 1, combiner="sum", **rules)
        self.bias = tn.Variable("bias", [1])
        super().__init__([self.word], [self.bias])

    def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
        """Returns the number of each row's word."""
        return self.word.forward(batch, values) + values[self.bias]

    def gradients(self, batch: tn.Batch, values: tn.Values, delta: Array) -> Mapping[str, Array]:
        """Returns gradients of 0."""
        return {"bias": 0 * delta.sum(0), "word": self.word.backward(batch, values, 0 * delta)}


if __name__ == "__main__":
    tn.main(Net)
