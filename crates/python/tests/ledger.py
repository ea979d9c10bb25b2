"""A job that counts: a gradient of -1 for each record and a learning rate of 1, so that values are counts.

Each record adds 1 to the counter of its row, and to the dense counter of a group of rows, on every server. After the job,
every counter is known: one that is too low or too high names an update that was lost or applied twice.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import trainyard.numpy as tn
from trainyard import toml

Array = np.ndarray[Any, Any]

SERVERS = 2
CELLS = 1024
"""Cells of the dense counter of each server."""
LINES_OF_BATCH = 16


class Counting(tn.Model):
    """For each server a table with a row for each id, and a dense counter."""

    has_loss = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.counts = [
            tn.Embedding(f"row_{server}", 1, table=f"count/{server}", combiner="sum", stddev=0.0) for server in range(SERVERS)
        ]
        super().__init__(self.counts, [tn.Variable(f"cells/{server}", [CELLS]) for server in range(SERVERS)])

    def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
        """Returns the counter of each row on the first server."""
        return self.counts[0].forward(batch, values)

    def loss(
        self, batch: tn.Batch, values: tn.Values, labels: Array, weights: Array | None
    ) -> tuple[float, Mapping[str, Array]]:
        """Returns no loss, and the counts of the batch."""
        ones = np.ones((batch.rows, 1), dtype=np.float32)
        cells = np.bincount(batch["row"] % CELLS, minlength=CELLS).astype(np.float32)
        gradients = {each.described.table: each.backward(batch, values, -ones) for each in self.counts}
        return 0.0, {**gradients, **{each.name: -cells for each in self.variables}}


@dataclass(frozen=True)
class Ledger:
    """The size of a counting job."""

    rows: int
    """Row ids. Every third is on two lines of the data, the others on one."""
    epochs: int

    @property
    def lines(self) -> list[int]:
        """The row ids of the lines."""
        return [*range(self.rows), *range(0, self.rows, 3)]

    @property
    def steps(self) -> int:
        """Batches of the job."""
        return -(-len(self.lines) // LINES_OF_BATCH) * self.epochs

    def write(self, folder: Path) -> Path:
        """Writes data and job, and returns the path of the job."""
        (folder / "rows.csv").write_text("row\n" + "".join(f"{row}\n" for row in self.lines))
        identity = {"column": "row", "kind": "identity", "buckets": self.rows}
        names = ["row", *(f"row_{server}" for server in range(SERVERS))]
        train = {"files": [str(folder / "rows.csv")], "batch_size": LINES_OF_BATCH, "epochs": self.epochs}
        job = {
            "model_dir": str(folder / "model"),
            "run": {"seed": 5, "save_checkpoints_secs": 2, "log_step_count_steps": 50},
            "input": {"label": {"column": "row"}, "train": {**train, "shuffle_rows": 1000}},
            "feature": [{**identity, "name": name} for name in names],
            "model": {"kind": "custom_regressor", "optimizer": {"kind": "sgd", "learning_rate": 1.0}},
            "strategy": {"partitioner": {"kind": "fixed", "num_shards": 1}},
        }
        path = folder / "job.toml"
        path.write_text(toml.dumps(job))
        return path

    def mistakes(self, counters: Mapping[str, Array]) -> list[str]:
        """Returns a line for each counter that differs from what the job must have counted."""
        lines = np.bincount(self.lines, minlength=self.rows) * self.epochs
        cells = np.bincount(np.arange(self.rows) % CELLS, lines, CELLS)
        found = []
        for server in range(SERVERS):
            for name, expected in ((f"count/{server}/embedding_weights", lines), (f"cells/{server}", cells)):
                differences = counters[name].reshape(-1) - expected
                found += [f"{name}[{place}]: {differences[place]:+} of {expected[place]}" for place in np.flatnonzero(differences)]
        return found


def tensors(file: Path) -> dict[str, Array]:
    """Returns the arrays of a safetensors file."""
    content = file.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, described in header.items():
        begin, end = (8 + length + offset for offset in described["data_offsets"])
        found[name] = np.frombuffer(content[begin:end], dtype=np.float32).reshape(described["shape"])
    return found


if __name__ == "__main__":
    tn.main(Counting)
