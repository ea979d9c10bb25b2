"""Functions of numbers as keys of a feature: exact, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import trainyard.estimator as tf_estimator
from trainyard.estimator import feature_column as fc
from trainyard.estimator.normalizer import normalizer_keys

Function = Callable[[float], float]
NUMBERS = [-1e9, -50.0, -3.0, -0.1, 0.0, 0.2, 0.30015, 0.7, 3.0, 17.0, 25.0, 60.0, 100.0, 6500.0, 1e5, 2e6, 1.7e9]


def computed(keys: dict[str, object], number: float) -> float:
    """Returns what a job computes by its keys."""
    low, high = keys.get("clip", (-math.inf, math.inf))  # type: ignore[misc]
    return float((min(max(number, low), high) - keys["mean"]) / keys["stddev"])  # type: ignore[operator]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x - 40.0) / 12.5,
        lambda x: 3 - 0.001 * x,
        lambda x: (np.float32(x) - np.float32(40)) / np.float32(12.5),
        lambda x: (x - 1.6e9) / 1e6,
        lambda x: np.clip((x - 40) / 12.5, -3, 3),
        lambda x: (min(max(x, 18), 90) - 18) / 72,
        lambda x: min(x, 1e6) / 1e6,
        lambda x: max(x - 40, 0.0),
        lambda x: max(-2.0, min(2.0, 1 - x / 7)),
        lambda x: min(max(x, 0.3001), 0.3002) * 10,
    ],
)
def test_lines_and_lines_within_bounds_are_exact(function: Function) -> None:
    keys = normalizer_keys("x", function)
    for number in NUMBERS:
        assert computed(keys, number) == pytest.approx(float(function(number)), rel=1e-5, abs=1e-5), (number, keys)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x,
        lambda x: math.log1p(max(x, 0)),
        math.tanh,
        math.sqrt,
        abs,
        lambda x: round(x, 3),
        lambda x: x if x < 5e6 else 5e6 + 0.1 * (x - 5e6),
        lambda x: x if x > 0 else 0.1 * x,
        lambda x: 0.0 if x == -999 else x / 10,
        lambda x: x if x < 100 else 0.0,
        lambda x: float(x > 5),
        lambda x: x % 24,
        lambda x: 1.0,
        lambda x: x if x < 1e-6 else 2 * x - 1e-6,
    ],
)
def test_any_other_function_is_refused(function: Function) -> None:
    with pytest.raises(ValueError, match="a \\* x \\+ b with numbers a and b, or that within bounds"):
        normalizer_keys("x", function)


def test_a_job_computes_what_the_function_does(folder: object) -> None:
    function = lambda x: np.clip((x - 40) / 12.5, None, 3)  # noqa: E731
    x = np.random.default_rng(1).uniform(-20, 200, size=400)
    batch = ({"x": x}, function(x))
    estimator = tf_estimator.LinearRegressor(
        [fc.numeric_column("x", normalizer_fn=function)], "model", optimizer=tf_estimator.optimizers.SGD(0.1)
    )
    estimator.train(lambda: (batch for _ in range(300)))
    # Without the bound, the best line has a mean square error of 2.
    assert estimator.evaluate(lambda: batch)["average_loss"] < 0.01
