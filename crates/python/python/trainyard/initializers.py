"""Rules of embeddings: initial values and penalties, as a job names them, and TensorFlow's initializers as such rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

KINDS: Mapping[str, tuple[str, ...]] = {
    "normal": ("stddev",),
    "truncated_normal": ("stddev",),
    "uniform": ("low", "high"),
    "glorot_uniform": (),
    "he_normal": (),
    "zeros": (),
    "constant": ("value",),
}
"""The parameters of each kind of initial values."""
PENALTIES = ("l1", "l2")
FLOAT_MAX = 3.4028234663852886e38
"""Largest number of 32 bits."""


def initial_values(given: Any) -> dict[str, Any]:
    """Returns the rule of initial values that a mapping with `kind`, or an initializer of TensorFlow, stands for.

    Raises ValueError if there is no such rule.
    """
    if isinstance(given, Mapping):
        return _rule(given)
    config = getattr(given, "get_config", None)
    if config is None or isinstance(given, type):
        raise ValueError(
            f'initializer must be a mapping such as {{"kind": "normal", "stddev": 0.01}} or an initializer of TensorFlow, '
            f"given {given!r}"
        )
    return _of_tensorflow(type(given).__name__, config())


def penalty(given: Any) -> dict[str, float]:
    """Returns the penalty of a mapping with `l1` and `l2`, or of an `L1`, `L2` or `L1L2` of TensorFlow.

    Raises ValueError if there is no such penalty.
    """
    name = "regularizer"
    if not isinstance(given, Mapping):
        config = getattr(given, "get_config", None)
        if config is None or type(given).__name__ not in ("L1", "L2", "L1L2"):
            raise ValueError(f'{name} must be a mapping such as {{"l2": 1e-5}}, or an L1L2 of TensorFlow, given {given!r}')
        given = config()
    unknown = sorted(str(key) for key in given if key not in PENALTIES)
    if unknown or not given:
        raise ValueError(f"{name} must have the keys l1, l2 or both, given {unknown or 'none'}")
    found = {key: _number(f"{name}.{key}", given.get(key, 0.0)) for key in PENALTIES}
    for key, value in found.items():
        if value < 0:
            raise ValueError(f"{name}.{key} must be >= 0, given {value}")
    return found


def _rule(given: Mapping[str, Any]) -> dict[str, Any]:
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"initializer.kind must be one of {', '.join(KINDS)}, given {kind!r}")
    wanted = KINDS[kind]
    unknown = sorted(str(key) for key in given if key != "kind" and key not in wanted)
    missing = [key for key in wanted if key not in given]
    if unknown or missing:
        takes = f"the keys {' and '.join(wanted)}" if wanted else "no further keys"
        raise ValueError(f"the initializer {kind} must have {takes}, given {dict(given)}")
    numbers = {key: _number(f"initializer.{key}", given[key]) for key in wanted}
    if "stddev" in numbers and numbers["stddev"] <= 0:
        raise ValueError(f"initializer.stddev must be > 0, given {numbers['stddev']}")
    if "high" in numbers and numbers["low"] >= numbers["high"]:
        raise ValueError(f"initializer.high must be more than low, given {numbers['low']} to {numbers['high']}")
    return {"kind": kind, **numbers}


def _number(name: str, given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(given, (bool, str)) or not abs(number) <= FLOAT_MAX:
        raise ValueError(f"{name} must be a number of 32 bits, given {given!r}")
    return number


def _of_tensorflow(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the rule of an initializer of TensorFlow, of this class and configuration."""
    if config.get("seed") is not None:
        raise ValueError(
            f"the initializer {name} must be without seed, given {config['seed']}: run.seed of the job is that of all values"
        )
    if config.get("mean") not in (None, 0):
        raise ValueError(f"the initializer {name} must have the mean 0, given {config['mean']}")
    if name == "VarianceScaling":
        scaling = (config.get("scale"), config.get("mode"), config.get("distribution"))
        known = {(1, "fan_avg", "uniform"): "glorot_uniform", (2, "fan_in", "truncated_normal"): "he_normal"}
        if scaling not in known:
            raise ValueError(
                f"VarianceScaling must be GlorotUniform (1, fan_avg, uniform) or HeNormal (2, fan_in, truncated_normal), "
                f"given {scaling}"
            )
        return {"kind": known[scaling]}
    rules: dict[str, dict[str, Any]] = {
        "RandomNormal": {"kind": "normal", "stddev": config.get("stddev")},
        "TruncatedNormal": {"kind": "truncated_normal", "stddev": config.get("stddev")},
        "RandomUniform": {"kind": "uniform", "low": config.get("minval"), "high": config.get("maxval")},
        "GlorotUniform": {"kind": "glorot_uniform"},
        "HeNormal": {"kind": "he_normal"},
        "Zeros": {"kind": "zeros"},
        "Ones": {"kind": "constant", "value": 1.0},
        "Constant": {"kind": "constant", "value": config.get("value")},
    }
    if name not in rules:
        raise ValueError(f"initializer must be one of {', '.join(rules)} or VarianceScaling, given {name}")
    return _rule(rules[name])
