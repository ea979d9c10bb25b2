"""One task of the ctr job by tf.estimator (TensorFlow 2.15). TF_CONFIG says which; without it, all of the job.

The chief logs `loss = L, step = N`, which `compare.py` reads.
"""

import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

import ctr
from tensorflow_input import batches, log1p

NEVER_SECS = 100_000
STEPS_PER_LINE = 20


def estimator(model_dir):
    column = tf.feature_column
    numbers = [column.numeric_column(name, normalizer_fn=log1p) for name in ctr.NUMBERS]
    hashed = [
        column.categorical_column_with_hash_bucket(name, buckets)
        for name, buckets in zip(ctr.CATEGORIES, ctr.BUCKETS)
    ]
    config = tf.estimator.RunConfig(
        model_dir=model_dir,
        tf_random_seed=ctr.SEED,
        log_step_count_steps=STEPS_PER_LINE,
        save_checkpoints_secs=NEVER_SECS,
        save_summary_steps=None,
    )
    return tf.estimator.DNNLinearCombinedClassifier(
        config=config,
        linear_feature_columns=numbers + hashed,
        dnn_feature_columns=numbers + [column.embedding_column(it, ctr.DIMENSION) for it in hashed],
        dnn_hidden_units=ctr.HIDDEN_UNITS,
        linear_optimizer=tf.keras.optimizers.legacy.Ftrl(ctr.LEARNING_RATE),
        dnn_optimizer=tf.keras.optimizers.legacy.Adagrad(ctr.LEARNING_RATE),
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch-size", type=int, required=True)
    arguments.add_argument("--model-dir", required=True)
    given = arguments.parse_args()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    trained = estimator(given.model_dir)
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "chief", "index": 0})
    trainers = 1 + len(config.get("cluster", {}).get("worker", []))
    index = task["index"] + 1 if task["type"] == "worker" else 0

    def input_fn():
        return batches(given.batch_size, index, trainers)

    if config:
        training = tf.estimator.TrainSpec(input_fn, max_steps=10**9)
        evaluation = tf.estimator.EvalSpec(input_fn, steps=1, start_delay_secs=NEVER_SECS, throttle_secs=NEVER_SECS)
        tf.estimator.train_and_evaluate(trained, training, evaluation)
    else:
        trained.train(input_fn)


if __name__ == "__main__":
    main()
