"""Estimators with a `model_fn`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import free_ports

import trainyard
import trainyard.data
import trainyard.estimator as tf_estimator

torch = pytest.importorskip("torch", reason="torch is not installed")

fc = tf_estimator.feature_column
COLUMNS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
SPECIES = ["setosa", "versicolor", "virginica"]


def reader(iris: Path, name: str, **keys: Any) -> Any:
    """Returns the input function of a file of the iris data."""
    path = iris.parent / "iris" / name
    return lambda: trainyard.data.csv(path, "species", batch_size=32, label_vocabulary=SPECIES, **keys)


def my_model(features: Any, labels: Any, mode: str, params: Any, layers: Any) -> tf_estimator.EstimatorSpec:
    """The model function of Estimator's documentation ("Creating custom estimators"), over tensors of PyTorch."""
    net = layers.input_layer(features, params["feature_columns"])
    for units in params["hidden_units"]:
        net = layers.dense(net, units=units, activation=torch.relu)
    logits = layers.dense(net, params["n_classes"], activation=None)
    predicted_classes = torch.argmax(logits, 1)
    if mode == tf_estimator.ModeKeys.PREDICT:
        predictions = {
            "class_ids": predicted_classes.unsqueeze(1),
            "probabilities": torch.softmax(logits, 1),
            "names": [SPECIES[place] for place in predicted_classes],
        }
        return tf_estimator.EstimatorSpec(mode, predictions=predictions)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    accuracy = tf_estimator.metrics.accuracy(labels=labels, predictions=predicted_classes)
    if mode == tf_estimator.ModeKeys.EVAL:
        return tf_estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    optimizer = tf_estimator.optimizers.Adagrad(learning_rate=0.1)
    return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, global_step=None))


def classifier() -> tf_estimator.Estimator:
    """Returns the estimator of the documentation."""
    params = {"feature_columns": [fc.numeric_column(key) for key in COLUMNS], "hidden_units": [10, 10], "n_classes": 3}
    config = tf_estimator.RunConfig(tf_random_seed=7)
    return tf_estimator.Estimator(model_fn=my_model, model_dir="model", config=config, params=params)


def test_a_model_fn_trains_evaluates_and_predicts(iris: Path, folder: Path) -> None:
    estimator = classifier()
    estimator.train(reader(iris, "iris_training.csv", shuffle=120), steps=300)
    estimator.train(reader(iris, "iris_training.csv", shuffle=120), steps=200)
    scores = estimator.evaluate(reader(iris, "iris_test.csv"))
    assert set(scores) == {"accuracy", "loss", "global_step"}
    assert scores["global_step"] == 500
    assert scores["accuracy"] > 0.9 and scores["loss"] < 0.3
    rows = list(estimator.predict(reader(iris, "iris_test.csv")))
    assert len(rows) == 30
    assert rows[0]["probabilities"].sum() == pytest.approx(1, abs=1e-5)
    assert rows[0]["names"] == SPECIES[int(rows[0]["class_ids"][0])]


def test_exporters_of_a_model_fn_are_refused_before_it_trains(iris: Path, folder: Path) -> None:
    train = tf_estimator.TrainSpec(reader(iris, "iris_training.csv"), max_steps=10)
    for exporter in (tf_estimator.FinalExporter("final"), tf_estimator.LatestExporter("latest"), tf_estimator.BestExporter()):
        test = tf_estimator.EvalSpec(reader(iris, "iris_test.csv"), exporters=exporter)
        with pytest.raises(ValueError, match="a model_fn cannot be exported as a SavedModel"):
            tf_estimator.train_and_evaluate(classifier(), train, test)
    assert not Path("model").exists()


def test_train_and_evaluate_takes_a_model_fn(iris: Path, folder: Path) -> None:
    train = tf_estimator.TrainSpec(reader(iris, "iris_training.csv", shuffle=120), max_steps=400)
    test = tf_estimator.EvalSpec(reader(iris, "iris_test.csv"), steps=None, throttle_secs=0)
    done = tf_estimator.train_and_evaluate(classifier(), train, test)
    assert done is not None
    assert done[0]["global_step"] == 400 and done[0]["accuracy"] > 0.9


