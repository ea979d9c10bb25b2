"""Feature columns (`tf.feature_column`), and the `[[feature]]`s that they become."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from trainyard.estimator.normalizer import normalizer_keys
from trainyard.initializers import initial_values


@dataclass(frozen=True)
class Column:
    """A column that a job reads: numbers or ids."""

    name: str
    keys: tuple[tuple[str, Any], ...]
    """Keys of the feature."""
    parts: tuple[Column, ...] = ()
    """Columns that a cross uses."""
    is_numeric: bool = False


@dataclass(frozen=True)
class DeepColumn:
    """A column in the form in which dense layers read it."""

    column: Column
    deep: tuple[tuple[str, Any], ...]
    """The table `deep` of the feature."""


AnyColumn = Union[Column, DeepColumn]


def numeric_column(
    key: str,
    shape: int | Sequence[int] = (1,),
    default_value: float | None = None,
    dtype: Any = None,
    normalizer_fn: Callable[[float], float] | None = None,
) -> Column:
    """Returns a column of numbers. `normalizer_fn` must be `a * x + b`, with numbers a and b."""
    keys = {"column": key, "kind": "numeric", "default": default_value, **_shape(shape)}
    keys.update(normalizer_keys(key, normalizer_fn))
    return Column(key, _keys(keys), is_numeric=True)


def bucketized_column(source_column: Column, boundaries: Sequence[float]) -> Column:
    """Returns the ranges of a numeric column as ids."""
    if not source_column.is_numeric:
        raise ValueError(f"source_column must be a numeric column, given `{source_column.name}`")
    if not boundaries or list(boundaries) != sorted(set(boundaries)):
        raise ValueError(f"boundaries must be ascending numbers, given {list(boundaries)}")
    keys = {**dict(source_column.keys), "kind": "bucketized", "boundaries": [float(each) for each in boundaries]}
    return Column(f"{source_column.name}_bucketized", _keys(keys))


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = str) -> Column:
    """Returns a column of values whose hashes are their ids."""
    if hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1, given {hash_bucket_size} for `{key}`")
    integers = _is_integer(dtype)
    return Column(key, _keys({"column": key, "kind": "hashed", "buckets": hash_bucket_size, "integers": integers}))


def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Sequence[Any], dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> Column:
    """Returns a column of listed values, whose places are their ids."""
    if num_oov_buckets and default_value != -1:
        raise ValueError(f"num_oov_buckets and default_value exclude each other, given both for `{key}`")
    keys = {
        "column": key,
        "kind": "vocabulary",
        "values": list(vocabulary_list),
        "oov_buckets": num_oov_buckets or None,
        "default": None if default_value == -1 else default_value,
    }
    return Column(key, _keys(keys))


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    dtype: Any = str,
    default_value: int | None = None,
    num_oov_buckets: int = 0,
) -> Column:
    """Returns a column of the values in the lines of a file."""
    keys = {
        "column": key,
        "kind": "vocabulary",
        "file": vocabulary_file,
        "size": vocabulary_size,
        "oov_buckets": num_oov_buckets or None,
        "default": None if default_value in (None, -1) else default_value,
        "integers": _is_integer(dtype),
    }
    return Column(key, _keys(keys))


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> Column:
    """Returns a column of values that are ids."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, given {num_buckets} for `{key}`")
    keys = {"column": key, "kind": "identity", "buckets": num_buckets, "default": default_value}
    return Column(key, _keys(keys))


def crossed_column(keys: Sequence[str | Column], hash_bucket_size: int, hash_key: int | None = None) -> Column:
    """Returns the combinations of columns, by their hashes."""
    if len(keys) < 2:
        raise ValueError(f"keys must be a list with at least 2 columns, given {list(keys)}")
    for key in keys:
        if isinstance(key, Column) and dict(key.keys)["kind"] == "hashed":
            raise ValueError(f"a hashed column cannot be crossed: give the name {key.name!r} instead")
    names = [key if isinstance(key, str) else _cross_key(key) for key in keys]
    plain = [key if isinstance(key, str) else key.name for key in keys]
    made = {"columns": names, "kind": "crossed", "buckets": hash_bucket_size, "hash_key": hash_key}
    parts = tuple(key for key in keys if isinstance(key, Column))
    return Column("_X_".join(sorted(plain)), _keys(made), parts)


def weighted_categorical_column(categorical_column: Column, weight_feature_key: str, dtype: Any = None) -> Column:
    """Returns a column whose ids have the weights of another column."""
    keys = {**dict(categorical_column.keys), "weights": weight_feature_key}
    name = f"{categorical_column.name}_weighted_by_{weight_feature_key}"
    return Column(name, _keys(keys), categorical_column.parts)


def indicator_column(categorical_column: Column) -> DeepColumn:
    """Returns a number per id, which counts it."""
    return DeepColumn(categorical_column, (("indicator", True),))


