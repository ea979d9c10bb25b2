"""Compares an exported ONNX graph with Trainyard's own predictions.

    check.py CASE...

A CASE is the folder of an export (model.onnx and model.json) with three more files: rows.csv, the records;
predictions.jsonl, which `trainyard predict JOB --input rows.csv` wrote; transform.jsonl, which `trainyard transform JOB
--input rows.csv` wrote. Inputs are read from rows.csv as the signature in model.json says, ids from transform.jsonl.
Every number must agree to 1e-5 (absolute below 1, relative above), every class exactly. Needs numpy and onnxruntime.
"""

import csv
import json
import math
import sys
from pathlib import Path

import numpy
import onnxruntime

TOLERANCE = 1e-5
# What the jobs call missing.
MISSING = ("none", -999)
NUMBERS = {"float32": numpy.float32, "int64": numpy.int64}


def cells(text, signature):
    """The values of one field of a CSV file."""
    text = text.strip(" \t")
    width = signature["shape"][1]
    if text == "":
        return [float("nan")] * width if signature.get("missing") == "nan" else []
    parts = text.split(signature["separator"]) if "separator" in signature else [text]
    parse = {"float32": float, "int64": int, "string": str}[signature["dtype"]]
    return [parse(part) for part in parts]


def matrix(rows, signature):
    """Rows of any length as a matrix, filled up with what stands for a missing value."""
    columns = signature["shape"][1]
    width = columns if isinstance(columns, int) else max([1] + [len(row) for row in rows])
    fill = {"nan": float("nan")}.get(signature.get("missing"), signature.get("missing"))
    full = [row + [fill] * (width - len(row)) for row in rows]
    return numpy.array(full, dtype=NUMBERS.get(signature["dtype"], object))


def same(one, other):
    """Whether a value of the CSV file is what the transformation read: a missing number is its default there."""
    if isinstance(one, float):
        return math.isnan(one) or numpy.float32(one) == numpy.float32(other)
    return one == other


def feeds(signature, records, transformed, name):
    """The inputs of the graph, and how many there are to check against the transformation."""
    out = {}
    for port in signature["inputs"]:
        if "column" in port:
            rows = [cells(record[port["column"]], port) for record in records]
            for number, (row, other) in enumerate(zip(rows, transformed)):
                other = other[port["name"]]
                row = [value for value in row if value not in MISSING]
                if row and not (len(row) == len(other) and all(map(same, row, other))):
                    sys.exit(f"{name}: row {number} of {port['name']} is {row}, transformed {other}")
            out[port["name"]] = matrix(rows, port)
        elif "feature" in port:
            out[port["name"]] = matrix([row[port["name"]] for row in transformed], port)
        else:
            out[port["name"]] = numpy.array([len(records)], dtype=numpy.int64)
    return out


def difference(name, port, values, predictions):
    """The largest difference of one output; classes that differ end the program."""
    wanted = [prediction[port["name"]] for prediction in predictions]
    if values.shape != (len(wanted), len(wanted[0])):
        sys.exit(f"{name}: {port['name']} has shape {values.shape}, not {(len(wanted), len(wanted[0]))}")
    if port["dtype"] != "float32":
        for number, (value, other) in enumerate(zip(values.tolist(), wanted)):
            if value != other:
                sys.exit(f"{name}: {port['name']} of row {number} is {value}, not {other}")
        return 0.0
    if values.dtype != numpy.float32:
        sys.exit(f"{name}: {port['name']} is {values.dtype}, not float32")
    wanted = numpy.array(wanted, dtype=numpy.float64)
    return float(numpy.max(numpy.abs(values - wanted) / numpy.maximum(1.0, numpy.abs(wanted))))


def check(folder):
    """Compares one export, and returns its largest difference."""
    name = folder.name
    signature = json.loads((folder / "model.json").read_text())["onnx"]
    with open(folder / "rows.csv", newline="") as file:
        records = list(csv.DictReader(file))
    lines = [(folder / file).read_text().splitlines() for file in ("predictions.jsonl", "transform.jsonl")]
    predictions, transformed = ([json.loads(line) for line in part] for part in lines)
    if not len(records) == len(predictions) == len(transformed):
        sys.exit(f"{name}: {len(records)} records, {len(predictions)} predictions, {len(transformed)} transformed")
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [port["name"] for port in signature["outputs"]]
    if names != [port.name for port in session.get_outputs()] or set(names) != set(predictions[0]):
        sys.exit(f"{name}: the outputs are {names}, predictions are {sorted(predictions[0])}")
    largest = {}
    # A batch of any size gives the same: all records at once, and the first by itself.
    for count in (len(records), 1):
        given = feeds(signature, records[:count], transformed[:count], name)
        for port, values in zip(signature["outputs"], session.run(names, given)):
            found = difference(name, port, values, predictions[:count])
            largest[port["name"]] = max(largest.get(port["name"], 0.0), found)
    shown = " ".join(f"{key}={value:.1e}" for key, value in largest.items() if value > 0)
    print(f"{name:45} {len(records)} rows  largest difference {max(largest.values()):.2e}  {shown}")
    return max(largest.values())


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    onnxruntime.set_default_logger_severity(3)
    largest = max(check(Path(folder)) for folder in sys.argv[1:])
    print(f"largest difference of {len(sys.argv) - 1} models: {largest:.2e}, allowed {TOLERANCE:.0e}")
    # Also false where a number is not one.
    sys.exit(0 if largest <= TOLERANCE else 1)


if __name__ == "__main__":
    main()