def test_a_head_in_a_model_fn_gives_loss_metrics_and_predictions(folder: Path) -> None:
    head = tf_estimator.BinaryClassHead()

    def model_fn(features: Any, labels: Any, mode: str, layers: Any) -> tf_estimator.EstimatorSpec:
        kind = fc.categorical_column_with_vocabulary_list("kind", ["a", "b", "c"])
        wide = layers.linear_model(features, [kind])
        deep = layers.dense(layers.input_layer(features, [fc.embedding_column(kind, 2), fc.indicator_column(kind)]), 1)
        net = wide + deep + layers.dense(features["x"], 1)
        optimizer = tf_estimator.optimizers.Adagrad(0.3)
        return head.create_estimator_spec(features, mode, net, labels, optimizer=optimizer)

    draw = np.random.default_rng(1)

    def batches() -> Any:
        for _ in range(30):
            x = draw.normal(size=64)
            kind = draw.integers(0, 3, size=64)
            yield {"x": x, "kind": np.array(["a", "b", "c"])[kind]}, (3 * x + kind - 1 > 0).astype(int)

    estimator = tf_estimator.Estimator(model_fn, "model")
    for _ in range(4):
        estimator.train(batches)
    scores = estimator.evaluate(batches)
    assert {"auc", "accuracy", "average_loss", "auc_precision_recall"} <= set(scores)
    assert scores["auc"] > 0.8
    row = next(iter(estimator.predict(lambda: {"x": [2.0], "kind": ["c"]})))
    assert row["logistic"][0] > 0.5 and set(row) >= {"classes", "probabilities"}


def test_a_model_fn_is_the_same_on_every_task_of_a_cluster(iris: Path, folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "import test_model_fn as it\n"
        f"iris = Path({str(iris)!r})\n"
        "train = it.tf_estimator.TrainSpec(it.reader(iris, 'iris_training.csv', shuffle=120), max_steps=400)\n"
        "test = it.tf_estimator.EvalSpec(it.reader(iris, 'iris_test.csv'), steps=None, start_delay_secs=0, throttle_secs=0)\n"
        "it.tf_estimator.train_and_evaluate(it.classifier(), train, test)\n"
    )
    roles = ["chief", "worker", "ps"]
    cluster = {role: [f"127.0.0.1:{port}"] for role, port in zip(roles, free_ports(3), strict=True)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})},
            stderr=subprocess.PIPE,
            text=True,
        )
        for role in ("ps", "chief", "worker", "evaluator")
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], errors
    result = json.loads(Path("model/eval/result.json").read_text())
    assert result["global_step"] == 400 and result["metrics"]["accuracy"] > 0.8


def test_an_exception_of_a_model_fn_has_its_traceback(iris: Path, folder: Path, capfd: Any) -> None:
    def model_fn(features: Any, labels: Any, mode: str, layers: Any) -> tf_estimator.EstimatorSpec:
        logits = layers.dense(features["petal_length"], 1)
        if layers.training:
            raise LookupError("a mistake of the user")
        if mode == tf_estimator.ModeKeys.PREDICT:
            return tf_estimator.EstimatorSpec(mode, predictions=logits)
        loss = (logits.squeeze(1) - labels).pow(2).mean()
        train_op = tf_estimator.optimizers.SGD(0.1).minimize(loss)
        return tf_estimator.EstimatorSpec(mode, predictions=logits, loss=loss, train_op=train_op)

    estimator = tf_estimator.Estimator(model_fn, "model")

    def numbers() -> Any:
        return {"petal_length": np.arange(8.0)}, np.arange(8.0)

    with pytest.raises(trainyard.JobError) as failure:
        estimator.train(numbers, steps=10)
    assert failure.value.exit_code == 65
    errors = capfd.readouterr().err
    assert "LookupError" in errors and "a mistake of the user" in errors and "in model_fn" in errors


