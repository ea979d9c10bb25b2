"""Types of data of Python beside those that the files of training had: what would have other ids is refused with both types."""

from __future__ import annotations

import datetime
import decimal
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ran

import trainyard
import trainyard.numpy as tn
from trainyard.program import PACKAGE

ROWS = 200
DAYS = [datetime.datetime(2024, 2, 1) + datetime.timedelta(days=day, hours=3) for day in range(2)]
VALUES: dict[str, tuple[Any, Any]] = {
    "whole": (7, 8),
    "bool": (True, False),
    "time": (DAYS[0], DAYS[1]),
    "day": (DAYS[0].date(), DAYS[1].date()),
    "clock": (datetime.time(3, 0), datetime.time(4, 0)),
    "duration": (datetime.timedelta(seconds=3), datetime.timedelta(seconds=4)),
    "decimal": (decimal.Decimal("1.50"), decimal.Decimal("2.50")),
    "text": ("a", "b"),
    "bytes": (b"a", b"b"),
    "uuid": (str(uuid.UUID(int=1)), str(uuid.UUID(int=2))),
}
"""Two values of each type."""


def records(value: str, types: str) -> dict[str, Any]:
    """Returns records whose label says which of two values a column has."""
    first, second = VALUES[types]
    rows = np.arange(ROWS) % 2
    return {value: [second if row else first for row in rows], "clicked": rows}


def job(**keys: Any) -> dict[str, Any]:
    """Returns a job with a feature of ids."""
    return {
        "model_dir": "model",
        "input": {"label": {"column": "clicked"}, "train": {"batch_size": 20, "epochs": 20}},
        "feature": [{"column": "value", "kind": "hashed", "buckets": 1000, **keys}],
        "model": {"kind": "linear_classifier", "linear_optimizer": {"kind": "adagrad", "learning_rate": 0.5}},
    }


def train_on_csv(data: dict[str, Any], described: dict[str, Any]) -> None:
    """Trains on a file of CSV, as pandas writes one."""
    lines = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    Path("train.csv").write_text("\n".join(lines) + "\n")
    described["input"]["train"]["files"] = ["train.csv"]
    trainyard.train(described, quiet=True)


