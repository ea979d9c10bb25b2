"""One task of a TensorFlow cluster that only moves parameters: `trainyard bench ps` beside it does the same.

`dense`: each step of a worker reads a vector, computes a gradient of its size from it, and subtracts it on the server.
`sparse`: each step gathers random rows of a table of 1,048,576 rows of 16 and subtracts as many.
Asynchronous. Each worker prints `step = N`.
"""

import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()

TABLE = [1 << 20, 16]
SECONDS_PER_LINE = 0.2
GRADIENT = 1e-6


def graph(load, size, index):
    """Returns the variable and the operation of one step."""
    server, worker = "/job:ps/task:0", f"/job:worker/task:{index}"
    with tf.device(server):
        shape = [size] if load == "dense" else TABLE
        variable = v1.get_variable("parameters", shape, tf.float32, v1.zeros_initializer(), use_resource=True)
    if load == "dense":
        with tf.device(worker):
            gradient = tf.identity(variable.read_value()) * GRADIENT + GRADIENT
        with tf.device(server):
            return variable, variable.assign_sub(gradient, read_value=False)
    with tf.device(worker):
        ids = tf.random.uniform([size], 0, TABLE[0], tf.int32)
    with tf.device(server):
        rows = tf.gather(variable, ids)
    with tf.device(worker):
        gradient = tf.identity(rows) * GRADIENT + GRADIENT
    with tf.device(server):
        return variable, tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=ids, updates=gradient)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("load", choices=["dense", "sparse"])
    arguments.add_argument("--size", type=int, required=True, help="values of the vector, or rows of a step")
    given = arguments.parse_args()
    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], config["task"]["index"]
    options = v1.ConfigProto()
    if role == "worker":
        # A worker waits for no other worker.
        options.device_filters.extend(["/job:ps", f"/job:worker/task:{index}"])
    # Otherwise the optimizer of graphs may fold the gradient into the server.
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    server = tf.distribute.Server(tf.train.ClusterSpec(config["cluster"]), role, index, config=options)
    if role == "ps":
        server.join()
        return
    variable, operation = graph(given.load, given.size, index)
    operation = getattr(operation, "op", operation)
    with v1.Session(server.target, config=options) as session:
        if index == 0:
            session.run(variable.initializer)
        initialized = v1.is_variable_initialized(variable)
        while not session.run(initialized):
            time.sleep(0.1)
        step = session.make_callable(operation)
        done, told = 0, 0.0
        while True:
            step()
            done += 1
            now = time.monotonic()
            if now - told > SECONDS_PER_LINE:
                told = now
                print(f"step = {done}", flush=True)


if __name__ == "__main__":
    main()
