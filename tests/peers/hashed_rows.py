"""Rows of the ctr job as arrays, for peers without a hash of text: ids are CRC-32 of the text, modulo the buckets."""

import itertools
import zlib

import numpy as np

import ctr


def parsed_rows(reader, readers):
    """Returns numbers, ids in one table and labels of the rows that one of `readers` holds in memory."""
    with open(ctr.own_files(reader, readers)[0], "rb") as file:
        rows = [line.rstrip(b"\n").split(b"\t") for line in itertools.islice(file, ctr.CACHED_ROWS)]
    place = {name: index for index, name in enumerate(ctr.COLUMNS)}
    number_places = [place[name] for name in ctr.NUMBERS]
    begins, _ = ctr.first_row_of_tables()
    id_places = [(place[name], buckets, begin) for name, buckets, begin in zip(ctr.CATEGORIES, ctr.BUCKETS, begins)]
    numbers = np.array([[float(row[at] or 0) for at in number_places] for row in rows], np.float32)
    ids = np.array([[begin + zlib.crc32(row[at]) % buckets for at, buckets, begin in id_places] for row in rows], np.int64)
    labels = np.array([[float(row[place[ctr.LABEL]])] for row in rows], np.float32)
    return np.log1p(np.maximum(numbers, 0.0)), ids, labels
