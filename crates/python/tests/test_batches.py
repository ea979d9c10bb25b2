"""Batches of Python as inputs of estimators: types, shapes, missing values, labels, passes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import free_ports

import trainyard.data
import trainyard.estimator as tf_estimator
from trainyard import _native
from trainyard.estimator import feature_column as fc
from trainyard.estimator import training

LABELS = np.array([1.0, 0.0] * 50)
TEXTS = ["pos", "neg"] * 50


def classifier(*columns: Any, **keys: Any) -> tf_estimator.LinearClassifier:
    """Returns a linear classifier in the folder of the test."""
    adagrad = tf_estimator.optimizers.Adagrad(0.5)
    return tf_estimator.LinearClassifier(list(columns), "model", optimizer=adagrad, **keys)


def auc(features: Any, column: Any, labels: Any = LABELS) -> float:
    """Returns the AUC of a classifier that has trained one column."""
    estimator = classifier(column)
    estimator.train(lambda: [(features, labels)] * 20)
    return float(estimator.evaluate(lambda: (features, labels))["auc"])


VOCABULARY = fc.categorical_column_with_vocabulary_list("c", ["pos", "neg"])


@pytest.mark.parametrize(
    "values",
    [
        TEXTS,
        np.array(TEXTS),
        np.array(TEXTS).reshape(-1, 1),
        np.array(TEXTS, dtype="S3").reshape(-1, 1),
        np.array(TEXTS, dtype=object).reshape(-1, 1),
        [[each] for each in TEXTS],
        [[each.encode(), b"other"] for each in TEXTS],
        np.array([[each, ""] for each in TEXTS]),
    ],
)
def test_texts_of_any_type_and_shape_are_the_words_of_a_vocabulary(values: Any, folder: Path) -> None:
    assert auc({"c": values}, VOCABULARY) == 1.0


def test_blanks_around_a_text_belong_to_it(folder: Path) -> None:
    column = fc.categorical_column_with_vocabulary_list("c", [" a", "a"])
    assert auc({"c": [" a", "a"] * 50}, column) == 1.0


def test_several_values_of_a_record_are_one_set_in_any_order(folder: Path) -> None:
    column = fc.categorical_column_with_hash_bucket("c", 1000)
    estimator = classifier(column)
    features = {"c": [["a", "b"], ["c"]] * 50}
    estimator.train(lambda: [(features, LABELS)] * 20)
    rows = list(estimator.predict(lambda: {"c": [["a", "b"], ["b", "a"], ["c", None]]}))
    logits = [float(row["logits"][0]) for row in rows]
    assert logits[0] == pytest.approx(logits[1]) and logits[0] > 0 > logits[2]


def test_numbers_of_several_values_and_labels_of_several_are_trained(folder: Path) -> None:
    draw = np.random.default_rng(2)
    x = draw.normal(size=(200, 3))
    labels = np.stack([x.sum(1), x[:, 0]], 1)
    estimator = tf_estimator.LinearRegressor(
        [fc.numeric_column("x", shape=3)], "model", label_dimension=2, optimizer=tf_estimator.optimizers.Adagrad(0.5)
    )
    estimator.train(lambda: [({"x": x}, labels)] * 200)
    assert estimator.evaluate(lambda: ({"x": x}, labels))["average_loss"] < 0.01


class NAType:
    """The missing value of pandas, which has no truth."""

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, np.float32("nan"), "", b"", NAType(), np.datetime64("NaT")])
def test_a_missing_value_of_any_type_is_missing(missing: Any, folder: Path) -> None:
    if isinstance(missing, np.datetime64):
        missing = np.array([missing]).astype(object)[0]
    hashed = fc.categorical_column_with_hash_bucket("c", 1000)
    number = fc.numeric_column("x", default_value=5.0)
    estimator = classifier(hashed, number)
    features = {"c": ["a", missing] * 50, "x": [5.0, missing] * 50}
    estimator.train(lambda: [(features, LABELS)] * 5)
    absent, default = estimator.predict(lambda: {"c": [missing, None], "x": [missing, 5.0]})
    assert float(absent["logits"][0]) == float(default["logits"][0])


def test_a_frame_of_pandas_is_read_with_its_missing_values(folder: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(
        {
            "c": ["pos", None] * 50,
            "k": pandas.array([1, None] * 50, dtype="Int64"),
            "x": [0.5, np.nan] * 50,
            "day": pandas.to_datetime(["2024-01-01", None] * 50),
            "clicked": [1, 0] * 50,
        }
    )
    columns = [
        fc.categorical_column_with_hash_bucket("c", 1000),
        fc.categorical_column_with_hash_bucket("k", 1000, dtype=int),
        fc.numeric_column("x", default_value=0.0),
        fc.categorical_column_with_hash_bucket("day", 1000),
    ]
    estimator = classifier(*columns)
    both = lambda: (frame.drop(columns=["clicked"]), frame["clicked"])
    estimator.train(lambda: [both()] * 20)
    assert estimator.evaluate(both)["auc"] == 1.0
    # A row whose values are missing has the bias alone, whatever they are in Python.
    bare = {name: [None] for name in ("c", "k", "x", "day")}
    found = [float(row["logits"][0]) for source in (bare, frame.iloc[1:2]) for row in estimator.predict(lambda: source)]
    assert found[0] == found[1]
    with pytest.raises(ValueError, match=r"must return \(features, labels\).*given features alone: c, k, x, day, clicked"):
        estimator.train(lambda: frame)


@pytest.mark.parametrize("call", ["train", "evaluate"])
def test_forgotten_labels_are_refused(call: str, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"input_fn must return \(features, labels\)"):
        getattr(classifier(fc.numeric_column("x")), call)(lambda: [{"x": np.ones(3)}])


def test_a_feature_with_the_name_label_is_a_feature(folder: Path) -> None:
    features = {"x": np.array([1.0, -1.0] * 50), "label": np.array([0.0, 1.0] * 50)}
    assert auc(features, fc.numeric_column("x")) == 1.0
    with pytest.raises(ValueError, match="'__label__', which is that of the labels: rename it"):
        classifier(fc.numeric_column("x")).train(lambda: ({"x": [1.0], "__label__": [1]}, [1]))


def test_values_of_no_type_and_arrays_of_three_dimensions_are_refused(folder: Path) -> None:
    estimator = classifier(fc.numeric_column("x"))
    with pytest.raises(ValueError, match=r"`x` must have the shape \[rows\] or \[rows, values\], given \[2, 3, 4\]"):
        estimator.train(lambda: ({"x": np.zeros((2, 3, 4))}, [0, 1]))
    with pytest.raises(TypeError, match="`x` must hold numbers, texts, bytes, or lists of these, given a dict"):
        estimator.train(lambda: ({"x": [{}, {}]}, [0, 1]))


def test_missing_values_beside_weights_are_refused(folder: Path) -> None:
    column = fc.weighted_categorical_column(fc.categorical_column_with_hash_bucket("c", 10), "w")
    with pytest.raises(ValueError, match="`c` and its weights `w` must have no missing value"):
        classifier(column).train(lambda: ({"c": [["a", None]], "w": [[1.0, 2.0]]}, [1]))


def test_the_native_part_tells_lists_and_missing_values(folder: Path) -> None:
    found = _native.write_table("t.parquet", [("a", [1, None]), ("b", [["x"], ["y", None]]), ("c", [2**64 - 1, 0])])
    assert found == [(False, False), (True, True), (False, False)]
    assert Path("t.parquet").is_file()


def written(folder: Path, rows: int = 90) -> Any:
    """Returns an input function of a file that is read once."""
    lines = [f"{i % 2},{i % 2}" for i in range(rows)]
    Path("train.csv").write_text("\n".join(["x,clicked", *lines, ""]))
    return lambda: trainyard.data.csv(folder / "train.csv", "clicked", batch_size=30, num_epochs=1)


def test_each_call_of_train_is_a_pass_over_its_reader(folder: Path) -> None:
    train = written(folder)
    steps = []
    for _ in range(3):
        # A program that starts again has an estimator of its own.
        estimator = classifier(fc.numeric_column("x"))
        estimator.train(train)
        steps.append(estimator.evaluate(train)["global_step"])
    assert steps == [3, 6, 9]


def test_a_file_that_is_written_anew_is_read_as_often_as_its_reader_says(folder: Path) -> None:
    steps = [0]
    # The second file is that of the day before with more records, the last one a file that was made earlier.
    for rows in (90, 150, 120):
        made = folder / "made.csv"
        made.write_text("\n".join(["x,clicked", *(f"{i % 2},{i % 2}" for i in range(rows)), ""]))
        if rows == 120:
            os.utime(made, (1e9, 1e9))
        made.replace("train.csv")
        estimator = classifier(fc.numeric_column("x"))
        estimator.train(lambda: trainyard.data.csv(folder / "train.csv", "clicked", batch_size=30, num_epochs=1))
        steps.append(estimator.global_step())
    assert [later - before for before, later in itertools.pairwise(steps)] == [3, 5, 4]


def test_train_and_evaluate_evaluates_a_job_that_is_over(folder: Path) -> None:
    data = written(folder)
    train = tf_estimator.TrainSpec(data, max_steps=2)
    test = tf_estimator.EvalSpec(data, steps=None, throttle_secs=0)
    found = [tf_estimator.train_and_evaluate(classifier(fc.numeric_column("x")), train, test) for _ in range(2)]
    assert found[0] is not None and found[1] is not None
    assert found[0][0] == pytest.approx(found[1][0]) and found[1][0]["global_step"] == 2


@pytest.mark.parametrize(
    ("hook", "steps"),
    [(tf_estimator.StopAtStepHook(last_step=7), [7, 7]), (tf_estimator.StopAtStepHook(num_steps=7), [7, 14])],
)
def test_a_stop_hook_ends_exactly_at_its_step(hook: Any, steps: list[int], folder: Path) -> None:
    batches = lambda: [({"x": LABELS}, LABELS)] * 1000
    estimator = classifier(fc.numeric_column("x"))
    found = []
    for _ in range(2):
        estimator.train(batches, hooks=[hook])
        found.append(estimator.global_step())
    assert found == steps


def test_unknown_keys_of_predictions_are_refused(folder: Path) -> None:
    estimator = classifier(fc.numeric_column("x"))
    estimator.train(lambda: ({"x": LABELS}, LABELS))
    with pytest.raises(ValueError, match="predict_keys must be among .*probabilities.*, given 'probabilites'"):
        next(estimator.predict(lambda: {"x": [1.0]}, predict_keys="probabilites"))


def test_an_export_is_the_newest_one_whatever_else_the_folder_has(folder: Path) -> None:
    estimator = classifier(fc.numeric_column("x"))
    estimator.train(lambda: ({"x": LABELS}, LABELS))
    Path("export/readme").mkdir(parents=True)
    assert (Path(estimator.export_saved_model("export")) / "saved_model.pb").is_file()


def test_the_name_of_an_evaluation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"name must be None, given 'a'.*\[\[evaluation\]\]"):
        tf_estimator.EvalSpec(list, name="a")


def test_a_bucket_tells_the_newest_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, Any] | None = {"checkpoints": ["s3://b/m/model.ckpt-5", "s3://b/m/model.ckpt-120"]}
    monkeypatch.setattr("trainyard.run.inspect", lambda model_dir: answer)
    estimator = tf_estimator.LinearClassifier([fc.numeric_column("x")], "s3://b/m")
    assert estimator.latest_checkpoint() == "s3://b/m/model.ckpt-120" and estimator.global_step() == 120
    answer = None
    assert estimator.latest_checkpoint() is None and estimator.global_step() == 0


@pytest.mark.parametrize(("role", "count"), [("chief", 3), ("worker", 3), ("ps", 1), ("evaluator", 1)])
def test_a_task_of_a_cluster_trains_its_own_batches(
    role: str, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[dict[str, Any]] = []
    taken: list[int] = []

    def batches() -> Any:
        for batch in range(3):
            taken.append(batch)
            yield {"x": LABELS}, LABELS

    monkeypatch.setattr(training.run, "run_task", lambda job, runner: jobs.append(job))
    cluster = {"cluster": {"chief": ["a:1"], "ps": ["a:2"], "worker": ["a:3"]}, "task": {"type": role, "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    test = tf_estimator.EvalSpec(lambda: ({"x": LABELS}, LABELS), steps=None)
    tf_estimator.train_and_evaluate(classifier(fc.numeric_column("x")), tf_estimator.TrainSpec(batches), test)
    assert len(taken) == count
    train = jobs[0]["input"]["train"]
    assert (train["sharding"], train["epochs"], train["batch_size"]) == ("none", 1, 100)


CLUSTER = """
import json, os
import numpy as np
import trainyard.estimator as tf_estimator
role = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
def batches():
    for batch in range({"chief": 20, "worker": 30}.get(role, 1)):
        x = np.random.default_rng(batch).normal(size=8)
        yield {"x": x}, 3 * x
estimator = tf_estimator.LinearRegressor([tf_estimator.feature_column.numeric_column("x")], "model")
test = tf_estimator.EvalSpec(lambda: ({"x": [1.0]}, [3.0]), steps=None)
tf_estimator.train_and_evaluate(estimator, tf_estimator.TrainSpec(batches), test)
"""


def test_each_task_of_a_cluster_trains_its_own_batches_once(folder: Path) -> None:
    roles = ["ps", "chief", "worker"]
    cluster = {role: [f"127.0.0.1:{port}"] for role, port in zip(roles, free_ports(3), strict=True)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            env={"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})},
            stderr=subprocess.PIPE,
            text=True,
        )
        for role in roles
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    assert json.loads(Path("model/job_state.json").read_text())["global_step"] == 20 + 30


def test_a_number_of_steps_is_no_end_in_a_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}))
    train = tf_estimator.TrainSpec(list, hooks=[tf_estimator.StopAtStepHook(num_steps=3)])
    with pytest.raises(ValueError, match="last_step= in a cluster"):
        tf_estimator.train_and_evaluate(classifier(fc.numeric_column("x")), train, tf_estimator.EvalSpec(list))
