"""A module with tables of buckets and of a vocabulary, weights, statistics, and ids that it reads itself; and its job."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import trainyard.torch as ty

USERS = 30
BUCKETS = 20
ITEMS = [f"i{number}" for number in range(12)]
DAYS = 7
COLUMNS = ["user", "items", "weights", "day", "size", "height", "clicked"]


class Net(ty.Module):
    """Every combiner, in a list of modules, under a normalization."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        self.user = ty.Embedding("user", 4)
        self.second = ty.Embedding("user", 2, table="second table")
        self.items = torch.nn.ModuleList([ty.Embedding("items", 3, combiner=params["combiner"])])
        self.normalization = torch.nn.BatchNorm1d(11)
        self.days = torch.nn.Parameter(torch.zeros(DAYS))
        self.register_buffer("scale", torch.tensor([0.5, 2.0]))
        self.out = torch.nn.Linear(11, 1)

    scale: torch.Tensor

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        """Returns a logit for each row."""
        items = self.items[0](batch)
        if isinstance(items, tuple):
            vectors, mask = items
            items = (vectors * mask.unsqueeze(2)).sum(1)
        numbers = torch.cat([batch.numbers * self.scale, batch["size"]], 1)[:, :2]
        inputs = torch.cat([self.user(batch), self.second(batch), items, numbers], 1)
        return self.out(self.normalization(inputs)).squeeze(1) + self.days[batch["day"]]


def rows(count: int, seed: int) -> list[dict[str, str]]:
    """Draws records."""
    draw = random.Random(seed)
    out = []
    for _ in range(count):
        items = draw.sample(ITEMS, draw.randrange(4))
        user = draw.randrange(USERS)
        out.append(
            {
                "user": f"u{user}",
                "items": "|".join(items),
                "weights": "|".join(f"{draw.random() + 0.1:.3f}" for _ in items),
                "day": str(draw.randrange(DAYS)),
                "size": f"{draw.random():.4f}",
                "height": f"{draw.random():.4f}",
                "clicked": str(int(draw.random() < user / USERS)),
            }
        )
    return out


def write(folder: Path, combiner: str | None, is_weighted: bool) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Writes records into a folder, and returns the job and the records of the evaluation."""
    for name, count, seed in (("train.csv", 800, 1), ("eval.csv", 60, 2)):
        lines = [",".join(record[column] for column in COLUMNS) for record in rows(count, seed)]
        (folder / name).write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    items: dict[str, Any] = {"name": "items", "column": "items", "kind": "vocabulary", "values": ITEMS, "separator": "|"}
    if is_weighted:
        items["weights"] = "weights"
    job = {
        "model_dir": str(folder / "model"),
        "run": {"seed": 5, "save_checkpoints_steps": 20},
        "input": {
            "label": {"column": "clicked"},
            "train": {"files": [str(folder / "train.csv")], "batch_size": 50},
            "eval": {"files": [str(folder / "eval.csv")]},
        },
        "feature": [
            {"column": "user", "kind": "hashed", "buckets": BUCKETS},
            items,
            {"column": "day", "kind": "identity", "buckets": DAYS},
            {"column": "size", "kind": "numeric"},
            {"column": "height", "kind": "numeric"},
        ],
        "model": {
            "kind": "custom_classifier",
            "optimizer": {"kind": "adagrad", "learning_rate": 0.3},
            "params": {"combiner": combiner or ""},
        },
        "train": {"max_steps": 40},
    }
    return job, rows(60, 2)


def build(params: Mapping[str, Any]) -> Net:
    """Returns the module of a job, whose keys have no null."""
    return Net({**params, "combiner": params["combiner"] or None})
