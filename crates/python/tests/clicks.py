"""Click records with users, items and histories, drawn from a seed, and the job that trains on them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

USERS = 60
ITEMS = 40


def write(folder: Path, rows: int = 3000) -> dict[str, Any]:
    """Writes `train.csv` and `eval.csv` into a folder, and returns the job."""
    draw = random.Random(1)
    users = [draw.gauss(0, 1) for _ in range(USERS)]
    items = [draw.gauss(0, 1) for _ in range(ITEMS)]
    for name, count in (("train.csv", rows), ("eval.csv", 600)):
        lines = ["user_id,item_id,history,price,clicked"]
        for _ in range(count):
            user, item = draw.randrange(USERS), draw.randrange(ITEMS)
            history = "|".join(f"i{draw.randrange(ITEMS)}" for _ in range(draw.randrange(4)))
            price = draw.random()
            clicked = int(users[user] + items[item] + price > 0.5)
            lines.append(f"u{user},i{item},{history},{price:.4f},{clicked}")
        (folder / name).write_text("\n".join(lines) + "\n")
    return {
        "model_dir": str(folder / "model"),
        "run": {"seed": 3, "save_checkpoints_steps": 200},
        "input": {
            "label": {"column": "clicked"},
            "train": {"files": [str(folder / "train.csv")], "batch_size": 100},
            "eval": {"files": [str(folder / "eval.csv")]},
        },
        "feature": [{"column": "price", "kind": "numeric"}],
        "model": {
            "kind": "custom_classifier",
            "hidden_units": [8],
            "optimizer": {"kind": "adagrad", "learning_rate": 0.3},
        },
        "train": {"max_steps": 300},
    }
