"""One process of the ctr model in PyTorch: DistributedDataParallel over gloo, all tables fused into one, sparse gradients.

Adagrad trains both parts: PyTorch has no FTRL. Ids are CRC-32 of the text, modulo the buckets. Prints `step = N, loss = L`.
"""

import argparse
import itertools
import os

import torch
from torch import nn

import ctr
from hashed_rows import parsed_rows

STEPS_PER_LINE = 10
# TensorFlow's default for Adagrad.
INITIAL_ACCUMULATOR = 0.1


class WideAndDeep(nn.Module):
    """The model of the job: logits = wide(ids) + wide(numbers) + MLP(numbers, embeddings)."""

    def __init__(self):
        super().__init__()
        _, rows = ctr.first_row_of_tables()
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
        embedded = self.embeddings(ids).flatten(1)
        logits = self.deep(torch.cat([numbers, embedded], 1)) + self.wide_ids(ids) + self.wide_numbers(numbers)
        return logits


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
    rows = [torch.from_numpy(column) for column in parsed_rows(given.rank, given.world)]
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
