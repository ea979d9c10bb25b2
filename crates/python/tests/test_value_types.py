"""Each type of a value of a batch, read as each kind of feature: it is what the same text of a CSV file is, or refused."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainyard
from trainyard.estimator import input as batches

KINDS: dict[str, dict[str, Any]] = {
    "number": {"kind": "numeric", "default": -9.0},
    "identity": {"kind": "identity", "buckets": 1000, "default": 999},
    "text": {"kind": "hashed", "buckets": 1_000_000},
    "id": {"kind": "hashed", "buckets": 1_000_000, "integers": True},
    "hour": {"kind": "bucketized", "time": "hour", "boundaries": [6, 12]},
}


@dataclass
class Row:
    """Values of one type, and the texts of a CSV file that stand for them."""

    values: Any
    texts: list[str]
    refused: list[str] = field(default_factory=list)
    """Kinds that refuse the type, though they take its text: a column of texts has no numbers, and one of floats no texts."""


TEXT = ["text"]
NUMBERS = ["number", "identity", "id", "hour"]
DAY, MIDNIGHT, SECOND = "2024-02-29", "2024-02-29 00:00:00", "2024-02-29 01:02:03"
AT = datetime.datetime(2024, 2, 29, 1, 2, 3)


def times(unit: str, text: str = "2024-02-29T01:02:03") -> Any:
    """Returns an array of a time in a unit, and of none."""
    return np.array([text, "NaT"], dtype=f"M8[{unit}]")


ROWS: dict[str, Row] = {
    "int": Row([7, -1, None], ["7", "-1", ""]),
    "int of 64 bits": Row([-(2**63), 2**63 - 1], [str(-(2**63)), str(2**63 - 1)]),
    "int beyond 64 bits": Row([2**64 - 1, 2**70], [str(2**64 - 1), str(2**70)], ["number"]),
    "int8": Row(np.array([-128, 127], "i1"), ["-128", "127"]),
    "uint8": Row(np.array([0, 255], "u1"), ["0", "255"]),
    "uint64": Row(np.array([0, 2**64 - 1], "u8"), ["0", str(2**64 - 1)], ["number"]),
    "scalars of numpy": Row([np.int32(7), np.uint8(8), np.array(9)], ["7", "8", "9"]),
    "bool": Row([True, False, None], ["1", "0", ""]),
    "array of bool": Row(np.array([True, False]), ["1", "0"]),
    "scalars of bool": Row([np.bool_(True), np.bool_(False)], ["1", "0"]),
    "float": Row([0.5, -2.0, float("nan")], ["0.5", "-2.0", ""], TEXT),
    "whole float": Row([3.0, 1.0], ["3.0", "1.0"], TEXT),
    "float16": Row(np.array([0.5, 2], "f2"), ["0.5", "2.0"], TEXT),
    "float32": Row(np.array([0.1, 2], "f4"), ["0.1", "2.0"], TEXT),
    "infinity": Row([float("inf"), 1.0], ["inf", "1.0"], TEXT),
    "int and float": Row([1, 0.5], ["1", "0.5"], TEXT),
    "masked": Row(np.ma.array([1, 2], mask=[False, True]), ["1", ""]),
    "decimal": Row([Decimal("0.5"), Decimal("NaN")], ["0.5", ""], TEXT),
    "fraction": Row([Fraction(1, 2)], ["0.5"], TEXT),
    "str": Row(["a", "", None], ["a", "", ""]),
    "str of digits": Row(["007"], ["007"], NUMBERS),
    "bytes": Row([b"a", np.bytes_(b"b"), np.str_("c")], ["a", "b", "c"]),
    "array of bytes": Row(np.array([b"a", b""]), ["a", ""]),
    "array of str": Row(np.array(["a", ""]), ["a", ""]),
    "int and str": Row([1, "a"], ["1", "a"]),
    "column of one": Row(np.array([[1], [2]]), ["1", "2"]),
    "date": Row([AT.date()], [DAY]),
    "datetime": Row([AT], [SECOND]),
    "datetime64[D]": Row(times("D"), [DAY, ""]),
    "datetime64[h]": Row(times("h"), ["2024-02-29 01:00:00", ""]),
    "datetime64[m]": Row(times("m"), ["2024-02-29 01:02:00", ""]),
    "datetime64[s]": Row(times("s"), [SECOND, ""]),
    "datetime64[ms]": Row(times("ms", "2024-02-29T01:02:03.25"), [SECOND + ".250000", ""]),
    "datetime64[us]": Row(times("us"), [SECOND, ""]),
    "datetime64[ns]": Row(times("ns"), [SECOND, ""]),
    "datetime64 of nanoseconds": Row(times("ns", "2024-02-29T01:02:03.000000001"), [SECOND + ".000000001", ""]),
    "datetime64 of midnight": Row(times("ns", DAY), [MIDNIGHT, ""]),
    "column of one time": Row(times("ns").reshape(-1, 1), [SECOND, ""]),
    "scalars of datetime64": Row(list(times("ns")), [SECOND, ""]),
    "objects of datetime64": Row(np.array([*times("ns"), None], dtype=object), [SECOND, "", ""]),
}


def of_pandas(pandas: Any) -> dict[str, Row]:
    """Returns the rows of pandas."""
    series = pandas.Series
    midnight = pandas.to_datetime(series([DAY, None]))
    return {
        "boolean": Row(series([True, None], dtype="boolean"), ["1", ""]),
        "Int64": Row(series([7, None], dtype="Int64"), ["7", ""]),
        "UInt64": Row(series([2**64 - 1, None], dtype="UInt64"), [str(2**64 - 1), ""], ["number"]),
        "Float64": Row(series([0.5, None], dtype="Float64"), ["0.5", ""], TEXT),
        "string": Row(series(["a", None], dtype="string"), ["a", ""]),
        "object": Row(series(["a", None, float("nan"), pandas.NA, pandas.NaT], dtype=object), ["a", "", "", "", ""]),
        "category": Row(series(["a", "b", None], dtype="category"), ["a", "b", ""]),
        "category of int": Row(series([3, 4], dtype="category"), ["3", "4"]),
        "sparse": Row(series([0.0, 1.5], dtype=pandas.SparseDtype(float)), ["0.0", "1.5"], TEXT),
        # A time has one text, whether all others of its batch are midnights or not.
        "midnights": Row(midnight, [MIDNIGHT, ""]),
        "midnight and another": Row(pandas.to_datetime(series([DAY, SECOND]), format="mixed"), [MIDNIGHT, SECOND]),
        "index of times": Row(pandas.DatetimeIndex(midnight), [MIDNIGHT, ""]),
        "timestamps": Row(list(midnight), [MIDNIGHT, ""]),
        "times of numpy": Row(midnight.to_numpy(), [MIDNIGHT, ""]),
        "zone": Row(midnight.dt.tz_localize("UTC"), [MIDNIGHT + "+00:00", ""]),
    }


def transformed(reader: dict[str, Any], files: list[str], kind: str) -> list[Any] | None:
    """Returns what a feature of a kind makes of each record; nothing where a record is refused."""
    part = {"files": files}
    job = {
        "model_dir": "model",
        "input": {**reader, "train": {**part, "epochs": 1}, "eval": part},
        "feature": [{"column": "x", **KINDS[kind]}],
        "model": {"kind": "linear_classifier"},
    }
    output = Path("transformed.jsonl")
    try:
        trainyard.run.run("transform", job, further=["--output", str(output)])
    except trainyard.JobError as error:
        assert error.exit_code == 65, error
        return None
    return [json.loads(line) for line in output.read_text().splitlines()]


def check(rows: dict[str, Row]) -> None:
    wrong = []
    for name, row in rows.items():
        lines = "".join(f"{text},0\n" for text in row.texts)
        Path("rows.csv").write_text("x,label\n" + lines)
        read = batches.read(lambda row=row: {"x": row.values}, Path("batches"), batches.Labels.UNREAD)
        for kind in KINDS:
            found = transformed(dict(read.shared), list(map(str, read.part["files"])), kind)
            expected = transformed({"format": "csv", "label": {"column": "label"}}, ["rows.csv"], kind)
            if kind in row.refused:
                assert expected is not None or found is None, (name, kind)
                expected = None
            if found != expected:
                wrong.append(f"{name} as {kind}: {found}, and of CSV {expected}")
    assert not wrong, "\n".join(wrong)


def test_a_value_of_python_and_numpy_is_what_the_same_text_of_a_file_is(folder: Path) -> None:
    check(ROWS)


def test_a_value_of_pandas_is_what_the_same_text_of_a_file_is(folder: Path) -> None:
    check(of_pandas(pytest.importorskip("pandas", reason="pandas is not installed")))


@pytest.mark.parametrize(
    "values",
    [
        lambda: np.array([90], dtype="m8[s]"),
        lambda: np.array([90], dtype="m8[ns]"),
        lambda: [np.timedelta64(90, "ns")],
        lambda: [[np.timedelta64(90, "ns")]],
        lambda: pytest.importorskip("pandas", reason="pandas is not installed").Series([1, 2], dtype="timedelta64[ns]"),
    ],
)
def test_durations_are_refused_because_their_unit_is_not_said(values: Callable[[], Any], folder: Path) -> None:
    with pytest.raises(ValueError, match="the column `x` must hold no durations, given .*timedelta64"):
        batches.read(lambda: {"x": values()}, Path("batches"), batches.Labels.UNREAD)
