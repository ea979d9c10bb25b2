"""Functions of JAX as models: `logits(values, batch)` over arrays, whose gradients JAX computes.

    import trainyard.jax as tj

    model = tj.Model(
        embeddings=[tj.Embedding("user_id", 4)],
        variables=[tj.Variable("weights", [5])],
        logits=lambda values, batch: jnp.concatenate([batch["user_id"], batch["price"]], 1) @ values["weights"],
    )

A batch is a dictionary: numbers `[rows, width]`, the ids of features without embedding, and the combined vectors of each
embedding by its feature, or by its table if a feature has two embeddings. Functions are compiled once for each shape, so tables are filled up to a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from trainyard import numpy as tn
from trainyard.adapter import Array
from trainyard.callbacks import Callback
from trainyard.numpy import SGD, Adagrad, Adam, Embedding, Ftrl, Optimizer, Variable
from trainyard.program import ModelProgram, run_to_exit

__all__ = ["SGD", "Adagrad", "Adam", "Embedding", "Ftrl", "Model", "Optimizer", "Variable", "main", "program"]

Logits = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
Loss = Callable[[Any, Any], Any]
"""A loss of logits and labels, which have one shape: a number for each row, or for each logit. Labels of one of several
classes are `[rows]`."""


class Model(tn.Model):
    """A pure function as a model."""

    def __init__(
        self, embeddings: Sequence[Embedding], variables: Sequence[Variable], logits: Logits, loss: Loss | None = None
    ) -> None:
        """Describes a function of values and a batch. Without `loss`, the head of the job computes it."""
        super().__init__(embeddings, variables)
        self._given = {"logits": logits, "loss": loss}
        self.has_loss = loss is not None
        features = [each.described.feature for each in self.embeddings]
        self._keys = [
            each.described.feature if features.count(each.described.feature) == 1 else each.described.table
            for each in self.embeddings
        ]
        if len(set(self._keys)) < len(self._keys):
            raise ValueError(f"two embeddings have one name in the batch: {', '.join(self._keys)}: name the tables otherwise")
        self._logits = jax.jit(lambda values, tables, batch: logits(values, self._looked_up(tables, batch)))
        # The gradient of the logits enters as a constant: what is derived is its product with the logits.
        self._derived = jax.jit(
            jax.grad(lambda found, batch, delta: (self._logits(*found, batch) * delta).sum())
        )

        def of_batch(found: Any, batch: Any, labels: Any, shares: Any) -> Any:
            assert loss is not None
            logits = self._logits(*found, batch)
            losses = jnp.asarray(loss(logits, labels))
            rows = shares.shape[0]
            if losses.shape not in {(rows,), (rows, 1), logits.shape}:
                raise ValueError(
                    f"the loss must give a value for each of {rows} rows, or for each logit, given the shape "
                    f"{list(losses.shape)} for logits of shape {list(logits.shape)} and labels of shape {list(labels.shape)}"
                )
            total = (losses * shares.reshape(rows, *[1] * (losses.ndim - 1))).sum()
            return total if self.sums_losses else total / losses.size

        self._descended = jax.jit(jax.value_and_grad(of_batch))

    def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
        """Returns the logits."""
        found, shown = self._arrays(batch, values)
        return np.asarray(self._logits(*found, shown))

    def gradients(self, batch: tn.Batch, values: tn.Values, delta: Array) -> Mapping[str, Array]:
        """Returns the gradients, given that of the logits."""
        found, shown = self._arrays(batch, values)
        return self._cut(self._derived(found, shown, delta), values)

    def loss(
        self, batch: tn.Batch, values: tn.Values, labels: Array, weights: Array | None
    ) -> tuple[float, Mapping[str, Array]]:
        """Returns the loss of the batch, its mean or its sum as the job says, and the gradients."""
        found, shown = self._arrays(batch, values)
        shares = np.ones(batch.rows, dtype=np.float32) if weights is None else weights
        loss, gradients = self._descended(found, shown, labels, shares)
        return float(loss), self._cut(gradients, values)

    def _looked_up(self, tables: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a batch with the vectors of its embeddings."""
        found = dict(batch["features"])
        for key, embedding in zip(self._keys, self.embeddings, strict=True):
            if key in found:
                raise ValueError(f"`{key}` is a table of an embedding and a feature of the batch: name the table otherwise")
            described = embedding.described
            ids, rows, shares = batch["places"][key]
            vectors = tables[described.table][ids] * shares[:, None]
            empty = jnp.zeros((batch["rows"].shape[0], described.dimension), dtype=jnp.float32)
            found[key] = empty.at[rows].add(vectors)
        return found

    def _arrays(self, batch: tn.Batch, values: tn.Values) -> tuple[tuple[dict[str, Array], dict[str, Array]], dict[str, Any]]:
        """Returns values and tables, and what the function needs of the batch, in shapes of which there are few."""
        variables = {each.name: values[each.name] for each in self.variables}
        tables = {each.described.table: _filled_rows(values[each.described.table]) for each in self.embeddings}
        places = {key: _filled(batch.places(each)) for key, each in zip(self._keys, self.embeddings, strict=True)}
        shown = {"rows": np.zeros(batch.rows, dtype=np.float32), "features": batch.dense(), "places": places}
        return (variables, tables), shown

    def _cut(self, gradients: Any, values: tn.Values) -> dict[str, Array]:
        """Returns gradients without the rows that tables were filled up with."""
        variables, tables = gradients
        found = {name: np.asarray(gradient) for name, gradient in variables.items()}
        found |= {name: np.asarray(gradient)[: len(values[name])] for name, gradient in tables.items()}
        return found


def main(model: Callable[[Mapping[str, Any]], Model], *, callbacks: Sequence[Callback] = ()) -> NoReturn:
    """Runs the command line of this process for a model, and exits with its code.

    `model` is a function from the keys of `[model]` to a model.
    """
    run_to_exit(program(model, callbacks))


def program(model: Callable[[Mapping[str, Any]], Model], callbacks: Sequence[Callback] = ()) -> ModelProgram:
    """Returns the program of a model."""
    return tn.program(model, callbacks)


def _power(count: int) -> int:
    """Returns the least power of two that is not below a number."""
    return 1 << max(count - 1, 0).bit_length()


def _filled_rows(table: Array) -> Array:
    missing = _power(len(table)) - len(table)
    return np.concatenate([table, np.zeros((missing, table.shape[1]), dtype=np.float32)])


def _filled(places: tn.Places) -> tuple[Array, Array, Array]:
    """Returns ids, rows and shares, filled up with shares of 0."""
    missing = _power(len(places.ids)) - len(places.ids)
    nothing = np.zeros(missing, dtype=np.int64)
    shares = np.concatenate([places.shares, np.zeros(missing, dtype=np.float32)])
    return np.concatenate([places.ids, nothing]), np.concatenate([places.rows, nothing]), shares
