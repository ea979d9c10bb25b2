"""Writer of job files from dictionaries."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(tables: Mapping[str, Any]) -> str:
    """Returns a dictionary as TOML. Keys whose value is None are left out.

    Raises TypeError if a value is none that TOML has.
    """
    lines: list[str] = []
    for key, value in tables.items():
        if value is not None and not _is_table(value) and not _is_tables(value):
            lines.append(f"{_key(key)} = {_value(key, value)}")
    for key, value in tables.items():
        if _is_table(value):
            lines += _table(_key(key), value, "[{}]")
        elif _is_tables(value):
            for each in value:
                lines += _table(_key(key), each, "[[{}]]")
    return "\n".join(lines) + "\n"


def _table(path: str, table: Mapping[str, Any], heading: str) -> list[str]:
    lines = [heading.format(path)]
    for key, value in table.items():
        if value is not None and not _is_table(value):
            lines.append(f"{_key(key)} = {_value(f'{path}.{key}', value)}")
    for key, value in table.items():
        if _is_table(value):
            lines += _table(f"{path}.{_key(key)}", value, "[{}]")
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(_is_table(each) for each in value)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _text(key)


def _text(text: str) -> str:
    """Returns a basic string of TOML, which has no surrogate pairs, and no control character but as an escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(place: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{place}: {value} is no number that a job can have")
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(place, each) for each in value) + "]"
    if _is_table(value):
        inner = (f"{_key(key)} = {_value(f'{place}.{key}', each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(inner) + " }"
    if hasattr(value, "item"):
        # A number of numpy.
        return _value(place, value.item())
    raise TypeError(
        f"{place}: a job cannot hold {value!r}, which is of type {type(value).__name__}: give a text, a number, "
        "true or false, a list or a table"
    )
