"""Compares exported SavedModels with Trainyard's own predictions.

    check.py [--as-function CASE]... [--differs CASE]... CASE...

A CASE is the folder of an export (saved_model.pb, variables and model.json) with two more files: rows.csv, the records,
and predictions.jsonl, which `trainyard predict JOB --input rows.csv` wrote. Each SavedModel is loaded by
`tf.compat.v1.saved_model.load`; those of `--as-function` by `tf.saved_model.load` too, which takes seconds for a model.
Every number must agree to 1e-5 (absolute below 1, relative above), every class exactly. Those of `--differs` must not
agree. Needs TensorFlow 2.15.
"""

import argparse
import csv
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

TOLERANCE = 1e-5
SEPARATOR = "|"
PARSE = {"float32": float, "int64": int, "string": lambda text: text.encode()}


def values(column, record):
    """The values of a column of a record, without missing ones."""
    text = record[column["name"]].strip(" \t")
    if text == "":
        return []
    parts = text.split(SEPARATOR) if column["width"] != 1 else [text]
    return [PARSE[column["dtype"]](part) for part in parts]


def example(columns, record):
    """A record as a serialized tf.train.Example."""
    features = {}
    for column in columns:
        own = values(column, record)
        if column["dtype"] == "float32":
            features[column["name"]] = tf.train.Feature(float_list=tf.train.FloatList(value=own))
        elif column["dtype"] == "int64":
            features[column["name"]] = tf.train.Feature(int64_list=tf.train.Int64List(value=own))
        else:
            features[column["name"]] = tf.train.Feature(bytes_list=tf.train.BytesList(value=own))
        if not own:
            del features[column["name"]]
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def tensor(column, records):
    """A column of all records as an array, in which missing values are padded."""
    rows = [values(column, record) for record in records]
    missing = {"nan": float("nan"), "": b""}.get(column["missing"], column["missing"])
    width = column["width"] or max([1] + [len(row) for row in rows])
    # A weight beside nothing is any number.
    missing = 0.0 if missing is None else missing
    full = [row + [missing] * (width - len(row)) for row in rows]
    if column["width"] == 1:
        full = [row[0] for row in full]
    return numpy.array(full, dtype=object if column["dtype"] == "string" else column["dtype"])


def compare(name, outputs, predictions):
    """The largest difference of the outputs; classes that differ end the program."""
    if set(outputs) != set(predictions[0]):
        sys.exit(f"{name}: the outputs are {sorted(outputs)}, predictions are {sorted(predictions[0])}")
    largest = 0.0
    for key, found in outputs.items():
        found = numpy.asarray(found)
        wanted = [prediction[key] for prediction in predictions]
        if found.dtype == numpy.float32:
            wanted = numpy.array(wanted, dtype=numpy.float64)
            differences = numpy.abs(found - wanted) / numpy.maximum(1.0, numpy.abs(wanted))
            largest = max(largest, float(numpy.max(differences)))
            if not numpy.all(differences <= TOLERANCE):
                row = int(numpy.argmax(differences.max(axis=1)))
                print(f"{name}: {key} of row {row} is {found[row]}, not {wanted[row]}")
                largest = max(largest, float("inf") if numpy.isnan(differences).any() else 0.0)
            continue
        found = [[v.decode() if isinstance(v, bytes) else v for v in row] for row in found.tolist()]
        for number, (value, other) in enumerate(zip(found, wanted)):
            if value != other:
                sys.exit(f"{name}: {key} of row {number} is {value}, not {other}")
    return largest


def check(folder, as_function):
    """Compares one export in a session, and as a function if told to. Returns its largest difference."""
    described = json.loads((folder / "model.json").read_text())["saved_model"]
    with open(folder / "rows.csv", newline="") as file:
        records = list(csv.DictReader(file, skipinitialspace=True))
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    predictions = [json.loads(line) for line in lines]
    if len(records) != len(predictions):
        sys.exit(f"{folder.name}: {len(records)} records, {len(predictions)} predictions")
    columns = described["columns"]
    examples = [example(columns, record) for record in records]
    # A batch of any size gives the same: all records at once, and the first by itself.
    counts = (len(records), 1)
    given = {count: {column["name"]: tensor(column, records[:count]) for column in columns} for count in counts}
    largest = 0.0
    # What rewrites graphs takes longer than they do: those that are loaded as functions keep it.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        if not set(described["signatures"]) <= set(graph.signature_def):
            sys.exit(f"{folder.name}: signatures are {sorted(graph.signature_def)}")

        def answers(name, inputs):
            signature = graph.signature_def[name]
            fed = {signature.inputs[key].name: value for key, value in inputs.items()}
            return session.run({key: output.name for key, output in signature.outputs.items()}, fed)

        for count in counts:
            found = answers("predict", {"examples": examples[:count]})
            largest = max(largest, compare(folder.name, found, predictions[:count]))
            if columns:
                found = answers("columns", given[count])
                largest = max(largest, compare(f"{folder.name}, columns", found, predictions[:count]))
        for name, key in (("classification", "probabilities"), ("regression", "logistic"), ("regression", "predictions")):
            if name not in graph.signature_def or key not in predictions[0]:
                continue
            found = answers(name, {"inputs": examples})["scores" if name == "classification" else "outputs"]
            wanted = [{key: prediction[key]} for prediction in predictions]
            largest = max(largest, compare(f"{folder.name}, {name}", {key: found}, wanted))
    if as_function:
        signatures = tf.saved_model.load(str(folder)).signatures
        if set(signatures) != set(described["signatures"]):
            sys.exit(f"{folder.name}: signatures are {sorted(signatures)}")
        for count in counts:
            found = signatures["predict"](examples=tf.constant(examples[:count]))
            largest = max(largest, compare(f"{folder.name}, loaded", found, predictions[:count]))
            if columns:
                found = signatures["columns"](**{name: tf.constant(value) for name, value in given[count].items()})
                largest = max(largest, compare(f"{folder.name}, columns, loaded", found, predictions[:count]))
    print(f"{folder.name:45} {len(records)} rows  largest difference {largest:.2e}", flush=True)
    return largest


def agrees(folder):
    """Whether a case agrees with its predictions."""
    try:
        return check(folder, False) <= TOLERANCE
    except SystemExit as problem:
        print(problem)
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--as-function", type=Path, action="append", default=[])
    parser.add_argument("--differs", type=Path, action="append", default=[])
    parser.add_argument("cases", type=Path, nargs="*")
    given = parser.parse_intermixed_args()
    as_functions = set(given.as_function)
    cases = [*given.cases, *given.as_function]
    largest = max(check(folder, folder in as_functions) for folder in cases)
    print(f"largest difference of {len(cases)} models: {largest:.2e}, allowed {TOLERANCE:.0e}")
    wrong = [folder.name for folder in given.differs if agrees(folder)]
    if wrong:
        sys.exit(f"the comparison finds no difference where there is one: {wrong}")
    # Also false where a number is not one.
    sys.exit(0 if largest <= TOLERANCE else 1)


if __name__ == "__main__":
    main()