def pandas_frame(data: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(data)


def polars_frame(data: dict[str, Any]) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(data)


def arrow_table(data: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed").table(data)


FORMS = [dict, pandas_frame, polars_frame, arrow_table]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("types", VALUES)
def test_a_value_has_the_id_of_the_file_of_training_or_is_refused(form: Any, types: str, folder: Path) -> None:
    """A model that was trained on CSV predicts the same values from data, or refuses them: it never knows them by another id."""
    data = records("value", types)
    texts = {name: [value.decode() if isinstance(value, bytes) else value for value in values] for name, values in data.items()}
    train_on_csv(texts, job())
    try:
        scores = trainyard.evaluate(job(), data=form(data), quiet=True)
        rows = list(trainyard.predict(job(), data=form(data), quiet=True))
        found = [row["class_ids"][0] for row in rows]
        assert scores["accuracy"] == 1.0 and found == data["clicked"].tolist()
    except (trainyard.JobError, ValueError, TypeError) as error:
        print(form.__name__, types, error)
        assert "value" in str(error)
        assert types not in ("whole", "text"), error


@pytest.mark.parametrize("form", FORMS)
def test_booleans_of_a_model_of_texts_are_refused_with_both_types(form: Any, folder: Path) -> None:
    data = records("value", "bool")
    train_on_csv(data, job())
    expected = "the column `value` holds booleans in .* and texts in the files of training(?s:.*)write the texts"
    for call in (trainyard.evaluate, trainyard.predict):
        with pytest.raises(trainyard.JobError, match=expected):
            list(call(job(), data=form(data), quiet=True))
    as_texts = {**data, "value": [str(value) for value in data["value"]]}
    assert trainyard.evaluate(job(), data=form(as_texts), quiet=True)["accuracy"] == 1.0


@pytest.mark.parametrize("form", FORMS)
def test_booleans_have_one_meaning_among_texts_and_the_data_of_training(form: Any, folder: Path) -> None:
    """Data that was trained on says the same: texts beside booleans, in both orders."""
    data = records("value", "bool")
    as_texts = {**data, "value": [str(value) for value in data["value"]]}
    for trained, other in ((data, as_texts), (as_texts, data)):
        described = {**job(), "model_dir": f"of_{type(trained['value'][0]).__name__}"}
        trainyard.train(described, data=form(trained), quiet=True)
        assert trainyard.evaluate(described, data=form(trained), quiet=True)["accuracy"] == 1.0
        with pytest.raises(trainyard.JobError, match="`value` holds (booleans|texts) in .* and (booleans|texts) in the files of training"):
            trainyard.evaluate(described, data=form(other), quiet=True)
    # Booleans are whole numbers: these are the same ids.
    numbers = {**data, "value": [int(value) for value in data["value"]]}
    assert trainyard.evaluate({**job(), "model_dir": "of_bool"}, data=form(numbers), quiet=True)["accuracy"] == 1.0


@pytest.mark.parametrize("form", FORMS)
def test_booleans_are_numbers_where_the_file_of_training_had_numbers(form: Any, folder: Path) -> None:
    data = records("value", "bool")
    numbers = {**data, "value": [int(value) for value in data["value"]]}
    described = job(kind="identity", buckets=2)
    train_on_csv(numbers, described)
    assert trainyard.evaluate(described, data=form(data), quiet=True)["accuracy"] == 1.0


@pytest.mark.parametrize("form", FORMS)
def test_a_label_of_booleans_is_no_label_of_texts(form: Any, folder: Path) -> None:
    described = job()
    described["input"]["label"] = {"column": "clicked", "positive": "True"}
    data = records("value", "text")
    data["clicked"] = [bool(value) for value in data["clicked"]]
    train_on_csv(data, described)
    with pytest.raises(trainyard.JobError, match="the column `clicked` holds booleans in .* and texts in the files of training"):
        trainyard.evaluate(described, data=form(data), quiet=True)
    as_texts = {**data, "clicked": [str(value) for value in data["clicked"]]}
    assert trainyard.evaluate(described, data=form(as_texts), quiet=True)["accuracy"] == 1.0


@pytest.mark.parametrize("form", FORMS[2:])
def test_training_that_goes_on_with_another_type_is_told(form: Any, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = records("value", "bool")
    train_on_csv(data, job())
    with caplog.at_level("WARNING", logger="trainyard"):
        trainyard.train(job(), data=form(data), quiet=True)
    assert "the column `value` holds booleans in the training files, and held texts in those of the earlier run" in caplog.text




@pytest.mark.parametrize("unit", ["s", "ns"])
def test_midnights_of_a_model_of_texts_are_refused(unit: str, folder: Path) -> None:
    """pandas writes days where all times of a column are midnight, and the text of such a time has the time of the day."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    days = np.array(["2024-02-01", "2024-02-02"], dtype=f"M8[{unit}]")[np.arange(ROWS) % 2]
    frame = pandas.DataFrame({"value": days, "clicked": np.arange(ROWS) % 2})
    frame.to_csv("train.csv", index=False)
    described = job()
    described["input"]["train"]["files"] = ["train.csv"]
    trainyard.train(described, quiet=True)
    elsewhere = {**described, "model_dir": "absent"}
    for data in (frame, {name: frame[name].to_numpy() for name in frame}):
        for call in (
            lambda data: trainyard.evaluate(described, data=data),
            lambda data: trainyard.predict(elsewhere, data=data, model_dir="model"),
            lambda data: trainyard.train(described, data=data),
        ):
            with pytest.raises(ValueError, match=r"`value` of data holds times that are all midnight.*strftime\(\"%Y-%m-%d\"\)"):
                call(data)
    as_days = frame.assign(value=frame["value"].dt.strftime("%Y-%m-%d"))
    assert trainyard.evaluate(described, data=as_days, quiet=True)["accuracy"] == 1.0
    # A model that was trained on the same knows them.
    trainyard.train(elsewhere, data=frame, quiet=True)
    assert trainyard.evaluate(elsewhere, data=frame, quiet=True)["accuracy"] == 1.0


def test_texts_with_the_separator_of_their_feature_in_parquet_are_told(folder: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    polars.DataFrame({"value": ["a|b", "c"] * 100, "clicked": [1, 0] * 100}).write_parquet("a.parquet")
    described = job(separator="|")
    described["input"] |= {"format": "parquet"}
    described["input"]["train"]["files"] = ["a.parquet"]
    with pytest.warns(trainyard.JobWarning, match=r'100 of 200 values of `value` .* hold the separator "\|", as "a\|b", and a text of parquet'):
        trainyard.train(described, quiet=True)


class OfUsers(tn.Model):
    """A model with an embedding of a name that the records lack."""

    def __init__(self, params: Any) -> None:
        self.usr = tn.Embedding("usr", 1)
        super().__init__([self.usr], [tn.Variable("bias", [1])])

    def logits(self, batch: tn.Batch, values: tn.Values) -> Any:
        return self.usr.forward(batch, values) + values["bias"]

    def gradients(self, batch: tn.Batch, values: tn.Values, delta: Any) -> dict[str, Any]:
        return {"usr": self.usr.backward(batch, values, delta), "bias": delta.sum(0)}


@pytest.mark.parametrize("kind", ["linear_classifier", "custom_classifier"])
def test_a_name_that_no_record_of_tfrecord_holds_is_told(kind: str, folder: Path) -> None:
    lines = ["user,clicked", *(f"u{row % 3},{row % 2}" for row in range(ROWS))]
    Path("a.csv").write_text("\n".join(lines) + "\n")
    assert ran(sys.executable, "-m", "trainyard", "convert", "a.csv", "a.tfrecord", folder=folder).returncode == 0
    described = job(column="usr")
    described["model"] = {"kind": kind}
    described["input"] |= {"format": "tfrecord", "eval": {"files": ["a.tfrecord"]}}
    described["input"]["train"] |= {"files": ["a.tfrecord"], "epochs": 1}
    runner = tn.program(OfUsers) if kind == "custom_classifier" else PACKAGE
    if kind == "custom_classifier":
        del described["feature"]
    expected = "none of the first 200 records holds `usr`: all values are taken as missing(?s:.*)did you mean `user`"
    with pytest.warns(trainyard.JobWarning, match=expected):
        trainyard.train(described, runner=runner, quiet=True)
    with pytest.warns(trainyard.JobWarning, match=expected):
        list(trainyard.predict(described, runner=runner, quiet=True))
