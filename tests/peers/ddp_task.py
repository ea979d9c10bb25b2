"""One process of the ctr model in PyTorch: DistributedDataParallel over gloo, all tables fused into one, sparse gradients.

Adagrad trains both parts: PyTorch has no FTRL. Ids are CRC-32 of the text, modulo the buckets. Prints `step = N, loss = L`.
"""

import argparse
import itertools
import os
import zlib

import torch
from torch import nn

import ctr

STEPS_PER_LINE = 10
# TensorFlow's default for Adagrad.
INITIAL_ACCUMULATOR = 0.1


class WideAndDeep(nn.Module):
    """The model of the job: logits = wide(ids) + wide(numbers) + MLP(numbers, embeddings)."""

    def __init__(self):
        super().__init__()
        begins, rows = ctr.first_row_of_tables()
        self.register_buffer("begins", torch.tensor(begins), persistent=False)
        self.embeddings = nn.Embedding(rows, ctr.DIMENSION, sparse=True)
        nn.init.normal_(self.embeddings.weight, std=ctr.DIMENSION**-0.5)
        self.wide_ids = nn.EmbeddingBag(rows, 1, mode="sum", sparse=True)
        nn.init.zeros_(self.wide_ids.weight)
        self.wide_numbers = nn.Linear(len(ctr.NUMBERS), 1, bias=False)
        nn.init.zeros_(self.wide_numbers.weight)
        widths = [len(ctr.NUMBERS) + len(ctr.CATEGORIES) * ctr.DIMENSION, *ctr.HIDDEN_UNITS]
        layers = [[nn.Linear(inputs, outputs), nn.ReLU()] for inputs, outputs in zip(widths, widths[1:])]
        self.deep = nn.Sequential(*itertools.chain(*layers), nn.Linear(widths[-1], 1))

    def forward(self, numbers, ids):
        ids = ids + self.begins
        embedded = self.embeddings(ids).flatten(1)
        logits = self.deep(torch.cat([numbers, embedded], 1)) + self.wide_ids(ids) + self.wide_numbers(numbers)
        return logits[:, 0]


def parsed_rows(rank, world):
    """Returns numbers, ids and labels of the rows that are held in memory."""
    with open(ctr.own_files(rank, world)[0], "rb") as file:
        rows = [line.rstrip(b"\n").split(b"\t") for line in itertools.islice(file, ctr.CACHED_ROWS)]
    place = {name: index for index, name in enumerate(ctr.COLUMNS)}
    number_places = [place[name] for name in ctr.NUMBERS]
    id_places = [(place[name], buckets) for name, buckets in zip(ctr.CATEGORIES, ctr.BUCKETS)]
    numbers = torch.tensor([[float(row[at] or 0) for at in number_places] for row in rows])
    ids = torch.tensor([[zlib.crc32(row[at]) % buckets for at, buckets in id_places] for row in rows])
    labels = torch.tensor([float(row[place[ctr.LABEL]]) for row in rows])
    return torch.log1p(numbers.clamp(min=0)), ids, labels


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch-size", type=int, required=True)
    arguments.add_argument("--rank", type=int, required=True)
    arguments.add_argument("--world", type=int, required=True)
    arguments.add_argument("--address", required=True, help="host:port of rank 0")
    given = arguments.parse_args()
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = given.address.split(":")
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // given.world))
    torch.manual_seed(ctr.SEED)
    rows = parsed_rows(given.rank, given.world)
    torch.distributed.init_process_group("gloo", rank=given.rank, world_size=given.world)
    model = nn.parallel.DistributedDataParallel(WideAndDeep())
    optimizer = torch.optim.Adagrad(model.parameters(), ctr.LEARNING_RATE, initial_accumulator_value=INITIAL_ACCUMULATOR)
    loss_of = nn.BCEWithLogitsLoss()
    batches = len(rows[2]) // given.batch_size
    for step in itertools.count(1):
        begin = (step % batches) * given.batch_size
        numbers, ids, labels = (column[begin : begin + given.batch_size] for column in rows)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(numbers, ids), labels)
        loss.backward()
        optimizer.step()
        if step % STEPS_PER_LINE == 0:
            print(f"step = {step}, loss = {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
