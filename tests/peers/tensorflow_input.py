"""Batches of the ctr job by tf.data: parsed once, then from memory."""

import tensorflow as tf

import ctr


def batches(batch_size, index=0, count=1):
    """Returns an endless dataset of (columns, label). Each column has the shape [batch_size, 1]."""
    defaults = [[0.0] if name in (ctr.LABEL, *ctr.NUMBERS) else [""] for name in ctr.COLUMNS]

    def parse(lines):
        cells = tf.io.decode_csv(lines, defaults, field_delim="\t")
        columns = {name: cell[:, None] for name, cell in zip(ctr.COLUMNS, cells)}
        return columns, columns.pop(ctr.LABEL)

    rows = tf.data.TextLineDataset(ctr.own_files(index, count)).take(ctr.CACHED_ROWS)
    parsed = rows.batch(batch_size, drop_remainder=True).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.cache().repeat().prefetch(tf.data.AUTOTUNE)


def log1p(value):
    """`normalizer = "log1p"`: log(1 + max(x, 0))."""
    return tf.math.log1p(tf.maximum(value, 0.0))