def embedding_column(
    categorical_column: Column,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: Any = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> DeepColumn:
    """Returns a learned vector per id.

    `initializer` is one of TensorFlow, or a mapping as a job has it, `{"kind": "normal", "stddev": 0.01}`. By default, vectors
    start from a truncated normal distribution of deviation 1/sqrt(dimension), as in TensorFlow.
    """
    _refuse_checkpoint(ckpt_to_load_from, tensor_name_in_ckpt)
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, given {dimension}")
    deep = {
        "embedding": dimension,
        "combiner": combiner,
        "max_norm": max_norm,
        "trainable": trainable,
        "initializer": None if initializer is None else initial_values(initializer),
    }
    return DeepColumn(categorical_column, _keys(deep))


def shared_embeddings(
    categorical_columns: Sequence[Column],
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: Any = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> list[DeepColumn]:
    """Returns vectors of one table for the ids of several columns. `initializer` is that of `embedding_column`."""
    _refuse_checkpoint(ckpt_to_load_from, tensor_name_in_ckpt)
    names = sorted(column.name for column in categorical_columns)
    table = shared_embedding_collection_name or "_".join(names) + "_shared_embedding"
    deep = {
        "embedding": dimension,
        "combiner": combiner,
        "max_norm": max_norm,
        "trainable": trainable,
        "table": table,
        "initializer": None if initializer is None else initial_values(initializer),
    }
    return [DeepColumn(column, _keys(deep)) for column in categorical_columns]


def features(wide: Sequence[AnyColumn], deep: Sequence[AnyColumn]) -> list[dict[str, Any]]:
    """Returns the features of a job whose linear part reads `wide`, and whose dense layers read `deep`.

    Raises ValueError if a part cannot read a column.
    """
    found: dict[str, dict[str, Any]] = {}

    def feature(column: Column) -> dict[str, Any]:
        for part in column.parts:
            feature(part)
        keys = {"name": column.name, **{key: _plain(value) for key, value in column.keys}}
        known = found.setdefault(column.name, {**keys, "wide": False, "deep": False})
        if {**known, "wide": False, "deep": False} != {**keys, "wide": False, "deep": False}:
            raise ValueError(f"two columns have the name `{column.name}` and differ: name one of their keys otherwise")
        return known

    for each in wide:
        if isinstance(each, DeepColumn):
            raise ValueError(
                f"the linear part takes `{each.column.name}` itself, without indicator_column or embedding_column"
            )
        feature(each)["wide"] = True
    for each in deep:
        column = each.column if isinstance(each, DeepColumn) else each
        kind = dict(column.keys)["kind"]
        if isinstance(each, Column) and kind not in ("numeric", "bucketized"):
            raise ValueError(f"dense layers need indicator_column or embedding_column around `{column.name}`")
        known = feature(column)
        form: Any = dict(each.deep) if isinstance(each, DeepColumn) else True
        if known["deep"] not in (False, form):
            raise ValueError(f"dense layers read `{column.name}` in two forms: a job has one form for each feature")
        known["deep"] = form
    return list(found.values())


def plain_features(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Returns columns as the features of a custom model, without the form in which it reads them."""
    found: dict[str, dict[str, Any]] = {}
    for column in columns:
        for each in (*column.parts, column):
            found[each.name] = {"name": each.name, **{key: _plain(value) for key, value in each.keys}}
    return list(found.values())


def width(column: Column) -> int:
    """Returns the numbers in a numeric column."""
    return math.prod(dict(column.keys).get("shape", (1,)))


def buckets(column: Column) -> int:
    """Returns the number of ids of a column.

    Raises ValueError if the column does not say it.
    """
    keys = dict(column.keys)
    if keys["kind"] == "bucketized":
        return len(keys["boundaries"]) + 1
    if keys["kind"] == "vocabulary":
        known = len(keys["values"]) if "values" in keys else keys.get("size")
        if known is None:
            raise ValueError(f"the column `{column.name}` must say vocabulary_size")
        return int(known) + int(keys.get("oov_buckets", 0))
    return int(keys["buckets"])


def _refuse_checkpoint(ckpt_to_load_from: Any, tensor_name_in_ckpt: Any) -> None:
    if ckpt_to_load_from is not None or tensor_name_in_ckpt is not None:
        raise ValueError("ckpt_to_load_from must be None: give warm_start_from to the estimator instead")


def _cross_key(column: Column) -> str:
    kind = dict(column.keys)["kind"]
    return column.name if kind == "bucketized" else f"ids({column.name})"


def _keys(keys: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in keys.items()}
    return tuple((key, value) for key, value in frozen.items() if value is not None)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shape(shape: int | Sequence[int]) -> dict[str, Any]:
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(size < 1 for size in sizes):
        raise ValueError(f"shape must have sizes above 0, given {shape}")
    return {} if sizes == [1] else {"shape": sizes}


def _is_integer(dtype: Any) -> bool | None:
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    return True if "int" in str(name) else None
