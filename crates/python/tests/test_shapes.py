"""The shapes in which logits, labels and weights reach the code of a model: one rule for all frameworks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import trainyard.numpy as tn
from trainyard import metrics

Array = np.ndarray[Any, Any]
ROWS = 5
"""Rows of the batch. A loss over rows x rows would have 25 values."""
SHAPES = [("flat", 1, [ROWS]), ("column", 1, [ROWS, 1]), ("wide", 2, [ROWS, 2])]
"""The form in which a model returns its logits, their number in a row, and their shape."""


def job(head: str = "regression", **model: Any) -> str:
    """Returns the job of a model, as JSON."""
    keys = {"head": head, "loss_reduction": "sum_over_batch_size", **model}
    return json.dumps({"run": {"intra_op_parallelism_threads": 0}, "model": keys})


def numpy_model(form: str, units: int, seen: dict[str, Any], own_loss: bool = False) -> Any:
    """Returns an adapter of numpy that notes what its metrics and its loss receive."""

    class Net(tn.Model):
        has_loss = own_loss

        def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
            found = batch["x"] @ values["w"]
            return found[:, 0] if form == "flat" else found

        def metrics(self, logits: Array, labels: Array, weights: Array | None) -> Any:
            seen["metrics"] = (logits, labels, weights)
            return {"error": metrics.mean(labels - logits)}

        def loss(self, batch: tn.Batch, values: tn.Values, labels: Array, weights: Array | None) -> Any:
            seen["loss"] = (self.logits(batch, values), labels)
            return 0.5, {}

    return tn.Adapter(lambda params: Net([], [tn.Variable("w", [1, units])]), job())


def jax_model(form: str, units: int, seen: dict[str, Any], own_loss: bool = False) -> Any:
    """Returns an adapter of JAX."""
    pytest.importorskip("jax", reason="jax is not installed")
    import trainyard.jax as tj

    class Net(tj.Model):
        def metrics(self, logits: Array, labels: Array, weights: Array | None) -> Any:
            seen["metrics"] = (logits, labels, weights)
            return {"error": metrics.mean(labels - logits)}

    def logits(values: Any, batch: Any) -> Any:
        found = batch["x"] @ values["w"]
        return found[:, 0] if form == "flat" else found

    def loss(logits: Any, labels: Any) -> Any:
        seen["loss"] = (logits, labels)
        return (logits - labels) ** 2

    return tn.Adapter(lambda params: Net([], [tj.Variable("w", [1, units])], logits, loss if own_loss else None), job())


def torch_model(form: str, units: int, seen: dict[str, Any], own_loss: bool = False) -> Any:
    """Returns an adapter of PyTorch."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import trainyard.torch as ty
    from trainyard.torch.adapter import Adapter

    class Net(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.w = torch.nn.Linear(1, units, bias=False)

        def forward(self, batch: ty.Batch) -> Any:
            found = self.w(batch["x"])
            return found.squeeze(1) if form == "flat" else found

        def metrics(self, logits: Any, labels: Any, weights: Any) -> Any:
            seen["metrics"] = (logits, labels, weights)
            return {"error": metrics.mean(labels - logits)}

    def loss(logits: Any, labels: Any) -> Any:
        seen["loss"] = (logits, labels)
        return (logits - labels) ** 2

    return Adapter(Net, loss if own_loss else None, job())


MODELS = [numpy_model, jax_model, torch_model]


def prepared(make: Any, form: str, units: int, seen: dict[str, Any], own_loss: bool) -> tuple[Any, Any, list[Array], Array]:
    """Returns an adapter with its columns, a batch, values and labels."""
    adapter = make(form, units, seen, own_loss)
    adapter.tables()
    adapter.parameters(({"x": (0, 1)}, []), units)
    batch = (ROWS, np.arange(1, ROWS + 1, dtype=np.float32), [], [])
    return adapter, batch, [np.ones(units, dtype=np.float32)], np.arange(ROWS * units, dtype=np.float32)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(("form", "units", "shape"), SHAPES)
def test_metrics_receive_labels_in_the_shape_of_the_logits(make: Any, form: str, units: int, shape: list[int]) -> None:
    seen: dict[str, Any] = {}
    adapter, batch, values, labels = prepared(make, form, units, seen, own_loss=False)
    weights = np.arange(ROWS, dtype=np.float32)
    _, scores = adapter.evaluate(batch, values, labels, weights, adapter.metrics())
    found = [list(each.shape) for each in seen["metrics"]]
    # Weights multiply row by row: beside a column, a flat array would make a matrix of rows x rows.
    assert found == [shape, shape, [ROWS, 1][: len(shape)]]
    logits = np.repeat(np.arange(1, ROWS + 1), units)
    assert scores["error"] == pytest.approx(float((labels - logits).mean()), abs=1e-6)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(("form", "units", "shape"), SHAPES)
def test_an_own_loss_receives_labels_in_the_shape_of_the_logits(make: Any, form: str, units: int, shape: list[int]) -> None:
    seen: dict[str, Any] = {}
    adapter, batch, values, labels = prepared(make, form, units, seen, own_loss=True)
    loss, _ = adapter.train(batch, values, labels, None)
    assert [list(each.shape) for each in seen["loss"]] == [shape, shape]
    if make is not numpy_model:
        logits = np.repeat(np.arange(1, ROWS + 1), units)
        assert loss == pytest.approx(float(((labels - logits) ** 2).mean()), rel=1e-6)


@pytest.mark.parametrize("make", MODELS)
def test_metrics_without_weights_are_called_without(make: Any) -> None:
    seen: dict[str, Any] = {}
    adapter, batch, values, labels = prepared(make, "column", 1, seen, own_loss=False)
    model = adapter._module if make is torch_model else adapter._model
    model.metrics = lambda logits, labels: {"error": metrics.mean(labels - logits)}
    assert "error" in adapter.evaluate(batch, values, labels, None, adapter.metrics())[1]


def test_a_loss_of_jax_over_rows_and_rows_is_refused() -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    import trainyard.jax as tj

    model = lambda params: tj.Model(
        [], [tj.Variable("w", [1, 1])], lambda values, batch: batch["x"] @ values["w"], lambda logits, labels: logits - labels[:, 0]
    )
    adapter = tn.Adapter(model, job())
    adapter.parameters(({"x": (0, 1)}, []), 1)
    batch = (ROWS, np.ones(ROWS, dtype=np.float32), [], [])
    with pytest.raises(ValueError, match=r"each of 5 rows.*\[5, 5\] for logits of shape \[5, 1\] and labels of shape \[5, 1\]"):
        adapter.train(batch, [np.ones(1, dtype=np.float32)], np.zeros(ROWS, dtype=np.float32), None)


def test_a_loss_of_torch_over_rows_and_rows_is_refused() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from trainyard.torch.adapter import Adapter

    found = torch_model("column", 1, {})
    adapter = Adapter(lambda params: found._module, lambda logits, labels: logits - labels[:, 0], job())
    adapter.parameters(({"x": (0, 1)}, []), 1)
    batch = (ROWS, np.ones(ROWS, dtype=np.float32), [], [])
    with pytest.raises(ValueError, match=r"shape \[5, 5\] for logits of shape \[5, 1\]"):
        adapter.train(batch, [np.ones(1, dtype=np.float32)], np.zeros(ROWS, dtype=np.float32), None)


@pytest.mark.parametrize("make", [jax_model, torch_model])
def test_a_sum_of_losses_is_that_of_the_job(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mean = prepared(make, "column", 1, {}, own_loss=True)
    kept = job
    monkeypatch.setitem(globals(), "job", lambda: kept(loss_reduction="sum"))
    total = prepared(make, "column", 1, {}, own_loss=True)
    losses = [adapter.train(batch, values, labels, None)[0] for adapter, batch, values, labels in (mean, total)]
    assert losses[1] == pytest.approx(losses[0] * ROWS, rel=1e-6)


def test_a_loss_of_one_number_is_refused_where_the_job_sums() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from trainyard.torch.adapter import Adapter

    found = torch_model("column", 1, {})
    adapter = Adapter(lambda params: found._module, torch.nn.MSELoss(), job(loss_reduction="sum"))
    adapter.parameters(({"x": (0, 1)}, []), 1)
    batch = (ROWS, np.ones(ROWS, dtype=np.float32), [], [])
    with pytest.raises(ValueError, match='loss_reduction = "sum": reduction="none"'):
        adapter.train(batch, [np.ones(1, dtype=np.float32)], np.zeros(ROWS, dtype=np.float32), None)


def test_a_jax_model_has_two_embeddings_of_one_feature_by_their_tables() -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    import trainyard.jax as tj

    embeddings = [tj.Embedding("user", 1, table="a"), tj.Embedding("user", 1, table="b")]
    model = lambda params: tj.Model(embeddings, [], lambda values, batch: batch["a"] + 10 * batch["b"])
    adapter = tn.Adapter(model, job())
    adapter.tables()
    adapter.parameters(({}, []), 1)
    # A row of each table, and the row of 0.
    lookups = ([0, 1], [0, 1], np.array([0, 1], dtype=np.int64), [])
    batch = (1, np.zeros(0, dtype=np.float32), [lookups], [])
    assert adapter.forward(batch, [np.array([2, 3, 0], dtype=np.float32)]).tolist() == [32]
    assert adapter.backward(np.array([1], dtype=np.float32))[0].reshape(-1)[:2].tolist() == [1, 10]


def test_embeddings_of_one_table_share_what_one_of_them_says_and_are_refused_if_they_differ() -> None:
    given = [tn.Embedding("user", 4, table="t", optimizer=tn.Adagrad(0.3)), tn.Embedding("friend", 4, table="t", stddev=0.1)]
    model = lambda embeddings: tn.Adapter(lambda params: tn.Model(embeddings, []), job())
    found = model(given).tables()
    assert found[0].optimizer == found[1].optimizer is not None
    assert found[0].initializer == found[1].initializer and "0.1" in found[0].initializer
    with pytest.raises(ValueError, match="table `t` must have one initializer: that of `user` .* and that of `friend`"):
        model([tn.Embedding("user", 4, table="t", stddev=0.2), given[1]])


def test_ids_are_an_array_with_a_number_for_rows_without_one() -> None:
    ids = (np.array([4, 6], dtype=np.int64), np.array([0, 1, 1, 2], dtype=np.int64), None)
    batch = tn.Batch(3, {}, {"day": ids}, {})
    assert batch["day"].tolist() == [4, -1, 6]
    assert batch.dense()["day"].tolist() == [4, -1, 6]
    several = tn.Batch(1, {}, {"day": (ids[0], np.array([0, 2], dtype=np.int64), None)}, {})
    with pytest.raises(ValueError, match="several ids in a row"):
        several["day"]
