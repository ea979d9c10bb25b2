"""Data of Python as an input of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainyard

ROWS = 400


def columns(seed: int = 1) -> dict[str, Any]:
    """Draws records whose label depends on a number, a text and a list."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=ROWS)
    kind = draw.choice(["a", "b"], ROWS)
    tags = [[f"t{tag}" for tag in draw.choice(5, draw.integers(0, 3), replace=False)] for _ in range(ROWS)]
    score = x + (kind == "a") + np.array(["t1" in each for each in tags])
    return {"x": x, "kind": kind.tolist(), "tags": tags, "clicked": (score > 0.8).astype(np.int64)}


def job(**train: Any) -> dict[str, Any]:
    """Returns a job without files."""
    return {
        "model_dir": "model",
        "input": {"label": {"column": "clicked"}, "train": {"batch_size": 20, "epochs": 20, **train}},
        "feature": [
            {"column": "x", "kind": "numeric", "default": 0.0},
            {"column": "kind", "kind": "hashed", "buckets": 100},
            {"column": "tags", "kind": "hashed", "buckets": 100, "separator": "|"},
        ],
        "model": {"kind": "linear_classifier", "linear_optimizer": {"kind": "adagrad", "learning_rate": 0.5}},
    }


def arrays(data: dict[str, Any]) -> Any:
    return data


