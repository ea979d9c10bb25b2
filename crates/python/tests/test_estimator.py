"""Estimators with TensorFlow's names."""

from __future__ import annotations

import difflib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import free_ports

import trainyard.data
import trainyard.estimator as tf_estimator
from trainyard.estimator import feature_column as fc
from trainyard.estimator import input as batches_of

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COLUMNS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
SPECIES = ["setosa", "versicolor", "virginica"]


def reader(iris: Path, name: str, **keys: Any) -> trainyard.data.Reader:
    """Returns the reader of a file of the iris data."""
    return trainyard.data.csv(iris.parent / "iris" / name, "species", batch_size=32, **keys)


def classifier() -> tf_estimator.Estimator:
    """Returns an estimator of the iris data."""
    columns = [fc.numeric_column(name) for name in COLUMNS]
    config = tf_estimator.RunConfig(tf_random_seed=7)
    adagrad = tf_estimator.optimizers.Adagrad(0.05)
    return tf_estimator.DNNClassifier(
        [10, 10], columns, "model", label_vocabulary=SPECIES, optimizer=adagrad, config=config
    )


def test_an_estimator_trains_evaluates_predicts_and_exports(iris: Path, folder: Path) -> None:
    estimator = classifier()
    estimator.train(lambda: reader(iris, "iris_training.csv", shuffle=120), steps=300)
    estimator.train(lambda: reader(iris, "iris_training.csv", shuffle=120), steps=200)
    scores = estimator.evaluate(lambda: reader(iris, "iris_test.csv"))
    assert scores["global_step"] == 500
    assert scores["accuracy"] > 0.9
    rows = list(estimator.predict(lambda: reader(iris, "iris_test.csv"), predict_keys="probabilities"))
    assert len(rows) == 30 and set(rows[0]) == {"probabilities"}
    assert rows[0]["probabilities"].sum() == pytest.approx(1, abs=1e-5)
    assert (Path(estimator.export_saved_model("export")) / "saved_model.pb").is_file()


def test_train_and_evaluate_returns_the_last_metrics_and_exports_the_best(iris: Path, folder: Path) -> None:
    train = tf_estimator.TrainSpec(lambda: reader(iris, "iris_training.csv", shuffle=120), max_steps=400)
    test = tf_estimator.EvalSpec(
        lambda: reader(iris, "iris_test.csv"), steps=None, exporters=tf_estimator.BestExporter(), throttle_secs=0
    )
    done = tf_estimator.train_and_evaluate(classifier(), train, test)
    assert done is not None and done[1] is None
    assert done[0]["global_step"] == 400 and done[0]["accuracy"] > 0.9
    assert list(Path("model/export/best_exporter").glob("*/saved_model.pb"))


def test_a_run_config_sets_a_timeout_only_where_it_has_one() -> None:
    assert tf_estimator.RunConfig().session_creation_timeout_secs == 7200, "TensorFlow's default"
    assert tf_estimator.RunConfig().keys()["session_creation_timeout_secs"] is None
    assert tf_estimator.RunConfig(session_creation_timeout_secs=60).keys()["session_creation_timeout_secs"] == 60


def test_batches_in_memory_are_an_input(folder: Path) -> None:
    draw = np.random.default_rng(1)

    def batches() -> Any:
        for _ in range(20):
            x = draw.normal(size=50)
            yield {"x": x, "kind": np.array(["a", "b"] * 25)}, 3 * x + np.array([1.0, 2.0] * 25)

    columns = [fc.numeric_column("x"), fc.categorical_column_with_vocabulary_list("kind", ["a", "b"])]
    estimator = tf_estimator.LinearRegressor(columns, "model")
    for _ in range(5):
        estimator.train(batches)
    assert estimator.evaluate(batches)["average_loss"] < 1.0
    row = next(iter(estimator.predict(lambda: {"x": [0.0], "kind": ["a"]})))
    assert row["predictions"].shape == (1,)


