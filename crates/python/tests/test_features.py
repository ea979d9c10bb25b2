"""Features of a job by their names: what an embedding and a batch of Python address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainyard
import trainyard.numpy as tn
from trainyard import _native, toml

Array = np.ndarray[Any, Any]
ROWS = [("a|b", "2|1", "3", 1), ("b", "1", "7", 0), ("a", "4", "2", 1), ("", "", "9", 0)] * 10
"""Items, their weights, an age, and a label."""


def job(*features: dict[str, Any]) -> dict[str, Any]:
    """Writes records, and returns a job with these features."""
    lines = ["items,w,age,clicked", *(",".join(map(str, row)) for row in ROWS)]
    Path("train.csv").write_text("\n".join(lines) + "\n")
    return {
        "model_dir": "model",
        "input": {"label": {"column": "clicked"}, "train": {"files": ["train.csv"], "batch_size": 4}},
        "feature": list(features),
        "model": {"kind": "custom_classifier", "optimizer": {"kind": "sgd", "learning_rate": 0.5}},
        "train": {"max_steps": 3},
    }


def ids_of(described: dict[str, Any], *embeddings: tn.Embedding) -> list[str]:
    """Returns the features of a job whose ids are in no embedding."""
    Path("job.toml").write_text(toml.dumps(described))
    return _native.TrainedJob.of_file("job.toml").shown([each.described for each in embeddings])[1]


HASHED = {"column": "items", "kind": "hashed", "buckets": 10, "separator": "|"}
AGE = {"column": "age", "kind": "numeric"}
NAMED = [
    ({**HASHED, "weights": "w"}, "items", "items_weighted_by_w"),
    ({**HASHED, "name": "history"}, "items", "history"),
    ({**HASHED, "kind": "vocabulary", "buckets": None, "values": ["a", "b"], "weights": "w"}, "items", "items_weighted_by_w"),
    ({"column": "items", "kind": "dynamic", "separator": "|", "weights": "w"}, "items", "items_weighted_by_w"),
    ({**AGE, "kind": "bucketized", "boundaries": [5.0]}, "age", "age_bucketized"),
    ({**AGE, "kind": "identity", "buckets": 10, "name": "years"}, "age", "years"),
]
"""A feature, its column, and its name, which is not that of the column."""


@pytest.mark.parametrize(("feature", "column", "name"), NAMED)
def test_an_embedding_of_the_column_of_a_feature_of_another_name_is_refused(
    feature: dict[str, Any], column: str, name: str, folder: Path
) -> None:
    expected = rf'(?s)embedding of `{column}` names no feature .*`{column}`: `{name}`.*Embedding\("{name}".*name = "{column}"'
    with pytest.raises(ValueError, match=expected):
        ids_of(job(feature), tn.Embedding(column, 2))
    assert ids_of(job(feature), tn.Embedding(name, 2)) == []
    # By the key `name`, the embedding is that of the feature.
    assert ids_of(job({**feature, "name": column}), tn.Embedding(column, 2)) == []
    # Beside a feature of its own, the column is that feature.
    dynamic = {"column": column, "kind": "dynamic", "separator": "|"}
    assert ids_of(job(feature, dynamic), tn.Embedding(column, 2), tn.Embedding(name, 2, table="other")) == []


def test_numbers_of_another_name_do_not_make_ids_of_their_column(folder: Path) -> None:
    with pytest.raises(ValueError, match="`age` names no feature of the job, .*`age`: `years`, `decades`"):
        ids_of(job({**AGE, "name": "years"}, {**AGE, "name": "decades"}), tn.Embedding("age", 2))


def test_a_cross_has_the_name_of_none_of_its_columns(folder: Path) -> None:
    cross = {"columns": ["items", "age"], "kind": "crossed", "buckets": 100}
    assert ids_of(job(cross), tn.Embedding("items", 2)) == ["age_X_items"] or ids_of(job(cross), tn.Embedding("items", 2)) == [
        "items_X_age"
    ]


@pytest.mark.parametrize(
    ("feature", "given", "message"),
    [
        ({**HASHED, "separator": None}, {"separator": "|"}, 'has the separator "|", and the feature has none'),
        (HASHED, {"separator": ";"}, 'has the separator ";", and the feature has "|"'),
        ({"column": "items", "kind": "dynamic", "rows_max": 5}, {"rows_max": 6}, "has rows_max = 6, and the feature has 5"),
        (HASHED, {"rows_max": 10}, "has rows_max = 10, and the .* has a row for each of its ids"),
    ],
)
def test_an_argument_that_contradicts_the_feature_is_refused(
    feature: dict[str, Any], given: dict[str, Any], message: str, folder: Path
) -> None:
    pattern = message.replace("|", r"\|")
    with pytest.raises(ValueError, match=f"embedding of `items` {pattern}"):
        ids_of(job(feature), tn.Embedding("items", 2, **given))


@pytest.mark.parametrize(
    ("deep", "own"),
    [({"embedding": 16, "combiner": "sum"}, r'Embedding\("items", 16, ...\) has arguments'), ("indicator", r'batch\["items"\] are the ids')],
)
@pytest.mark.parametrize("embeddings", [[], [tn.Embedding("items", 2)]])
def test_how_a_job_reads_a_feature_is_refused_beside_a_module(deep: Any, own: str, embeddings: list[Any], folder: Path) -> None:
    with pytest.raises(ValueError, match=f"the key `deep` of the .* `items` has no effect .* {own}.* Remove the key"):
        ids_of(job({**HASHED, "deep": deep}), *embeddings)


def test_two_embeddings_of_a_column_do_not_split_it_in_two_ways(folder: Path) -> None:
    split = tn.Embedding("items", 2, separator="|")
    assert ids_of(job(), split, tn.Embedding("items", 3, table="other")) == []
    with pytest.raises(ValueError, match=r'`items` has the separator "\|", and the feature has none'):
        ids_of(job(), tn.Embedding("items", 3, table="other"), split)


def in_numpy(feature: str, reads: bool) -> Any:
    class Net(tn.Model):
        def __init__(self, params: Any) -> None:
            self.embeddings_of_test = [] if reads else [tn.Embedding(feature, 1)]
            super().__init__(self.embeddings_of_test, [tn.Variable("bias", [1])])

        def logits(self, batch: tn.Batch, values: tn.Values) -> Array:
            found = batch[feature][:, None] if reads else self.embeddings_of_test[0].forward(batch, values)
            return np.asarray(found + values["bias"], dtype=np.float32)

        def gradients(self, batch: tn.Batch, values: tn.Values, delta: Array) -> dict[str, Array]:
            return {"bias": delta.sum(0)}

    return tn.program(Net)


def in_torch(feature: str, reads: bool) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import trainyard.torch as ty
    from trainyard.torch.main import program

    class Net(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(1))
            if not reads:
                self.vectors = ty.Embedding(feature, 1)

        def forward(self, batch: ty.Batch) -> Any:
            return (batch[feature].float().unsqueeze(1) if reads else self.vectors(batch)) + self.bias

    return program(Net, None, ())


def in_jax(feature: str, reads: bool) -> Any:
    pytest.importorskip("jax", reason="jax is not installed")
    import trainyard.jax as tj

    def logits(values: Any, batch: Any) -> Any:
        return (batch[feature][:, None] if reads else batch[feature]) + values["bias"]

    embeddings = [] if reads else [tj.Embedding(feature, 1)]
    return tj.program(lambda params: tj.Model(embeddings, [tj.Variable("bias", [1])], logits))


FRAMEWORKS = [in_numpy, in_torch, in_jax]
WEIGHTED = {**HASHED, "weights": "w"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_refuses_the_raw_column_of_a_weighted_feature(framework: Callable[..., Any], folder: Path) -> None:
    with pytest.raises(trainyard.JobError, match="`items`: `items_weighted_by_w`"):
        trainyard.train(job(WEIGHTED), runner=framework("items", reads=False))
    report = trainyard.train(job(WEIGHTED), runner=framework("items_weighted_by_w", reads=False))
    assert report["global_step"] == 3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_batch_has_features_by_their_names_alone(framework: Callable[..., Any], folder: Path) -> None:
    with pytest.raises(trainyard.JobError, match="(?s)KeyError.*items"):
        trainyard.train(job(WEIGHTED), runner=framework("items", reads=True))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ids_without_their_weights_are_refused(framework: Callable[..., Any], folder: Path) -> None:
    single = {"column": "age", "kind": "identity", "buckets": 10, "weights": "age"}
    with pytest.raises(trainyard.JobError, match="`age_weighted_by_age` have weights|KeyError: 'age_weighted_by_age'"):
        trainyard.train(job(single), runner=framework("age_weighted_by_age", reads=True))
