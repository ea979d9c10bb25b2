"""A module of three tasks, whose records lack labels, and their job."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import trainyard.torch as ty
from trainyard import metrics

USERS = 40
KINDS = ["small", "large", "huge"]
COLUMNS = ["user", "price", "clicked", "spent", "size", "w"]


class Net(ty.Module):
    """Towers of a click, of an amount, and of a class, over the vector of the user."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        self.user = ty.Embedding("user", 4, optimizer=ty.Adagrad(0.3))
        self.bottom = torch.nn.Linear(5, 8)
        self.click = torch.nn.Linear(8, 1)
        self.spent = torch.nn.Linear(8, 1)
        self.size = torch.nn.Linear(8, len(KINDS))

    def forward(self, batch: ty.Batch) -> dict[str, torch.Tensor]:
        """Returns the logits of each task, the vector of the user, and whether it is expensive."""
        user = self.user(batch)
        hidden = torch.relu(self.bottom(torch.cat([user, batch["price"]], 1)))
        click, spent = self.click(hidden).squeeze(1), self.spent(hidden)
        is_expensive = batch["price"][:, 0] > 0.5
        return {"size": self.size(hidden), "click": click, "spent": spent, "vector": user, "is_expensive": is_expensive}

    def metrics(self, outputs: Mapping[str, torch.Tensor], batch: ty.LabelledBatch) -> Mapping[str, metrics.Metric]:
        """Returns the error of the amounts, of the records that have one."""
        rows = batch.is_labelled["spent"]
        error = (outputs["spent"] - batch.labels["spent"])[rows].abs()
        weights = None if batch.weights is None else batch.weights["spent"][rows]
        return {"spent_error": metrics.mean(error, weights)}


def rows(count: int, seed: int) -> list[dict[str, str]]:
    """Draws records. A fifth has no click, a third no amount; none lacks all labels."""
    draw = random.Random(seed)
    out = []
    for _ in range(count):
        user, price = draw.randrange(USERS), draw.random()
        clicked, spent = int(user / USERS + price > 1), user / USERS + 2 * price
        size = KINDS[min(int(3 * price), 2)]
        out.append(
            {
                "user": f"u{user}",
                "price": f"{price:.4f}",
                "clicked": "" if draw.random() < 0.2 else str(clicked),
                "spent": "" if draw.random() < 0.33 else f"{spent:.4f}",
                "size": size,
                "w": f"{draw.random() + 0.1:.3f}",
            }
        )
    return out


def write(folder: Path, is_weighted: bool = False) -> dict[str, Any]:
    """Writes records into a folder, and returns the job."""
    for name, count, seed in (("train.csv", 1200, 1), ("eval.csv", 200, 2)):
        lines = [",".join(record[column] for column in COLUMNS) for record in rows(count, seed)]
        (folder / name).write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    weighted = {"weight_column": "w"} if is_weighted else {}
    return {
        "model_dir": str(folder / "model"),
        "run": {"seed": 3, "save_checkpoints_steps": 100},
        "input": {
            "train": {"files": [str(folder / "train.csv")], "batch_size": 50},
            "eval": {"files": [str(folder / "eval.csv")]},
        },
        "feature": [{"column": "price", "kind": "numeric"}],
        "model": {
            "kind": "custom_multi_task",
            "optimizer": {"kind": "adagrad", "learning_rate": 0.3},
            "task": [
                {"name": "click", "head": "binary", "label": {"column": "clicked"}},
                {"name": "spent", "head": "regression", "label": {"column": "spent"}, "weight": 0.5, **weighted},
                {"name": "size", "head": "multi_class", "label": {"column": "size", "vocabulary": KINDS}},
            ],
        },
        "train": {"max_steps": 200},
    }


if __name__ == "__main__":
    ty.main(Net)
