"""One process of `dcn` or `dlrm` over the columns of the ctr job in PyTorch: one fused table under SparseAdam, the rest under Adam.

Ids are CRC-32 of the text, modulo the buckets. Prints `step = N, loss = L`.
"""

import argparse
import itertools
import os

import torch
from torch import nn

import ctr
from hashed_rows import parsed_rows

STEPS_PER_LINE = 10
LEARNING_RATE = 0.001
CROSS_LAYERS = 2
BOTTOM_UNITS = [64]


def tower(widths):
    """Returns dense layers of these widths under ReLU."""
    layers = [[nn.Linear(inputs, outputs), nn.ReLU()] for inputs, outputs in zip(widths, widths[1:])]
    return nn.Sequential(*itertools.chain(*layers))


class Dcn(nn.Module):
    """DCN-v2, stacked: cross layers `x0 * (W x + b) + x`, and a tower over the last one."""

    def __init__(self):
        super().__init__()
        width = len(ctr.NUMBERS) + len(ctr.CATEGORIES) * ctr.DIMENSION
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(CROSS_LAYERS))
        self.deep = nn.Sequential(*tower([width, *ctr.HIDDEN_UNITS]), nn.Linear(ctr.HIDDEN_UNITS[-1], 1))

    def forward(self, numbers, embedded):
        first = torch.cat([numbers, embedded.flatten(1)], 1)
        crossed = first
        for layer in self.cross:
            crossed = torch.addcmul(crossed, first, layer(crossed))
        return self.deep(crossed)


class Dlrm(nn.Module):
    """DLRM: a bottom tower over the numbers, products of all pairs of vectors, and a tower over both."""

    def __init__(self):
        super().__init__()
        self.bottom = tower([len(ctr.NUMBERS), *BOTTOM_UNITS, ctr.DIMENSION])
        vectors = len(ctr.CATEGORIES) + 1
        self.pairs = torch.tril_indices(vectors, vectors, -1)
        width = ctr.DIMENSION + self.pairs.shape[1]
        self.top = nn.Sequential(*tower([width, *ctr.HIDDEN_UNITS]), nn.Linear(ctr.HIDDEN_UNITS[-1], 1))

    def forward(self, numbers, embedded):
        bottom = self.bottom(numbers)
        vectors = torch.cat([bottom.unsqueeze(1), embedded], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, products], 1))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("kind", choices=["dcn", "dlrm"])
    arguments.add_argument("--batch-size", type=int, required=True)
    given = arguments.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    torch.manual_seed(ctr.SEED)
    numbers, ids, labels = (torch.from_numpy(column) for column in parsed_rows(0, 1))
    _, rows = ctr.first_row_of_tables()
    table = nn.Embedding(rows, ctr.DIMENSION, sparse=True)
    nn.init.normal_(table.weight, std=0.01)
    model = {"dcn": Dcn, "dlrm": Dlrm}[given.kind]()
    optimizers = [torch.optim.SparseAdam(list(table.parameters()), LEARNING_RATE), torch.optim.Adam(model.parameters(), LEARNING_RATE)]
    loss_of = nn.BCEWithLogitsLoss()
    batches = len(labels) // given.batch_size
    for step in itertools.count(1):
        begin = (step % batches) * given.batch_size
        batch = slice(begin, begin + given.batch_size)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(numbers[batch], table(ids[batch])), labels[batch])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if step % STEPS_PER_LINE == 0:
            print(f"step = {step}, loss = {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
