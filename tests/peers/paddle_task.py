"""One task of the ctr model on Paddle's parameter server (paddlepaddle 2.6.2): fleet, asynchronous, all tables fused into one.

A row holds the wide weight and the embedding, so that one lookup reads both. The servers train rows by Adagrad, value by value, and
dense variables by SGD: they know SGD and Adam only. Ids are CRC-32 of the text, modulo the buckets. Prints `step = N, loss = L`.
Environment variables of `paddle.distributed.launch` say which task this is.
"""

import argparse
import itertools

import numpy as np
import paddle
from paddle.distributed import fleet

import ctr
from hashed_rows import parsed_rows

STEPS_PER_LINE = 10
# TensorFlow's default for Adagrad.
INITIAL_ACCUMULATOR = 0.1
TABLE = "rows"
# Parts of the table within the server. With Paddle's default, 1000, a step of 128 rows took more processor time.
SHARDS = 16


def model():
    """Returns the mean loss of: logits = wide(ids) + wide(numbers) + MLP(numbers, embeddings)."""
    numbers = paddle.static.data("numbers", [None, len(ctr.NUMBERS)], "float32")
    ids = paddle.static.data("ids", [None, len(ctr.CATEGORIES)], "int64")
    label = paddle.static.data("label", [None, 1], "float32")
    _, rows = ctr.first_row_of_tables()
    looked_up = paddle.static.nn.sparse_embedding(
        paddle.reshape(ids, [-1, 1]), [rows, 1 + ctr.DIMENSION], param_attr=paddle.ParamAttr(name=TABLE)
    )
    looked_up = paddle.reshape(looked_up, [-1, len(ctr.CATEGORIES), 1 + ctr.DIMENSION])
    wide = paddle.sum(looked_up[:, :, 0], axis=1, keepdim=True)
    embedded = paddle.reshape(looked_up[:, :, 1:], [-1, len(ctr.CATEGORIES) * ctr.DIMENSION])
    hidden = paddle.concat([numbers, embedded], axis=1)
    for units in ctr.HIDDEN_UNITS:
        hidden = paddle.static.nn.fc(hidden, units, activation="relu")
    zeros = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0))
    wide = wide + paddle.static.nn.fc(numbers, 1, weight_attr=zeros, bias_attr=False)
    logits = paddle.static.nn.fc(hidden, 1) + wide
    return paddle.nn.functional.binary_cross_entropy_with_logits(logits, label)


def strategy(batch_size):
    """Returns the asynchronous strategy, with Adagrad for the rows.

    Paddle multiplies the gradients of rows by the batch size, and its rule is `rate * g * sqrt(initial / (initial + sum of g * g))`.
    TensorFlow's is `rate * g / sqrt(initial + sum of g * g)`. The settings below make both the same.
    """
    chosen = fleet.DistributedStrategy()
    chosen.a_sync = True
    # The accessor `Unit` without CVM has a rule for the first value of a row (`embed`, from 0.0) and one for the others (`embedx`).
    of_rows = {
        "sparse_accessor_class": "DownpourUnitAccessor",
        "sparse_embedx_dim": ctr.DIMENSION,
        "sparse_embedx_threshold": 0,
        "sparse_shard_num": SHARDS,
    }
    for part in ("embed_", "embedx_"):
        of_rows[part + "sparse_optimizer"] = "std_adagrad"
        of_rows[part + "sparse_learning_rate"] = ctr.LEARNING_RATE / INITIAL_ACCUMULATOR**0.5 / batch_size
        of_rows[part + "sparse_initial_g2sum"] = INITIAL_ACCUMULATOR * batch_size**2
        of_rows[part + "sparse_initial_range"] = (3 / ctr.DIMENSION) ** 0.5
    chosen.fleet_desc_configs = {"use_cvm": False, TABLE: of_rows}
    return chosen


def train(loss, batch_size):
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    numbers, ids, labels = parsed_rows(fleet.worker_index(), fleet.worker_num())
    program = paddle.static.default_main_program()
    batches = len(labels) // batch_size
    for step in itertools.count(1):
        begin = (step % batches) * batch_size
        window = slice(begin, begin + batch_size)
        feed = {"numbers": numbers[window], "ids": ids[window], "label": labels[window]}
        tell = step % STEPS_PER_LINE == 0
        fetched = executor.run(program, feed=feed, fetch_list=[loss] if tell else [])
        if tell:
            print(f"step = {step}, loss = {float(np.mean(fetched[0])):.6f}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch-size", type=int, required=True)
    given = arguments.parse_args()
    paddle.enable_static()
    paddle.seed(ctr.SEED)
    fleet.init(fleet.PaddleCloudRoleMaker())
    loss = model()
    fleet.distributed_optimizer(paddle.optimizer.SGD(ctr.LEARNING_RATE), strategy(given.batch_size)).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        train(loss, given.batch_size)


if __name__ == "__main__":
    main()
