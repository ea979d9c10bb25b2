"""Predicts the ctr job by TensorFlow in a loop, with the SavedModel that Trainyard exports, and prints rows a second.

    python saved_model.py --trainyard target/release/trainyard --job configs/ctr-tensorflow.toml --records data/ctr/ctr-train-00.tsv

It is the nearest thing to TensorFlow Serving that can be had without its server: no network, no parsing of requests, the examples serialized
before. The job is trained already. Run it with a Python that has TensorFlow 2.15.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time
import tomllib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

BATCHES = 64


def example(columns, record):
    """A record as a serialized tf.train.Example. A missing value is left out."""
    features = {}
    for column in columns:
        text = record[column["name"]]
        if text == "":
            continue
        if column["dtype"] == "float32":
            value = tf.train.Feature(float_list=tf.train.FloatList(value=[float(text)]))
        elif column["dtype"] == "int64":
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(text)]))
        else:
            value = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        features[column["name"]] = value
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def measure(predict, batches, threads, seconds):
    """Calls the signature from threads, and returns the calls a second and their times in seconds."""
    times = [[] for _ in range(threads)]
    end = time.monotonic() + seconds

    def work(own):
        number = 0
        while time.monotonic() < end:
            began = time.monotonic()
            predict(examples=batches[number % len(batches)])
            own.append(time.monotonic() - began)
            number += 1

    workers = [threading.Thread(target=work, args=(own,)) for own in times]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    together = sorted(value for own in times for value in own)
    return len(together) / seconds, together


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainyard", default="target/release/trainyard")
    parser.add_argument("--job", default="configs/ctr-tensorflow.toml")
    parser.add_argument("--records", required=True, help="a file of the job's records, TSV")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--threads", type=int, default=2, help="threads that call TensorFlow")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    names = tomllib.loads(pathlib.Path(arguments.job).read_text())["input"]["columns"]
    with tempfile.TemporaryDirectory() as name:
        command = [arguments.trainyard, "export", arguments.job, "--format", "saved_model", "--output", name]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        folder = pathlib.Path(told.stdout.strip())
        columns = json.loads((folder / "model.json").read_text())["saved_model"]["columns"]
        predict = tf.saved_model.load(str(folder)).signatures["predict"]
        with open(arguments.records) as file:
            records = [dict(zip(names, line.rstrip("\n").split("\t"))) for line, _ in zip(file, range(4096))]
        examples = [example(columns, record) for record in records]
        for rows in arguments.rows:
            starts = range(0, min(len(examples) - rows + 1, BATCHES * rows), rows)
            batches = [tf.constant(examples[start : start + rows]) for start in starts]
            measure(predict, batches, arguments.threads, 1)
            rates = []
            for _ in range(arguments.rounds):
                rate, times = measure(predict, batches, arguments.threads, arguments.seconds)
                rates.append(rate * rows)
                p99 = times[int(len(times) * 0.99)] * 1e3
                print(f"{rows} rows, TensorFlow: {rate * rows:.0f} rows/s, p99 {p99:.2f} ms", flush=True)
            print(f"{rows} rows: {statistics.median(rates):.0f} rows/s")


main()
