"""A counting job in Python, whose tasks are killed."""

from __future__ import annotations

import random
from pathlib import Path

import faults
import ledger

SEED = 11


def test_each_record_counts_once_though_worker_server_and_chief_are_killed(tmp_path: Path) -> None:
    book = ledger.Ledger(rows=6000, epochs=12)
    job = book.write(tmp_path)
    kills = faults.rounds(job, 1, 200, random.Random(SEED))
    assert kills == 3
    found = faults.counters(job, tmp_path / "export")
    assert book.mistakes(found) == []


def test_a_lost_and_a_double_update_are_found() -> None:
    book = ledger.Ledger(rows=6, epochs=2)
    counts = [4.0, 2.0, 2.0, 4.0, 2.0, 2.0]
    right = {}
    for server in range(ledger.SERVERS):
        right[f"count/{server}/embedding_weights"] = ledger.np.array(counts)
        right[f"cells/{server}"] = ledger.np.array([*counts, *[0.0] * (ledger.CELLS - 6)])
    assert book.mistakes(right) == []
    wrong = {name: values.copy() for name, values in right.items()}
    wrong["count/1/embedding_weights"][3] -= 1
    wrong["cells/0"][4] += 1
    assert book.mistakes(wrong) == ["cells/0[4]: +1.0 of 2.0", "count/1/embedding_weights[3]: -1.0 of 4"]
