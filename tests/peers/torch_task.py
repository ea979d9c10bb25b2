"""One task of the ctr model as a module of PyTorch on our parameter servers: the role that TF_CONFIG names. Prints `step = N`, the global step."""

import argparse
import itertools
import os

import torch
from torch import nn

import ctr
import trainyard
import trainyard.torch as ty
from trainyard import toml

STEPS_PER_LINE = 10


class WideAndDeep(ty.Module):
    """The model of the job: logits = wide(ids) + wide(numbers) + MLP(numbers, embeddings)."""

    def __init__(self, params):
        super().__init__()
        self.embeddings = nn.ModuleDict({name: ty.Embedding(name, ctr.DIMENSION) for name in ctr.CATEGORIES})
        ftrl = ty.Ftrl(ctr.LEARNING_RATE)
        wide = {name: ty.Embedding(name, 1, table=f"{name}_wide", stddev=0.0, optimizer=ftrl) for name in ctr.CATEGORIES}
        self.wide_ids = nn.ModuleDict(wide)
        self.wide_numbers = nn.Linear(len(ctr.NUMBERS), 1, bias=False)
        widths = [len(ctr.NUMBERS) + len(ctr.CATEGORIES) * ctr.DIMENSION, *params["hidden_units"]]
        layers = [[nn.Linear(inputs, outputs), nn.ReLU()] for inputs, outputs in zip(widths, widths[1:])]
        self.deep = nn.Sequential(*itertools.chain(*layers), nn.Linear(widths[-1], 1))

    def forward(self, batch):
        numbers = batch.numbers
        embedded = [embedding(batch) for embedding in self.embeddings.values()]
        wide = torch.cat([weight(batch) for weight in self.wide_ids.values()], 1).sum(1, keepdim=True)
        return self.deep(torch.cat([numbers, *embedded], 1)) + wide + self.wide_numbers(numbers)


class Lines(trainyard.Callback):
    """Prints the global step."""

    def after_step(self, step):
        if step.task_steps % STEPS_PER_LINE == 0:
            print(f"step = {step.global_step}, loss = {step.loss:.6f}", flush=True)


def job(batch_size, model_dir):
    """Returns `configs/ctr-tensorflow.toml` for a module, with an endless input."""
    numeric, hashed = ({key: value for key, value in feature.items() if key not in ("wide", "deep")} for feature in ctr.JOB["feature"])
    train = {**ctr.JOB["input"]["train"], "files": ctr.training_files(), "batch_size": batch_size}
    del train["epochs"]
    read = {key: value for key, value in ctr.JOB["input"].items() if key not in ("train", "eval")}
    return {
        "model_dir": model_dir,
        "run": {**ctr.JOB["run"], "log_step_count_steps": 1000},
        "strategy": ctr.JOB["strategy"],
        "input": {**read, "train": train},
        "feature": [numeric, hashed],
        "model": {
            "kind": "custom_classifier",
            "hidden_units": ctr.HIDDEN_UNITS,
            "optimizer": {"kind": "adagrad", "learning_rate": ctr.LEARNING_RATE},
        },
        "train": {"max_steps": 100_000_000},
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch-size", type=int, required=True)
    arguments.add_argument("--folder", required=True, help="for the job and the model")
    arguments.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="of PyTorch, in each process that trains")
    given = arguments.parse_args()
    # Each task writes the same file.
    path = os.path.join(given.folder, f"job-{os.getpid()}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(toml.dumps(job(given.batch_size, os.path.join(given.folder, "model"))))
    settings = ["--set", f"run.intra_op_parallelism_threads={given.threads}"]
    loss = nn.BCEWithLogitsLoss(reduction="none")
    raise SystemExit(ty.run(WideAndDeep, ["run", "--job", path, *settings], loss=loss, callbacks=[Lines()]))


if __name__ == "__main__":
    main()
