"""Rules of embeddings: initial values and penalties."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import initial_rows
import pytest
from conftest import ran

import trainyard.numpy as tn
from trainyard import toml
from trainyard.estimator import feature_column as fc


class Initializer:
    """An initializer of TensorFlow, as far as it shows itself: its class, and its configuration."""

    def __init__(self, **config: Any) -> None:
        self.config = config

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return self.config


def of_tensorflow(name: str, **config: Any) -> Any:
    """Returns an initializer of a class of this name."""
    return type(name, (Initializer,), {})(**config)


KNOWN = [
    ({"kind": "normal", "stddev": 0.01}, {"kind": "normal", "stddev": 0.01}),
    ({"kind": "uniform", "low": -1, "high": 1}, {"kind": "uniform", "low": -1.0, "high": 1.0}),
    ({"kind": "he_normal"}, {"kind": "he_normal"}),
    (of_tensorflow("RandomNormal", mean=0.0, stddev=0.05, seed=None), {"kind": "normal", "stddev": 0.05}),
    (of_tensorflow("TruncatedNormal", mean=0.0, stddev=0.1), {"kind": "truncated_normal", "stddev": 0.1}),
    (of_tensorflow("RandomUniform", minval=-0.5, maxval=0.5), {"kind": "uniform", "low": -0.5, "high": 0.5}),
    (of_tensorflow("GlorotUniform", seed=None), {"kind": "glorot_uniform"}),
    (of_tensorflow("VarianceScaling", scale=2.0, mode="fan_in", distribution="truncated_normal"), {"kind": "he_normal"}),
    (of_tensorflow("Zeros"), {"kind": "zeros"}),
    (of_tensorflow("Ones"), {"kind": "constant", "value": 1.0}),
    (of_tensorflow("Constant", value=3), {"kind": "constant", "value": 3.0}),
]


@pytest.mark.parametrize(("given", "rule"), KNOWN)
def test_an_embedding_takes_the_rules_of_a_job_and_the_initializers_of_tensorflow(given: Any, rule: Any) -> None:
    assert json.loads(tn.Embedding("word", 4, initializer=given).described.initializer) == rule
    word = fc.categorical_column_with_hash_bucket("word", 10)
    (feature,) = fc.features([], [fc.embedding_column(word, 4, initializer=given)])
    assert feature["deep"]["initializer"] == rule
    shared = fc.shared_embeddings([word, fc.categorical_column_with_hash_bucket("other", 10)], 4, initializer=given)
    assert [each["deep"]["initializer"] for each in fc.features([], shared)] == [rule, rule]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"initializer": "normal"}, "mapping such as .* or an initializer of TensorFlow, given 'normal'"),
        ({"initializer": {"kind": "gaussian"}}, "kind must be one of normal, .*, given 'gaussian'"),
        ({"initializer": {"kind": "normal"}}, "normal must have the keys stddev, given"),
        ({"initializer": {"kind": "zeros", "value": 1}}, "zeros must have no further keys"),
        ({"initializer": {"kind": "normal", "stddev": 0}}, "stddev must be > 0, given 0.0"),
        ({"initializer": {"kind": "normal", "stddev": True}}, "number of 32 bits, given True"),
        ({"initializer": {"kind": "constant", "value": 1e39}}, "number of 32 bits, given 1e\\+39"),
        ({"initializer": {"kind": "uniform", "low": 1, "high": 1}}, "high must be more than low, given 1.0 to 1.0"),
        ({"initializer": {"kind": "zeros"}, "stddev": 0.1}, "stddev and initializer exclude each other"),
        ({"initializer": of_tensorflow("RandomNormal", stddev=0.1, seed=3)}, "must be without seed, given 3"),
        ({"initializer": of_tensorflow("RandomNormal", stddev=0.1, mean=2.0)}, "must have the mean 0, given 2.0"),
        ({"initializer": of_tensorflow("Orthogonal", gain=1.0)}, "must be one of RandomNormal, .*, given Orthogonal"),
        ({"initializer": of_tensorflow("VarianceScaling", scale=1.0, mode="fan_in", distribution="uniform")}, "VarianceScaling"),
        ({"regularizer": 0.1}, "mapping such as .*given 0.1"),
        ({"regularizer": {}}, "l1, l2 or both, given none"),
        ({"regularizer": {"l3": 0.1}}, "l1, l2 or both, given \\['l3'\\]"),
        ({"regularizer": {"l2": -0.1}}, "l2 must be >= 0, given -0.1"),
    ],
)
def test_other_rules_are_refused_with_the_reason(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tn.Embedding("word", 4, **keys)


def test_a_penalty_is_a_mapping_or_one_of_tensorflow() -> None:
    for given in ({"l2": 0.25}, of_tensorflow("L2", l2=0.25), of_tensorflow("L1L2", l1=0.0, l2=0.25)):
        described = tn.Embedding("word", 4, regularizer=given).described
        assert json.loads(described.regularizer or "") == {"l1": 0.0, "l2": 0.25}


def test_embeddings_of_one_table_have_one_penalty() -> None:
    job = json.dumps({"model": {}})
    given = [tn.Embedding("user", 4, table="t", regularizer={"l2": 0.5}), tn.Embedding("friend", 4, table="t")]
    first, second = tn.Adapter(lambda params: tn.Model(given, []), job).tables()
    assert first.regularizer == second.regularizer is not None
    given[1] = tn.Embedding("friend", 4, table="t", regularizer={"l1": 0.5})
    with pytest.raises(ValueError, match="table `t` must have one regularizer"):
        tn.Adapter(lambda params: tn.Model(given, []), job).tables()


@pytest.mark.parametrize("feature", [[], [{"column": "word", "kind": "hashed", "buckets": 50}]], ids=["dynamic", "hashed"])
def test_rows_begin_by_the_rule_and_the_penalty_moves_those_that_a_batch_reads(feature: list[Any], folder: Path) -> None:
    Path("rows.csv").write_text("word,y\n" + "a,1\nb,0\n" * 8)
    Path("asked.csv").write_text("word,y\na,0\nb,0\nnew,0\n")
    program = [sys.executable, initial_rows.__file__]

    def predicted(name: str, params: dict[str, Any], *command: str) -> list[float]:
        job = {
            "model_dir": str(folder / name),
            "input": {"label": {"column": "y"}, "train": {"files": ["rows.csv"], "batch_size": 16}},
            "feature": feature,
            "model": {"kind": "custom_regressor", "optimizer": {"kind": "sgd", "learning_rate": 0.5}, "params": params},
            "train": {"max_steps": 1},
        }
        Path(f"{name}.toml").write_text(toml.dumps(job))
        ended = ran(*program, command[0], f"{name}.toml", *command[1:], folder=folder)
        assert ended.returncode == 0, ended.stderr
        asked = ran(*program, "predict", f"{name}.toml", "--input", "asked.csv", folder=folder)
        assert asked.returncode == 0, asked.stderr
        rows = [json.loads(line) for line in asked.stdout.splitlines()]
        return [row["predictions"][0] for row in rows]

    constant = {"initializer": {"kind": "constant", "value": 0.5}}
    assert predicted("constant", constant, "train") == [0.5, 0.5, 0.5]
    # A step of -0.5 (l1 + 2 l2 0.5), on the rows of the batch alone.
    penalized = {**constant, "regularizer": {"l1": 0.25, "l2": 0.5}}
    assert predicted("penalized", penalized, "train") == [0.125, 0.125, 0.5]
    drawn = {"initializer": {"kind": "uniform", "low": 2.0, "high": 3.0}}
    alone = predicted("alone", drawn, "train")
    assert len(set(alone)) == 3 and all(2 <= value < 3 for value in alone)
    assert predicted("partitioned", drawn, "up", "--cluster", "local:ps=2,worker=1") == alone
