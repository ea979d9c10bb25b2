"""One task of the ctr model in a training loop of one's own (TensorFlow 2.15), with all tables fused into one.

`--strategy ps` is ParameterServerStrategy with a ClusterCoordinator, `mirrored` is MultiWorkerMirroredStrategy; TF_CONFIG says
which task this is. `none` is one process. Prints `step = N, loss = L`.
"""

import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

import ctr
from tensorflow_input import batches, log1p

# Steps between two lines. A coordinator waits for the workers at each line.
STEPS_PER_LINE = {"ps": 50, "mirrored": 10, "none": 50}


class WideAndDeep(tf.Module):
    """The model of the job: logits = wide(ids) + wide(numbers) + MLP(numbers, embeddings)."""

    def __init__(self):
        super().__init__()
        begins, rows = ctr.first_row_of_tables()
        self.begins = tf.constant(begins, tf.int64)
        self.embeddings = tf.Variable(tf.random.stateless_normal([rows, ctr.DIMENSION], [ctr.SEED, 0], stddev=ctr.DIMENSION**-0.5))
        self.wide_ids = tf.Variable(tf.zeros([rows, 1]))
        self.wide_numbers = tf.Variable(tf.zeros([len(ctr.NUMBERS), 1]))
        widths = [len(ctr.NUMBERS) + len(ctr.CATEGORIES) * ctr.DIMENSION, *ctr.HIDDEN_UNITS, 1]
        self.layers = []
        for layer, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            # Glorot's uniform initializer.
            limit = (6.0 / (inputs + outputs)) ** 0.5
            kernel = tf.random.stateless_uniform([inputs, outputs], [ctr.SEED, layer + 1], -limit, limit)
            self.layers.append((tf.Variable(kernel), tf.Variable(tf.zeros([outputs]))))

    def deep(self):
        return [self.embeddings] + [part for layer in self.layers for part in layer]

    def wide(self):
        return [self.wide_ids, self.wide_numbers]

    def __call__(self, numbers, ids):
        ids = ids + self.begins
        embedded = tf.reshape(tf.nn.embedding_lookup(self.embeddings, ids), [-1, len(ctr.CATEGORIES) * ctr.DIMENSION])
        hidden = tf.concat([numbers, embedded], 1)
        for kernel, bias in self.layers[:-1]:
            hidden = tf.nn.relu(hidden @ kernel + bias)
        kernel, bias = self.layers[-1]
        wide = tf.reduce_sum(tf.nn.embedding_lookup(self.wide_ids, ids), 1) + numbers @ self.wide_numbers
        return hidden @ kernel + bias + wide


def prepared(columns, label):
    numbers = tf.concat([log1p(columns[name]) for name in ctr.NUMBERS], 1)
    hashed = [
        tf.strings.to_hash_bucket_fast(columns[name], buckets)
        for name, buckets in zip(ctr.CATEGORIES, ctr.BUCKETS)
    ]
    return numbers, tf.concat(hashed, 1), label


def training_step(strategy):
    """Returns the step over an iterator, compiled. Its result is the mean loss of the replicas."""
    with strategy.scope():
        model = WideAndDeep()
        deep_optimizer = tf.keras.optimizers.legacy.Adagrad(ctr.LEARNING_RATE)
        wide_optimizer = tf.keras.optimizers.legacy.Ftrl(ctr.LEARNING_RATE)
    replicas = strategy.num_replicas_in_sync

    def replica_step(batch):
        numbers, ids, label = batch
        with tf.GradientTape() as tape:
            logits = model(numbers, ids)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label, logits)) / replicas
        deep, wide = model.deep(), model.wide()
        gradients = tape.gradient(loss, deep + wide)
        deep_optimizer.apply_gradients(zip(gradients[: len(deep)], deep))
        wide_optimizer.apply_gradients(zip(gradients[len(deep) :], wide))
        return loss

    @tf.function
    def step(iterator):
        return strategy.reduce("SUM", strategy.run(replica_step, args=(next(iterator),)), axis=None)

    return step


def line(step, loss):
    print(f"step = {step}, loss = {loss:.6f}", flush=True)


def coordinate(resolver, batch_size, lines_every):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    step = training_step(strategy)

    def dataset():
        return batches(batch_size).map(prepared, num_parallel_calls=tf.data.AUTOTUNE)

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    done = 0
    while True:
        for _ in range(lines_every):
            loss = coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        done += lines_every
        line(done, float(loss.fetch()))


def train(strategy, batch_size, lines_every, index, count):
    step = training_step(strategy)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = batches(batch_size, index, count).map(prepared, num_parallel_calls=tf.data.AUTOTUNE).with_options(options)
    if count > 1:
        iterator = iter(strategy.distribute_datasets_from_function(lambda _: dataset))
    else:
        iterator = iter(dataset)
    done = 0
    while True:
        for _ in range(lines_every):
            loss = step(iterator)
        done += lines_every
        line(done, float(loss))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--strategy", choices=list(STEPS_PER_LINE), required=True)
    arguments.add_argument("--batch-size", type=int, required=True)
    given = arguments.parse_args()
    lines_every = STEPS_PER_LINE[given.strategy]
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {})
    if given.strategy == "ps":
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if task["type"] == "chief":
            coordinate(resolver, given.batch_size, lines_every)
        else:
            server = tf.distribute.Server(
                resolver.cluster_spec(), job_name=task["type"], task_index=task["index"], protocol="grpc", start=True
            )
            server.join()
    elif given.strategy == "mirrored":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        workers = len(config["cluster"]["worker"])
        train(strategy, given.batch_size, lines_every, task["index"], workers)
    else:
        train(tf.distribute.get_strategy(), given.batch_size, lines_every, 0, 1)


if __name__ == "__main__":
    main()