class Stream:
    """Batches without an end, which counts those that were taken."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.taken = 0

    def from_step(self, global_step: int) -> Any:
        """Yields the batches that follow a step."""
        self.begun.append(global_step)
        for batch in itertools.count(global_step):
            self.taken += 1
            x = np.random.default_rng(batch).normal(size=10)
            yield {"x": x}, 3 * x + 1

    def from_its_start(self) -> Any:
        """Yields all batches."""
        return self.from_step(0)


def stream_regressor(model_dir: str) -> tf_estimator.LinearRegressor:
    """Returns an estimator whose values depend on the order of the batches."""
    return tf_estimator.LinearRegressor(
        [fc.numeric_column("x")], model_dir, optimizer=tf_estimator.optimizers.SGD(0.05)
    )


def predicted(estimator: tf_estimator.LinearRegressor) -> list[float]:
    """Returns predictions, from which the values of the model follow."""
    rows = estimator.predict(lambda: {"x": [0.0, 1.0]})
    return [float(row["predictions"][0]) for row in rows]


def test_an_endless_generator_is_trained_a_part_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_of, "PART_RECORDS", 100)
    stream = Stream()
    stream_regressor("model").train(stream.from_its_start, max_steps=35)
    # Four parts of ten batches: no more than a part, and the batch that is written, is ahead of training.
    assert stream.begun == [0] and 35 <= stream.taken <= 41
    whole = Stream()
    monkeypatch.setattr(batches_of, "PART_RECORDS", 100_000)
    limited = lambda: itertools.islice(whole.from_its_start(), 35)  # noqa: E731
    stream_regressor("whole").train(limited)
    assert predicted(stream_regressor("model")) == predicted(stream_regressor("whole"))


def test_a_generator_goes_on_behind_the_checkpoint_if_it_takes_its_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches_of, "PART_RECORDS", 70)
    whole = Stream()
    stream_regressor("whole").train(whole.from_step, max_steps=50)
    resumed = Stream()
    for end in (30, 50):
        stream_regressor("resumed").train(resumed.from_step, max_steps=end)
    assert (whole.begun, resumed.begun) == ([0], [0, 30])
    assert predicted(stream_regressor("resumed")) == predicted(stream_regressor("whole"))
    anew = Stream()
    for end in (30, 50):
        stream_regressor("anew").train(anew.from_its_start, max_steps=end)
    assert predicted(stream_regressor("anew")) != predicted(stream_regressor("whole"))


def test_train_and_evaluate_takes_an_endless_generator(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_of, "PART_RECORDS", 200)
    train = tf_estimator.TrainSpec(Stream().from_its_start, max_steps=100)
    test = tf_estimator.EvalSpec(lambda: itertools.islice(Stream().from_its_start(), 5), steps=None, throttle_secs=0)
    done = tf_estimator.train_and_evaluate(stream_regressor("model"), train, test)
    assert done is not None and done[0]["global_step"] == 100 and done[0]["average_loss"] < 0.1


def test_endless_batches_of_an_evaluation_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_of, "RECORDS_MAX", 1000)
    estimator = stream_regressor("model")
    estimator.train(lambda: itertools.islice(Stream().from_its_start(), 5))
    with pytest.raises(ValueError, match="at most 1000 records"):
        estimator.evaluate(Stream().from_its_start)


def test_a_tf_config_cluster_runs_the_same_script_on_every_task(iris: Path, folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(
        "import sys\n"
        "import trainyard.data\n"
        "import trainyard.estimator as tf_estimator\n"
        "columns = [tf_estimator.feature_column.numeric_column(name) for name in "
        f"{COLUMNS}]\n"
        f"estimator = tf_estimator.DNNClassifier([10], columns, 'model', label_vocabulary={SPECIES})\n"
        f"data = lambda name: lambda: trainyard.data.csv(f'{iris.parent}/iris/iris_{{name}}.csv', 'species')\n"
        "train = tf_estimator.TrainSpec(data('training'), max_steps=200)\n"
        "test = tf_estimator.EvalSpec(data('test'), steps=None, start_delay_secs=0, throttle_secs=0)\n"
        "tf_estimator.train_and_evaluate(estimator, train, test)\n"
    )
    chief, worker, ps = free_ports(3)
    cluster = {
        "chief": [f"127.0.0.1:{chief}"],
        "worker": [f"127.0.0.1:{worker}"],
        "ps": [f"127.0.0.1:{ps}"],
    }
    tasks = [("ps", 0), ("chief", 0), ("worker", 0), ("evaluator", 0)]
    processes = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})},
            stderr=subprocess.PIPE,
            text=True,
        )
        for role, index in tasks
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], errors
    assert json.loads(Path("model/eval/result.json").read_text())["global_step"] == 200


@pytest.mark.parametrize(
    ("head", "labels", "metric"),
    [
        (tf_estimator.BinaryClassHead(thresholds=[0.3]), [0, 1], "accuracy/positive_threshold_0.3"),
        (tf_estimator.MultiClassHead(3), [0, 2], "accuracy"),
        (tf_estimator.RegressionHead(), [0.5, 2.0], "average_loss"),
        (tf_estimator.PoissonRegressionHead(), [0, 3], "average_loss"),
        (tf_estimator.LogisticRegressionHead(), [0.2, 0.9], "average_loss"),
    ],
)
def test_estimators_take_heads(head: Any, labels: list[float], metric: str, folder: Path) -> None:
    x = fc.numeric_column("x")
    batch = ({"x": np.array([-1.0, 1.0] * 8)}, np.array(labels * 8))
    estimators = [
        tf_estimator.BaselineEstimator(head, "baseline"),
        tf_estimator.LinearEstimator(head, [x], "linear"),
        tf_estimator.DNNEstimator(head, [4], [x], "dnn"),
        tf_estimator.DNNLinearCombinedEstimator(
            head, "combined", linear_feature_columns=[x], dnn_feature_columns=[x], dnn_hidden_units=[4]
        ),
    ]
    for estimator in estimators:
        estimator.train(lambda: batch)
        assert metric in estimator.evaluate(lambda: batch), estimator.model_dir


def test_columns_become_features() -> None:
    age = fc.numeric_column("age", normalizer_fn=lambda x: (x - 40.0) / 12.5)
    buckets = fc.bucketized_column(age, [18, 30])
    kind = fc.categorical_column_with_hash_bucket("kind", 10)
    cross = fc.crossed_column([buckets, "kind"], 100)
    found = fc.features([kind, cross], [age, fc.embedding_column(kind, 4, combiner="sum"), fc.indicator_column(buckets)])
    by_name = {feature["name"]: feature for feature in found}
    assert set(by_name) == {"age", "age_bucketized", "kind", "age_bucketized_X_kind"}
    assert by_name["age"]["mean"] == pytest.approx(40.0) and by_name["age"]["stddev"] == pytest.approx(12.5)
    assert by_name["kind"]["wide"] is True
    assert by_name["kind"]["deep"] == {"embedding": 4, "combiner": "sum", "trainable": True}
    assert by_name["age_bucketized_X_kind"]["columns"] == ["age_bucketized", "kind"]
    assert by_name["age_bucketized"]["wide"] is False


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fc.numeric_column("x", normalizer_fn=lambda x: x * x), "must compute a \\* x \\+ b"),
        (lambda: fc.bucketized_column(fc.numeric_column("x"), [2, 1]), "ascending"),
        (lambda: fc.crossed_column(["a"], 10), "at least 2 columns"),
        (lambda: fc.features([], [fc.categorical_column_with_identity("x", 3)]), "indicator_column or embedding_column"),
        (lambda: tf_estimator.RunConfig(train_distribute=object()), "strategy.kind"),
        (lambda: tf_estimator.RunConfig(save_checkpoints_secs=1, save_checkpoints_steps=1), "exclude each other"),
        (lambda: tf_estimator.BestExporter(compare_fn=max), "metric="),
        (lambda: tf_estimator.TrainSpec(list, hooks=[object()]), "SessionRunHook, given a object.*early_stopping"),
        (lambda: tf_estimator.EstimatorSpec("train", loss=1.0), "minimize"),
        (lambda: tf_estimator.EstimatorSpec("infer"), "predictions must be given"),
        (lambda: tf_estimator.StopAtStepHook(), "exactly one of"),
        (lambda: tf_estimator.Estimator(lambda features, weights: None), "features, weights"),
        (lambda: tf_estimator.LinearClassifier([], "m", optimizer="Lion"), "one of Adagrad"),
    ],
)
def test_what_a_job_cannot_have_is_refused_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_the_census_script_moves_with_few_changed_lines() -> None:
    before = (EXAMPLES / "census_tensorflow.py").read_text().splitlines()
    after = (EXAMPLES / "census.py").read_text().splitlines()
    added = [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
    assert len(added) <= 10, added


def test_the_missing_texts_of_a_reader_are_those_of_all_columns_or_of_single_ones(folder: Path) -> None:
    def keys(missing: Any) -> dict[str, Any]:
        shared = trainyard.data.csv("t.csv", "y", missing=missing).shared
        return {key: shared[key] for key in ("missing", "missing_of") if shared[key] is not None}

    assert keys(()) == {}
    assert keys(("NA", "?")) == {"missing": ["NA", "?"]}
    # A lone text is no sequence of its letters.
    assert keys("NA") == {"missing": ["NA"]}
    assert keys({"country": (), "age": "-999"}) == {"missing_of": {"country": [], "age": ["-999"]}}


def test_a_column_has_the_missing_texts_of_its_own(folder: Path) -> None:
    rows = [f"{('NA', 'NL')[i % 2]},{('NA', '3')[i % 2]},{i % 2}" for i in range(60)]
    Path("t.csv").write_text("\n".join(["country,age,clicked", *rows, ""]))
    missing = {"age": ["NA"]}
    data = lambda: trainyard.data.csv("t.csv", "clicked", batch_size=20, num_epochs=60, missing=missing)
    country = fc.categorical_column_with_vocabulary_list("country", ["NA", "NL"])
    age = fc.numeric_column("age", default_value=3.0)
    estimator = tf_estimator.LinearClassifier([country, age], "model")
    estimator.train(data)
    # The number is the same in all records: the word tells them apart.
    assert estimator.evaluate(lambda: trainyard.data.csv("t.csv", "clicked", missing=missing))["accuracy"] == 1.0