def test_other_layers_in_another_call_are_refused() -> None:
    from trainyard.torch.model_fn import traced

    def model_fn(features: Any, labels: Any, mode: str, layers: Any) -> tf_estimator.EstimatorSpec:
        logits = layers.dense(features["x"], 1, name="late" if layers.training else "early")
        loss = logits.sum()
        train_op = tf_estimator.optimizers.SGD(0.1).minimize(loss)
        return tf_estimator.EstimatorSpec(mode, predictions=logits, loss=loss, train_op=train_op)

    estimator = tf_estimator.Estimator(model_fn, "model")
    layers = traced(estimator, "regression").layers
    layers.train()
    with pytest.raises(ValueError, match="the layer `late` was made neither"):
        estimator.call(features={"x": torch.zeros(1, 1)}, labels=None, mode="train", layers=layers)


def _towers(features: Any, labels: Any, mode: str, params: Any, layers: Any) -> Any:
    """Returns a model of two towers over one column, with the arguments of a test."""
    column = fc.embedding_column(fc.categorical_column_with_hash_bucket("c", 50), 4)
    first = layers.input_layer(features, [column])
    second = layers.input_layer(features, [column])
    if mode == tf_estimator.ModeKeys.TRAIN and params is not None:
        params["seen"].append(bool((first == second).all()))
    logits = layers.dense(first * second, 1)
    head = tf_estimator.RegressionHead()
    adagrad = tf_estimator.optimizers.Adagrad(0.1)
    return head.create_estimator_spec(features, mode, logits, labels, optimizer=adagrad)


def test_a_second_input_layer_has_tables_of_its_own(folder: Path) -> None:
    seen: list[bool] = []
    estimator = tf_estimator.Estimator(_towers, "towers", params={"seen": seen})
    estimator.train(lambda: [({"c": ["a", "b"]}, [1.0, 0.0])] * 3)
    # The first calls are with batches of zeros.
    assert seen[-1] is False
    (manifest,) = Path("towers").glob("model.ckpt-3/manifest.json")
    names = {each["name"] for each in json.loads(manifest.read_text())["variables"]}
    assert {"c/embedding_weights", "input_layer_1/c/embedding_weights"} < names


def test_a_layer_of_one_name_has_one_form() -> None:
    from trainyard.torch.layers import Layers

    layers = Layers()
    layers.dense(torch.zeros(2, 3), 4, name="a.b")
    layers.dense(torch.zeros(2, 3), 4, name="a_b")
    assert len(layers.layers) == 2
    with pytest.raises(ValueError, match="`a.b` was made with 3 inputs, units=4.* asked for with 3 inputs, units=5"):
        layers.dense(torch.zeros(2, 3), 5, name="a.b")


def test_layers_begin_as_those_of_tensorflow(folder: Path) -> None:
    from trainyard.torch.layers import Layers

    layers = Layers()
    layers.dense(torch.zeros(2, 3), 4)
    layers.module("own", lambda: torch.nn.Linear(3, 4))
    assert layers.initializer("layers.dense.weight", (4, 3)) == {"kind": "glorot_uniform"}
    assert layers.initializer("layers.dense.bias", (4,)) == {"kind": "zeros"}
    assert layers.initializer("layers.own.weight", (4, 3)) is None

    def linear(features: Any, labels: Any, mode: str, layers: Any) -> Any:
        columns = [fc.numeric_column("x"), fc.categorical_column_with_hash_bucket("c", 50)]
        logits = layers.linear_model(features, columns)
        still = tf_estimator.optimizers.SGD(1e-30)
        return tf_estimator.RegressionHead().create_estimator_spec(features, mode, logits, labels, optimizer=still)

    estimator = tf_estimator.Estimator(linear, "linear")
    estimator.train(lambda: ({"x": [1.0, 2.0], "c": ["a", "b"]}, [1.0, 0.0]))
    rows = estimator.predict(lambda: {"x": [1.0, -5.0], "c": ["a", "b"]})
    assert [abs(float(row["predictions"][0])) < 1e-20 for row in rows] == [True, True]


def test_predictions_of_three_dimensions_are_refused() -> None:
    from trainyard.torch.model_fn import _prediction

    with pytest.raises(ValueError, match=r"`p` must have the shape \[rows\] or \[rows, values\], given \[2, 3, 4\]"):
        _prediction("p", torch.zeros(2, 3, 4))
