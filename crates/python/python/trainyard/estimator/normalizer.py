"""Functions of numbers as keys of a feature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

MAGNITUDES = [digit * 10.0**exponent for exponent in range(-30, 31) for digit in (1.0, 1.7, 2.5, 5.0)]
WHOLE = [*range(1025), 9999, 65535, 99999, 999999]
"""Whole numbers that a function may take for marks of missing values."""
PROBES = sorted({sign * float(number) for number in [*MAGNITUDES, *WHOLE] for sign in (-1, 1)})
"""Numbers at which a function is compared with a straight line."""
INNER_PROBES = 64
"""Probes between two bends."""
TOLERANCE = 1e-6
"""Greatest distance from a line, relative to its terms: that of functions that compute with 32 bits."""
FLOAT32_MAX = 3.4028234e38


def normalizer_keys(column: str, function: Callable[[float], float] | None) -> dict[str, Any]:
    """Returns the keys of a function `a * x + b`, whose `x` or result may be clipped to bounds.

    Raises ValueError if the function is another.
    """
    if function is None:
        return {}
    problem = ValueError(
        f"normalizer_fn of `{column}` must compute a * x + b with numbers a and b, or that within bounds: write the results "
        "of any other function into the files"
    )
    try:
        found = _line(function)
    except Exception as error:
        raise problem from error
    if found is None:
        raise problem
    slope, at_zero, low, high = found
    keys: dict[str, Any] = {"normalizer": "standardize", "mean": -at_zero / slope, "stddev": 1 / slope}
    if low is not None or high is not None:
        keys["clip"] = [-FLOAT32_MAX if low is None else low, FLOAT32_MAX if high is None else high]
    return keys


def _line(function: Callable[[float], float]) -> tuple[float, float, float | None, float | None] | None:
    """Returns slope, value at 0 and bounds of a straight line that is level outside of its bounds; None for another function."""

    def f(x: float) -> float:
        return float(function(x))

    values = [f(x) for x in PROBES]
    last = len(PROBES) - 1
    # The probes from `first` to `end` are between the level parts. One probe alone is no level part.
    first = next((place for place, value in enumerate(values) if value != values[0]), None)
    if first is None or not all(map(math.isfinite, values)):
        return None
    end = next(place for place in range(last, -1, -1) if values[place] != values[last])
    low = None if first == 1 else _bend(f, PROBES[first - 1], PROBES[first])
    high = None if end == last - 1 else _bend(f, PROBES[end + 1], PROBES[end])
    least, greatest = low if low is not None else PROBES[0], high if high is not None else PROBES[-1]
    near = min(max(0.0, least), greatest)
    if greatest - least <= TOLERANCE * abs(near):
        return None
    far = _far(near, least, greatest)
    slope = (f(far) - f(near)) / (far - near)
    at_zero = f(near) - slope * near
    inner = [least + (greatest - least) * place / INNER_PROBES for place in range(1, INNER_PROBES)]
    between = [x for x in PROBES if least <= x <= greatest]
    is_straight = slope != 0 and all(
        abs(f(x) - (slope * x + at_zero)) <= TOLERANCE * (abs(slope * x) + abs(at_zero)) for x in [*inner, *between]
    )
    if not is_straight:
        return None
    bounds: list[float | None] = []
    for bend, level in ((low, values[0]), (high, values[last])):
        bound = None if bend is None else (level - at_zero) / slope
        # A function that jumps to its level is none of these.
        if bound is not None and bend is not None and abs(bound - bend) > TOLERANCE * (abs(bend) + abs(near) + 1):
            return None
        bounds.append(None if bound is None else float(f"{bound:.9g}"))
    return slope, at_zero, bounds[0], bounds[1]


def _far(near: float, least: float, greatest: float) -> float:
    """Returns a number within bounds, far from another: the greater the distance, the more exact the slope between them."""
    for factor in (1e6, 1e3, 1.0):
        step = factor * (abs(near) + 1)
        for far in (near + step, near - step):
            if least <= far <= greatest:
                return far
    return greatest if greatest - near > near - least else least


def _bend(f: Callable[[float], float], level: float, beyond: float) -> float:
    """Returns where a function leaves the level that it has at one number, before another."""
    value = f(level)
    for _ in range(200):
        middle = (level + beyond) / 2
        if middle in (level, beyond):
            break
        if f(middle) == value:
            level = middle
        else:
            beyond = middle
    return level
