"""Functions of JAX."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import batches
import clicks
import numpy as np
import pytest
from conftest import ran

from trainyard import toml

jax = pytest.importorskip("jax", reason="jax is not installed")

import with_jax

import trainyard.jax as tj
import trainyard.numpy as tn

SIZES = [5 * 4, 13 * 8, 8, 8]


BATCH = batches.clicks([0.2, 0.9])


def adapter(loss: Any = None) -> tn.Adapter:
    """Returns the function in a process of a job, with its columns."""

    def build(params: Any) -> tj.Model:
        model = with_jax.build({"hidden_units": [8]})
        return model if loss is None else tj.Model(model.embeddings, model.variables, with_jax.logits, loss)

    found = tn.Adapter(build, json.dumps({"model": {}}))
    found.parameters(({"price": (0, 1)}, []), 1)
    return found


def test_gradients_agree_with_finite_differences() -> None:
    model = adapter()
    draw = np.random.default_rng(5)
    values = [draw.normal(size=size).astype(np.float32) for size in SIZES]
    delta = np.array([0.7, -0.4], dtype=np.float32)
    model.forward(BATCH, values)
    gradients = model.backward(delta)
    assert [gradient.size for gradient in gradients] == SIZES
    for variable, place in [(0, 1), (0, 6), (0, 10), (0, 13), (1, 20), (2, 4), (3, 0)]:
        sides = []
        for offset in (1e-2, -1e-2):
            moved = [value.copy() for value in values]
            moved[variable][place] += offset
            sides.append(float(model.forward(BATCH, moved) @ delta))
        assert (sides[0] - sides[1]) / 2e-2 == pytest.approx(gradients[variable][place], abs=2e-3)


def test_a_loss_of_its_own_has_the_gradients_of_the_same_loss_of_the_head() -> None:
    draw = np.random.default_rng(6)
    values = [draw.normal(size=size).astype(np.float32) for size in SIZES]
    labels = np.array([0, 1], dtype=np.float32)
    own = adapter(lambda logits, labels: (logits - labels) ** 2)
    loss, gradients = own.train(BATCH, values, labels, None)
    of_head = adapter()
    logits = of_head.forward(BATCH, values)
    assert loss == pytest.approx(float(((logits - labels) ** 2).mean()), abs=1e-6)
    for one, other in zip(gradients, of_head.backward(logits - labels), strict=True):
        assert one == pytest.approx(other, abs=1e-5)


@pytest.mark.parametrize("command", [["train"], ["up", "--cluster", "local:ps=1,worker=1"]])
def test_a_function_of_jax_trains(command: list[str], folder: Path) -> None:
    Path("job.toml").write_text(toml.dumps(clicks.write(folder)))
    ended = ran(sys.executable, with_jax.__file__, command[0], "job.toml", *command[1:], folder=folder)
    assert ended.returncode == 0, ended.stderr
    rows = dict(line.split() for line in ended.stdout.splitlines() if line.startswith("  "))
    assert float(rows["auc"]) > 0.9
