"""Values that the code of a model makes in each process: what differs between processes is refused or told, and nothing else."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import clicks
import numpy as np
import pytest

import trainyard.numpy as tn
from trainyard import toml
from trainyard.constants import CONSTANTS_MAX, constants, digest, limited

OF_PROCESS = random.SystemRandom().random()
"""Another number in each process."""
DRAWN = np.random.default_rng(1).normal(size=3)
WORDS = ["a", "b"]
CALLS = 7
RECORD = [(1, 0.5)]


def no_tensor(_: Any) -> None:
    """Knows no tensors of a framework."""


def found(owner: object) -> dict[str, str]:
    """Returns the constants of an object."""
    return dict(constants(owner, "", no_tensor))


def scaled() -> Any:
    """Names a value of the file."""
    return DRAWN


class Base:
    """A class of the author with a value."""

    of_class: ClassVar[Any] = np.ones(1)
    calls: ClassVar[int] = 7
    losses: ClassVar[list[float]] = [0.5]

    def logits(self) -> Any:
        """Names values of the file, directly and by a function."""
        return [len(WORDS), CALLS, RECORD, scaled()]


class Owner(Base):
    """Values of each kind."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


def test_values_of_an_object_its_classes_and_the_files_that_its_methods_name_are_constants() -> None:
    names = found(Owner(number=3, ids=["x", "y"], places={"x": 1}, mask=np.ones(2), several={3, 1}, _draws=np.ones(2)))
    assert set(names) == {"number", "ids", "places", "mask", "several", "_draws", "of_class", "WORDS", "DRAWN"}
    assert names["number"] == "int 3"
    assert names["WORDS"].startswith("list of 2, ")


def test_what_no_step_computes_with_is_no_constant() -> None:
    owner = Owner(flag=True, nothing=None, path="/tmp/x", _process=os.getpid(), _record=[1.0], other=object(), mixed=[1, object()], empty=np.zeros(0))
    assert set(found(owner)) == {"of_class", "WORDS", "DRAWN"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (3, 4),
        (0.5, 0.5001),
        (["a", "b"], ["b", "a"]),
        ({"a": 0, "b": 1}, {"a": 1, "b": 0}),
        ([1, [2, 3]], [1, [3, 2]]),
        (np.array([1, 2]), np.array([2, 1])),
        (np.array(["a", "b"]), np.array(["b", "a"])),
        (np.array([0.1, 0.2]), np.array([0.2, 0.1])),
        (np.zeros(4), np.array([0.0, 0.0, 1e-20, 0.0])),
        (np.array([1.0, np.nan]), np.array([1.0, 0.0])),
        (np.random.default_rng(1).normal(size=1000), np.random.default_rng(2).normal(size=1000)),
        (np.ones((2, 3)), np.ones((3, 2))),
        (np.ones(2, dtype=np.float32), np.ones(2)),
    ],
)
def test_other_values_have_another_digest(one: Any, other: Any) -> None:
    assert digest(one, no_tensor) != digest(other, no_tensor)
    assert digest([one], no_tensor) != digest([other], no_tensor)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 0, "b": 1}, {"b": 1, "a": 0}),
        ({"a", "b"}, {"b", "a"}),
        (np.array([1.0, 3.0]), np.array([1.0, 3.0]) * (1 + 2e-16)),
    ],
)
def test_equal_values_have_one_digest_whatever_order_and_processor_they_come_from(one: Any, other: Any) -> None:
    assert digest(one, no_tensor) == digest(other, no_tensor)


def test_constants_beyond_the_limit_are_compared_together() -> None:
    many = {f"c{place:04}": f"int {place}" for place in range(CONSTANTS_MAX + 5)}
    kept = limited(many)
    assert len(kept) == CONSTANTS_MAX + 1 and kept["others"].startswith("5 constants, ")
    assert limited({**many, f"c{CONSTANTS_MAX + 1:04}": "int 0"})["others"] != kept["others"]
    assert limited({"a": "int 1"}) == {"a": "int 1"}


class Net(tn.Model):
    """Scales a price by a number of its process."""

    def __init__(self, params: Any) -> None:
        self.weights = tn.Variable("weights", [1])
        self.scale = 1.0
        self.order = ["a", "b", "c"]
        super().__init__([], [self.weights])
        kind = os.environ.get("TESTED_CONSTANT")
        # As a module that draws while it is imported, and an order that comes out of a set, without chance for the test.
        if kind == "draw":
            self.scale = OF_PROCESS
        if kind == "order":
            random.SystemRandom().shuffle(self.order)
            self.order.append(str(os.getpid()))
        if kind == "unread":
            self._started = float(os.getpid())

    def logits(self, batch: tn.Batch, values: tn.Values) -> Any:
        """Returns a logit for each row."""
        return batch["price"][:, 0] * self.scale * values["weights"][0]

    def gradients(self, batch: tn.Batch, values: tn.Values, delta: Any) -> Any:
        """Returns the gradient."""
        return {"weights": np.array([(delta * batch["price"][:, 0] * self.scale).sum()])}


@pytest.mark.parametrize("kind", ["draw", "order"])
def test_tasks_whose_code_makes_other_values_are_refused_by_name_with_a_remedy(kind: str, tmp_path: Path) -> None:
    ended = ran(tmp_path, kind, "up", "--cluster", "local:ps=1,worker=1")
    name = "scale" if kind == "draw" else "order"
    assert ended.returncode != 0
    assert "E2007" in ended.stderr and f"model.constants.{name} is " in ended.stderr, ended.stderr
    assert "draw them under a seed" in ended.stderr


def test_values_that_no_step_reads_may_differ(tmp_path: Path) -> None:
    ended = ran(tmp_path, "unread", "up", "--cluster", "local:ps=1,worker=1")
    assert ended.returncode == 0, ended.stderr


def test_predictions_of_a_process_that_makes_other_values_are_told(tmp_path: Path) -> None:
    assert ran(tmp_path, "draw", "train").returncode == 0
    told = ran(tmp_path, "draw", "predict")
    assert told.returncode == 0
    assert "the values were trained by another job: model.constants.scale is " in told.stderr, told.stderr
    alike = ran(tmp_path, "", "train", "--set", "model_dir='other'")
    assert alike.returncode == 0
    assert "another job" not in ran(tmp_path, "", "predict", "--set", "model_dir='other'").stderr


def ran(folder: Path, kind: str, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs this file as a program on a job."""
    job = folder / "job.toml"
    if not job.exists():
        text = clicks.write(folder)
        text["feature"] = [each for each in text["feature"] if each.get("column") == "price"]
        job.write_text(toml.dumps(text))
    return subprocess.run(
        [sys.executable, "-W", "ignore", __file__, command, str(job), *arguments],
        env={**os.environ, "TESTED_CONSTANT": kind},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


if __name__ == "__main__":
    tn.main(Net)
