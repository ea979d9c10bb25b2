"""Functions of numbers as keys of a feature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

PROBES = (-3.0, 0.5, 2.0, 10.0, 1000.0)
"""Numbers at which a function is compared with a straight line."""


def normalizer_keys(column: str, function: Callable[[float], float] | None) -> dict[str, Any]:
    """Returns the keys of a function `a * x + b`.

    Raises ValueError if the function is another.
    """
    if function is None:
        return {}
    problem = ValueError(
        f"normalizer_fn of `{column}` must compute a * x + b with numbers a and b: write the results of any other "
        "function into the files"
    )
    try:
        at_zero = float(function(0.0))
        slope = float(function(1.0)) - at_zero
        straight = all(
            math.isclose(float(function(x)), slope * x + at_zero, rel_tol=1e-6, abs_tol=1e-9) for x in PROBES
        )
    except Exception as error:
        raise problem from error
    if not straight or slope == 0:
        raise problem
    return {"normalizer": "standardize", "mean": -at_zero / slope, "stddev": 1 / slope}
