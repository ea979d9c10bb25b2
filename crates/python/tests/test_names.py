"""Names of variables and of metrics, and groups of evaluations."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainyard
import trainyard.numpy as tn
from trainyard import metrics, toml

Array = np.ndarray[Any, Any]
USER, ITEM = "用户", "物品"


class Net(tn.Model):
    """A bias of each user and each item, and one with the name of a group of optimizers."""

    own_metrics: Mapping[str, Any] = {}

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.user = tn.Embedding(USER, 1)
        self.item = tn.Embedding(ITEM, 1)
        self.bias = tn.Variable("module", [1], optimizer=tn.SGD(1e-9))
        self.scale = tn.Variable("user scale", [1], {"kind": "constant", "value": 1.0})
        super().__init__([self.user, self.item], [self.bias, self.scale])

    def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
        """Returns a logit for each row."""
        user, item = self.user.forward(batch, values), self.item.forward(batch, values)
        return user * values[self.scale] + item + values[self.bias]

    def gradients(self, batch: tn.Batch, values: tn.Values, delta: Array) -> Mapping[str, Array]:
        """Returns the gradients."""
        user = self.user.forward(batch, values)
        return {
            USER: self.user.backward(batch, values, delta * values[self.scale]),
            ITEM: self.item.backward(batch, values, delta),
            "module": delta.sum(0),
            "user scale": (delta * user).sum(0),
        }

    def metrics(self, logits: Array, labels: Array) -> Mapping[str, metrics.Metric]:
        """Returns the metrics of a test."""
        return {name: metrics.mean(labels) for name in self.own_metrics}


@pytest.fixture
def job(folder: Path) -> dict[str, Any]:
    """A job on clicks that depend on user and item."""
    draw = random.Random(3)
    for name in ("train.csv", "eval.csv"):
        with Path(name).open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow([USER, ITEM, "clicked"])
            for _ in range(1000):
                user, item = draw.randrange(20), draw.randrange(20)
                rows.writerow([f"u{user}", f"i{item}", int(user + item > 19)])
    return {
        "model_dir": "model",
        "input": {
            "label": {"column": "clicked"},
            "train": {"files": ["train.csv"], "batch_size": 50},
            "eval": {"files": ["eval.csv"]},
        },
        "model": {"kind": "custom_classifier", "optimizer": {"kind": "adagrad", "learning_rate": 0.5}},
        "train": {"max_steps": 200},
    }


def ran(command: str, job: dict[str, Any], build: Any = Net) -> int:
    """Runs a command for a model in this process, and returns its exit code."""
    Path("job.toml").write_text(toml.dumps(job), encoding="utf-8")
    return tn.program(build).run([command, "job.toml"]).code


def test_names_of_other_scripts_and_with_blanks_are_variables_of_their_own(job: dict[str, Any]) -> None:
    report = trainyard.train(job, runner=tn.program(Net))
    assert report["eval"]["auc"] > 0.95
    (manifest,) = Path("model").glob("model.ckpt-200/manifest.json")
    names = {each["name"] for each in json.loads(manifest.read_text())["variables"]}
    assert names == {
        "%E7%94%A8%E6%88%B7/embedding_weights",
        "%E7%89%A9%E5%93%81/embedding_weights",
        "module",
        "user%20scale",
    }
    # Another process reads the values of both tables.
    assert trainyard.evaluate(job, runner=tn.program(Net)) == pytest.approx(
        {name: value for name, value in report["eval"].items() if name != "global_step"}
    )


def test_a_variable_with_the_name_of_a_group_leaves_the_rule_of_the_others_alone(job: dict[str, Any]) -> None:
    # The optimizer of `module` moves nothing, and the others learn by that of the job.
    assert trainyard.train(job, runner=tn.program(Net))["eval"]["auc"] > 0.95


def test_metrics_of_groups_are_those_of_the_groups(job: dict[str, Any]) -> None:
    job["eval"] = {"group_auc_column": USER}
    job["model"]["top_k"] = [5]
    scores = trainyard.train(job, runner=tn.program(Net))["eval"]
    assert scores["auc_group"] > 0.95
    assert scores["precision_at_k/5"] > 0.3 and scores["recall_at_k/5"] > 0


@pytest.mark.parametrize("name", ["loss", "auc"])
def test_an_own_metric_with_the_name_of_the_heads_is_refused(name: str, job: dict[str, Any], capfd: Any) -> None:
    class Own(Net):
        own_metrics = {name: None}

    assert ran("train", job, Own) == 78
    assert f"own metric `{name}` has the name of a metric that the head reports" in capfd.readouterr().err


def test_class_weights_beside_an_own_loss_are_refused(job: dict[str, Any], capfd: Any) -> None:
    class Own(Net):
        has_loss = True

    class Wide(Own):
        def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
            return np.repeat(super().logits(batch, values), 3, 1)

    job["model"] |= {"n_classes": 3, "class_weights": [1.0, 2.0, 1.0]}
    assert ran("train", job, Wide) == 78
    assert "class_weights has no effect on the model's own loss" in capfd.readouterr().err


def test_texts_of_any_script_reach_the_job() -> None:
    text = toml.dumps({"model": {"values": ["u1", "😀", "a\x7fb\n"], "é 用": 1}})
    assert text == '[model]\nvalues = ["u1", "😀", "a\\u007fb\\n"]\n"é 用" = 1\n'
