"""The same model in PyTorch and in Rust."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import clicks
import pytest

from trainyard import toml

torch = pytest.importorskip("torch", reason="torch is not installed")

import wide_and_deep

STEPS = 200


def losses(folder: Path, program: list[str], model: dict[str, Any]) -> list[float]:
    """Trains alone, and returns the loss of each step, as the log shows it."""
    job = clicks.write(folder)
    kind = model["kind"]
    job["model_dir"] = str(folder / kind)
    job["run"] |= {"log_step_count_steps": 1, "intra_op_parallelism_threads": 1}
    job["feature"] = wide_and_deep.features(premade=not kind.startswith("custom"))
    job["model"] = {"hidden_units": [16], **model}
    job["train"] = {"max_steps": STEPS}
    path = folder / f"{kind}.toml"
    path.write_text(toml.dumps(job))
    ended = subprocess.run(
        [*program, "train", str(path), "--no-evaluation"], capture_output=True, text=True, timeout=120, check=True
    )
    return [float(loss) for loss in re.findall(r"training step=\d+ loss=([\d.]+)", ended.stderr)]


def test_wide_and_deep_has_the_losses_of_the_premade_estimator(folder: Path) -> None:
    adagrad = {"kind": "adagrad", "learning_rate": 0.05}
    of_module = losses(
        folder,
        [sys.executable, "-W", "ignore", wide_and_deep.__file__],
        {"kind": "custom_classifier", "optimizer": adagrad},
    )
    of_premade = losses(
        folder,
        [sys.executable, "-m", "trainyard"],
        {
            "kind": "dnn_linear_combined_classifier",
            # Those of the module's embeddings of 8.
            "embedding_initializer": {"kind": "truncated_normal", "stddev": 8**-0.5},
            "linear_optimizer": {"kind": "ftrl", "learning_rate": 0.05},
            "dnn_optimizer": adagrad,
        },
    )
    assert len(of_module) == len(of_premade) == STEPS
    assert of_premade[-1] < of_premade[0]
    # The log has five decimals.
    assert of_module == pytest.approx(of_premade, abs=1.1e-5)
