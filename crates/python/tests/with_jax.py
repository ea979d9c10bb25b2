"""A function of JAX: the program of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

import trainyard.jax as tj


def logits(values: Mapping[str, Any], batch: Mapping[str, Any]) -> Any:
    """Returns a logit for each row."""
    inputs = jnp.concatenate([batch["user_id"], batch["item_id"], batch["history"], batch["price"]], 1)
    hidden = jnp.tanh(inputs @ values["hidden"] + values["hidden_bias"])
    return (hidden @ values["out"])[:, 0]


def build(params: Mapping[str, Any]) -> tj.Model:
    """Returns the model for the keys of `[model]`."""
    units = params["hidden_units"][0]
    return tj.Model(
        embeddings=[
            tj.Embedding("user_id", 4, optimizer=tj.Adagrad(0.3)),
            tj.Embedding("item_id", 4),
            tj.Embedding("history", 4, table="item_id", separator="|"),
        ],
        variables=[tj.Variable("hidden", [13, units]), tj.Variable("hidden_bias", [units]), tj.Variable("out", [units, 1])],
        logits=logits,
    )


if __name__ == "__main__":
    tj.main(build)
