"""Metrics of a model's own, and summaries."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from trainyard import metrics, summary

LABELS = np.array([0, 0, 1, 1, 1, 0], dtype=np.float32)
PROBABILITIES = np.array([0.1, 0.4, 0.35, 0.8, 0.9, 0.6], dtype=np.float32)


def in_two_batches(name: str, weights: np.ndarray | None = None) -> float:
    """Returns a metric of all records, added in two batches."""
    function = getattr(metrics, name)
    sums = metrics.Sums()
    found = {}
    for part in (slice(0, 2), slice(2, 6)):
        predictions = PROBABILITIES[part] > 0.5 if name in ("precision", "recall", "accuracy") else PROBABILITIES[part]
        shares = None if weights is None else weights[part]
        found = sums.add({"it": function(LABELS[part], predictions, shares)})
    return found["it"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", 4 / 6),
        ("precision", 2 / 3),
        ("recall", 2 / 3),
        ("mean_absolute_error", (0.1 + 0.4 + 0.65 + 0.2 + 0.1 + 0.6) / 6),
        ("root_mean_squared_error", ((0.01 + 0.16 + 0.4225 + 0.04 + 0.01 + 0.36) / 6) ** 0.5),
        # Of nine pairs of a positive and a negative, two are in the wrong order.
        ("auc", 7 / 9),
    ],
)
def test_metrics_are_those_of_all_records(name: str, expected: float) -> None:
    assert in_two_batches(name) == pytest.approx(expected, abs=1e-6)


def test_weights_count_as_repetitions() -> None:
    assert in_two_batches("accuracy", np.array([1, 1, 3, 1, 1, 1])) == pytest.approx(4 / 8)
    assert in_two_batches("auc", np.array([1, 1, 3, 1, 1, 1])) == pytest.approx(9 / 15)


def test_weights_of_another_number_than_the_values_are_refused() -> None:
    with pytest.raises(ValueError, match="as many as the values, 4, given 2"):
        metrics.mean(np.ones((2, 2)), np.ones(2))


def test_a_value_that_is_no_metric_is_refused() -> None:
    with pytest.raises(TypeError, match="made by a function of trainyard.metrics, given a float"):
        metrics.Sums().add({"it": 0.5})  # type: ignore[dict-item]


def test_an_event_file_has_checked_records_of_names_numbers_and_steps(tmp_path: Path) -> None:
    assert summary.crc32c(b"123456789") == 0xE3069283
    writer = summary.Writer(tmp_path / "own")
    writer.scalar("rate", 0.5, 300)
    writer.close()
    (file,) = (tmp_path / "own").iterdir()
    content = file.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    assert content[12 : 12 + length].endswith(b"brain.Event:2")
    second = content[12 + length + 4 :]
    assert second[12 + 9 :] [: 3] == b"\x10\xac\x02"
    assert b"\x0a\x04rate\x15" + struct.pack("<f", 0.5) in second