def pandas_frame(data: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(data)


def polars_frame(data: dict[str, Any]) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(data)


def arrow_table(data: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed").table(data)


def arrow_stream(data: dict[str, Any]) -> Any:
    """A stream that can be read once, of several batches."""
    return arrow_table(data).to_reader(max_chunksize=70)


class OnlyStream:
    """An object of another library, which has the interface of Arrow's streams alone."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def foreign_stream(data: dict[str, Any]) -> Any:
    return OnlyStream(arrow_table(data))


FORMS = [arrays, pandas_frame, polars_frame, arrow_table, arrow_stream, foreign_stream]


@pytest.mark.parametrize("form", FORMS)
def test_a_job_trains_evaluates_and_predicts_data_of_python(form: Any, folder: Path) -> None:
    report = trainyard.train(job(), data=form(columns()), eval_data=form(columns(2)), quiet=True)
    assert report["global_step"] == ROWS // 20 * 20 and report["eval"]["auc"] > 0.95
    scores = trainyard.evaluate(job(), data=form(columns(2)), quiet=True)
    assert scores == pytest.approx({name: value for name, value in report["eval"].items() if name != "global_step"})
    unlabelled = {name: values for name, values in columns(2).items() if name != "clicked"}
    rows = list(trainyard.predict(job(), data=form(unlabelled), quiet=True))
    label = columns(2)["clicked"]
    found = np.array([row["class_ids"][0] for row in rows])
    assert len(found) == ROWS and scores["accuracy"] == pytest.approx((found == label).mean())


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_trained_in_their_order(form: Any, folder: Path) -> None:
    """With one row a batch and a step that makes the bias its label, the loss of each step is that of the label that comes next."""
    losses: list[float] = []

    class Losses(trainyard.Callback):
        def after_step(self, step: trainyard.Step) -> None:
            losses.append(step.loss)

    labels = np.random.default_rng(5).integers(0, 100, 50).astype(np.float64)
    data = {"x": np.zeros(50), "y": labels}
    bare = {
        "model_dir": "model",
        "input": {"label": {"column": "y"}, "train": {"batch_size": 1, "epochs": 1, "shuffle_rows": 0}},
        "feature": [{"column": "x", "kind": "numeric"}],
        "model": {"kind": "linear_regressor", "linear_optimizer": {"kind": "sgd", "learning_rate": 0.5}},
    }
    trainyard.train(bare, data=form(data), callbacks=[Losses()], quiet=True)
    # A step of 0.5 times the gradient 2 (b - y) sets the bias to the label.
    before = np.concatenate([[0.0], labels[:-1]])
    assert losses == pytest.approx(((before - labels) ** 2).tolist(), rel=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_none_and_nan_are_missing(form: Any, folder: Path) -> None:
    data = columns()
    data["x"] = [None if row % 7 == 0 else float(value) for row, value in enumerate(data["x"])]
    if form is not arrow_table and form is not polars_frame:
        data["x"] = [float("nan") if value is None and row % 2 else value for row, value in enumerate(data["x"])]
    data["kind"] = [None if row % 5 == 0 else value for row, value in enumerate(data["kind"])]
    trainyard.train(job(), data=form(data), quiet=True)
    one = {"x": [float("nan"), 0.0, 0.0], "kind": [None, None, "a"], "tags": [[], [], []]}
    missing, default, other = (row["logits"][0] for row in trainyard.predict(job(), data=form(one), quiet=True))
    assert missing == default != other


def test_missing_values_of_pandas_are_missing_in_every_type(folder: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    trainyard.train(job(), data=columns(), quiet=True)
    frame = pandas.DataFrame(
        {
            "x": pandas.array([None, 0.0], dtype="Float64"),
            "kind": pandas.array([pandas.NA, None], dtype="string"),
            "tags": [None, []],
        }
    )
    first, second = (row["logits"] for row in trainyard.predict(job(), data=frame, quiet=True))
    assert first == second


@pytest.mark.parametrize("form", FORMS)
def test_texts_that_a_job_would_split_in_other_files_are_refused(form: Any, folder: Path) -> None:
    data = columns()
    data["tags"] = ["|".join(tags) for tags in data["tags"]]
    with pytest.raises(ValueError, match=r"the column `tags` holds the separator '\|' of its feature.*frame\['tags'\].str.split"):
        trainyard.train(job(), data=form(data))
    # Single ids need no list.
    data["tags"] = [tags.partition("|")[0] or None for tags in data["tags"]]
    assert trainyard.train(job(), data=form(data), quiet=True)["global_step"] > 0


@pytest.mark.parametrize("form", FORMS)
def test_a_label_that_is_not_there_is_an_error(form: Any, folder: Path) -> None:
    data = columns()
    without = {name: values for name, values in data.items() if name != "clicked"}
    with pytest.raises(trainyard.JobError, match="clicked"):
        trainyard.train(job(), data=form(without), quiet=True)
    data["clicked"] = [None if row == 5 else int(value) for row, value in enumerate(data["clicked"])]
    with pytest.raises(trainyard.JobError, match="row 6: column `clicked`: the value is missing"):
        trainyard.train(job(), data=form(data), quiet=True)


def test_a_job_file_has_its_files_replaced(iris: Path, folder: Path) -> None:
    lines = [line.split(",") for line in (iris.parent / "iris" / "iris_training.csv").read_text().split()]
    data = {name: [row[place] for row in lines[1:]] for place, name in enumerate(lines[0])}
    data = {name: values if name == "species" else np.array(values, dtype=float) for name, values in data.items()}
    report = trainyard.train(iris, model_dir="model", data=data, eval_data=data, settings=["train.max_steps=300"], quiet=True)
    assert report["eval"]["accuracy"] > 0.9


def test_training_goes_on_with_other_data(folder: Path) -> None:
    assert trainyard.train(job(epochs=1), data=columns(), quiet=True)["global_step"] == 20
    assert trainyard.train(job(epochs=1), data=columns(3), quiet=True)["global_step"] == 40


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([1, 2], TypeError, "data must be a frame of pandas or polars, .* given a builtins.list"),
        ({"x": []}, ValueError, "must have at least one row"),
        ({}, ValueError, "must have at least one row"),
        ({"x": [1.0], "y": [1, 2]}, ValueError, "must have one length, given {'x': 1, 'y': 2}"),
        ({3: [1.0]}, ValueError, "must have texts as names, each once, given 3"),
        ({"x": [["a", None]]}, ValueError, "a list in the column `x` has missing values beside others"),
        ({"x": np.array([1], dtype="m8[s]")}, ValueError, "`x` must hold no durations"),
    ],
)
def test_data_that_no_job_can_read_is_refused(data: Any, error: Any, message: str, folder: Path) -> None:
    with pytest.raises(error, match=message):
        trainyard.train(job(), data=data)


def test_predictions_are_of_the_data_as_it_was_at_the_call(folder: Path) -> None:
    trainyard.train(job(), data=columns(), quiet=True)
    data = columns(2)
    expected = list(trainyard.predict(job(), data=data, quiet=True))
    predictions = trainyard.predict(job(), data=data, quiet=True)
    data["x"] *= -1
    data["tags"].reverse()
    assert list(predictions) == expected
    with pytest.raises(ValueError, match="exclude each other"):
        trainyard.predict(job(), data=data, input="x.csv")


def test_a_stream_that_was_read_is_told_as_such(folder: Path) -> None:
    stream = arrow_stream(columns())
    trainyard.train(job(epochs=1), data=stream, quiet=True)
    with pytest.raises(ValueError, match="must have at least one row, and has none, or is a stream that was read before"):
        trainyard.evaluate(job(), data=stream, quiet=True)


def test_input_and_data_exclude_each_other(folder: Path) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        list(trainyard.predict(job(), data=columns(), input="x.csv"))


def test_data_reaches_no_other_task(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(RuntimeError, match="reaches no other task of the cluster .*input.train.files"):
        trainyard.train(job(), data=columns())


@pytest.mark.parametrize("call", [trainyard.train, trainyard.evaluate, trainyard.predict])
@pytest.mark.parametrize("setting", ['input.format="csv"', "input.format = 'tfrecord'"])
def test_a_format_beside_data_is_refused(call: Any, setting: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="`input.format.* has no effect beside data="):
        call(job(), data=columns(), settings=[setting])


def test_files_beside_the_data_that_takes_their_place_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="input.eval.files=.* has no effect beside eval_data="):
        trainyard.train(job(), data=columns(), eval_data=columns(2), settings=['input.eval.files=["x.csv"]'])
    with pytest.raises(ValueError, match="input.train.files=.* has no effect beside data="):
        trainyard.train(job(), data=columns(), settings=['input.train.files=["x.csv"]'])


def test_the_format_of_a_job_without_files_is_refused_beside_data(folder: Path) -> None:
    described = job()
    described["input"]["format"] = "csv"
    with pytest.raises(ValueError, match='input.format = "csv" has no effect: the job has no files'):
        trainyard.train(described, data=columns())
    # Of a job with files, it is that of the files.
    described["input"]["train"]["files"] = ["absent.csv"]
    assert trainyard.train(described, data=columns(), quiet=True)["global_step"] > 0


@pytest.mark.parametrize(
    ("changed", "argument", "message"),
    [({"data": {"clicked": ["a"] * ROWS}}, "data", "holds string"), ({"eval_data": {"clicked": ["a"] * ROWS}}, "eval_data", "holds string")],
)
def test_messages_name_the_argument_and_no_temporary_file(
    changed: dict[str, Any], argument: str, message: str, folder: Path, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    data = {name: {**columns(), **changed.get(name, {})} for name in ("data", "eval_data")}
    with pytest.raises(trainyard.JobError, match=f"column `clicked` of {argument} {message}") as error:
        trainyard.train(job(), **data, quiet=True)
    said = [str(error.value), error.value.message, caplog.text, *(str(warning.message) for warning in recwarn)]
    assert not [text for text in said if ".parquet" in text], said


def test_a_second_call_warns_of_no_other_division_of_the_input(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for seed in (1, 2):
        trainyard.train(job(epochs=1), data=columns(seed), quiet=True)
    assert "division" not in caplog.text
    # The same data in other batches is other data, too: each call reads all of its own.
    assert trainyard.train(job(epochs=1, batch_size=40), data=columns(2), quiet=True)["global_step"] == 50
