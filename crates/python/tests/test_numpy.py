"""Models over arrays of numpy, with gradients by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import batches
import clicks
import linear_by_hand
import numpy as np
import pytest
from conftest import ran

import trainyard.numpy as tn
from trainyard import toml

SETTINGS = json.dumps({"model": {}})
Array = np.ndarray[Any, Any]


def adapter() -> tn.Adapter:
    """Returns the model in a process of a job, with its columns."""
    found = tn.Adapter(linear_by_hand.Net, SETTINGS)
    assert [each.table for each in found.tables()] == ["user_id", "item_id", "item_id"]
    described = found.parameters(({"price": (0, 1)}, []), 1)
    assert [each.name for each in described] == ["weights", "bias"]
    return found


SIZES = [5 * 3, 10, 1]
"""The vectors of a user, three items and a row without id, and the variables."""


def test_gradients_agree_with_finite_differences() -> None:
    model = adapter()
    draw = np.random.default_rng(5)
    values = [draw.normal(size=size).astype(np.float32) for size in SIZES]
    batch = batches.clicks([0.2, 0.9])
    delta = np.array([0.7, -0.4], dtype=np.float32)

    def product(moved: list[Array]) -> float:
        return float(model.forward(batch, moved) @ delta)

    product(values)
    gradients = model.backward(delta)
    assert [gradient.size for gradient in gradients] == SIZES
    for variable, gradient in enumerate(gradients):
        for place in range(gradient.size):
            sides = []
            for offset in (1e-2, -1e-2):
                moved = [value.copy() for value in values]
                moved[variable][place] += offset
                sides.append(product(moved))
            assert (sides[0] - sides[1]) / 2e-2 == pytest.approx(gradient[place], abs=2e-3)


def test_mistakes_of_a_gradient_are_named() -> None:
    class Wrong(linear_by_hand.Net):
        def gradients(self, batch: tn.Batch, values: tn.Values, delta: Array) -> Any:
            return {"bias": delta}

    model = tn.Adapter(Wrong, SETTINGS)
    model.parameters(({"price": (0, 1)}, []), 1)
    model.forward(batches.clicks([0.0, 0.0]), [np.zeros(size, dtype=np.float32) for size in SIZES])
    with pytest.raises(ValueError, match=r"gradient of `bias` must have the shape \[1\], given \[2, 1\]"):
        model.backward(np.zeros(2, dtype=np.float32))


@pytest.mark.parametrize("command", [["train"], ["up", "--cluster", "local:ps=2,worker=1"]])
def test_a_model_by_hand_trains_and_reports_its_own_metric(command: list[str], folder: Path) -> None:
    Path("job.toml").write_text(toml.dumps(clicks.write(folder)))
    program = [sys.executable, linear_by_hand.__file__]
    ended = ran(*program, command[0], "job.toml", *command[1:], folder=folder)
    assert ended.returncode == 0, ended.stderr
    rows = dict(line.split() for line in ended.stdout.splitlines() if line.startswith("  "))
    assert float(rows["auc"]) > 0.9
    assert float(rows["own_accuracy"]) == pytest.approx(float(rows["accuracy"]), abs=1e-5)


def test_keys_of_ones_own_reach_the_model(folder: Path) -> None:
    job = clicks.write(folder)
    job["model"]["params"] = {"threshold": 1000.0}
    Path("job.toml").write_text(toml.dumps(job))
    ended = ran(sys.executable, linear_by_hand.__file__, "train", "job.toml", folder=folder)
    assert ended.returncode == 0, ended.stderr
    rows = dict(line.split() for line in ended.stdout.splitlines() if line.startswith("  "))
    # No logit reaches the threshold, so that all rows count as negative.
    assert float(rows["own_accuracy"]) == pytest.approx(1 - float(rows["label/mean"]), abs=1e-5)
