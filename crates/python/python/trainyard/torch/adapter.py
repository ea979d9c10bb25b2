"""Modules of PyTorch as models: puts a batch and values into a module, and takes gradients out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from trainyard import adapter
from trainyard.adapter import Array, Ids, Input, Lookup, Parameter, Predictions, Shown
from trainyard.metrics import Sums
from trainyard.torch.batch import Batch
from trainyard.torch.embedding import Embedding
from trainyard.torch.memory import keep_blocks
from trainyard.torch.module import Module, device_of
from trainyard.torch.parameters import Parameters
from trainyard.torch.tables import LoadedTables, Tables, row_ids

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

MULTI_CLASS = "multi_class"
BUILD_ROWS = 2
"""Rows of the batch of zeros that gives lazy layers their shapes."""


class Adapter(adapter.Adapter):
    """A module in a process of a job."""

    def __init__(self, build: Callable[[Mapping[str, Any]], Module], loss: Loss | None, job: str) -> None:
        """Builds the module of a job, which is JSON."""
        settings = json.loads(job)
        threads = settings["run"]["intra_op_parallelism_threads"]
        if threads:
            torch.set_num_threads(threads)
        keep_blocks()
        self._module = build(adapter.params_of(settings["model"]))
        if not isinstance(self._module, Module):
            raise TypeError(
                f"a model must be a trainyard.torch.Module, given a {type(self._module).__name__}: derive the class "
                "from it"
            )
        self._loss = loss
        self._sums = settings["model"]["loss_reduction"] == "sum"
        self._head = settings["model"]["head"]
        self._device = device_of(self._module)
        self._tables = Tables(self._embeddings(), self._device)
        self._loaded: LoadedTables | None = None
        self._columns: dict[str, tuple[int, int]] = {}
        self._ids: list[str] = []
        self._units = 1
        self._parameters: Parameters | None = None
        self._logits: torch.Tensor | None = None

    @property
    def has_loss(self) -> bool:
        """Whether the module's own loss is trained, instead of the head's."""
        return self._loss is not None

    def tables(self) -> list[Lookup]:
        """Returns the embeddings, whose tables are the first variables."""
        return [each.described for each in self._embeddings()]

    def parameters(self, shown: Shown, units: int) -> list[Parameter]:
        """Learns the columns and the width of the logits, and returns the parameters, the further variables.

        A batch of zeros passes through the module, which gives lazy layers their shapes.
        """
        numbers_of, self._ids = shown
        self._columns = dict(sorted(numbers_of.items(), key=lambda column: column[1]))
        self._units = units
        width = sum(width for _, width in self._columns.values())
        numbers = np.zeros(BUILD_ROWS * width, dtype=np.float32)
        values, lookups = self._tables.matrices.zeros(BUILD_ROWS)
        ids: list[Ids] = [(np.zeros(BUILD_ROWS, dtype=np.int64), None, None) for _ in self._ids]
        batch = self._batch((BUILD_ROWS, numbers, lookups, ids), values)
        self._module.eval()
        with torch.no_grad():
            self._build(batch)
        self._parameters = Parameters(self._module)
        return self._parameters.described

    def forward(self, features: Input, values: Sequence[Array]) -> Array:
        """Returns the logits, and keeps what `backward` needs."""
        self._logits = self._trained(features, values)
        return _array(self._logits)

    def backward(self, delta: Array) -> list[Array]:
        """Returns the gradient of each matrix and parameter, given that of the logits."""
        logits, self._logits = self._logits, None
        if logits is None:
            raise RuntimeError("backward follows forward")
        logits.backward(self._tensor(delta).view(logits.shape))
        return self._gradients()

    def train(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None
    ) -> tuple[float, list[Array]]:
        """Returns the module's own loss, and the gradient of each matrix and parameter."""
        if self._loss is None:
            raise RuntimeError("the module has no loss of its own")
        logits = self._trained(features, values)
        wanted = self._labels(labels)
        losses = self._loss(logits, wanted if self._head == MULTI_CLASS else wanted.view(logits.shape))
        return self._descended(self._reduced(losses, features[0], weights))

    def evaluate(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None, sums: Sums
    ) -> tuple[Array | None, dict[str, float]]:
        """Returns the logits, and the module's own metrics of the batches so far."""
        with torch.no_grad():
            logits = self._inferred(features, values)
            scores = sums.add(self._module.metrics(logits, self._labels(labels)))
        return _array(logits), scores

    def predict(self, features: Input, values: Sequence[Array]) -> Predictions:
        """Returns the logits, without what training alone does."""
        with torch.no_grad():
            return _array(self._inferred(features, values))

    def _embeddings(self) -> list[Embedding]:
        return [each for each in self._module.modules() if isinstance(each, Embedding)]

    def _build(self, batch: Batch) -> None:
        """Calls the module with a batch of zeros."""
        self._checked(self._module(batch), batch.rows)

    def _trained(self, features: Input, values: Sequence[Array]) -> torch.Tensor:
        self._set_training(True)
        return self._checked(self._module(self._loaded_batch(features, values)), features[0])

    def _inferred(self, features: Input, values: Sequence[Array]) -> torch.Tensor:
        self._set_training(False)
        return self._checked(self._module(self._loaded_batch(features, values)), features[0])

    def _set_training(self, is_training: bool) -> None:
        """Sets the mode of the module, unless it has it: a visit of each submodule costs more than a small one computes."""
        if self._module.training != is_training:
            self._module.train(is_training)

    def _labels(self, labels: Array) -> torch.Tensor:
        """Returns labels as a tensor: whole numbers if they are one of several classes."""
        wanted = self._tensor(labels)
        return wanted.long() if self._head == MULTI_CLASS else wanted

    def _descended(self, loss: torch.Tensor) -> tuple[float, list[Array]]:
        """Returns a loss, and its gradients."""
        loss.backward()
        return float(loss.detach()), self._gradients()

    def _reduced(self, losses: torch.Tensor, rows: int, weights: Array | None) -> torch.Tensor:
        """Returns the loss of the batch: the weighted sum over the rows, divided by their number unless the job says
        otherwise."""
        if losses.dim() == 0:
            if weights is not None:
                raise ValueError("the loss must give a value for each row, because the job has weights: reduction=\"none\"")
            return losses
        if losses.shape[0] != rows:
            raise ValueError(f"the loss must give a value for each of {rows} rows, given the shape {list(losses.shape)}")
        if weights is not None:
            losses = losses * self._tensor(weights).view(rows, *[1] * (losses.dim() - 1))
        return losses.sum() if self._sums else losses.sum() / losses.numel()

    def _checked(self, logits: Any, rows: int) -> torch.Tensor:
        """Returns the logits as `[rows, units]`."""
        if isinstance(logits, torch.Tensor):
            if self._units == 1 and tuple(logits.shape) == (rows,):
                return logits.unsqueeze(1)
            if tuple(logits.shape) == (rows, self._units):
                return logits
        given = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(f"forward must return logits of shape [{rows}, {self._units}], as the label needs, given {given}")

    def _loaded_batch(self, features: Input, values: Sequence[Array]) -> Batch:
        """Puts the parameters into the module, and returns the batch with the rows of its ids."""
        if self._parameters is None:
            raise RuntimeError("the columns of the module are not known")
        self._parameters.load(values[len(self._tables) :])
        return self._batch(features, values[: len(self._tables)])

    def _batch(self, features: Input, matrices: Sequence[Array]) -> Batch:
        rows, numbers, lookups, ids = features
        matrix = self._tensor(numbers).view(rows, numbers.size // max(rows, 1))
        self._loaded = self._tables.load(matrices, lookups)
        others = {name: row_ids(each, self._device) for name, each in zip(self._ids, ids, strict=True)}
        return Batch(matrix, self._columns, others, self._loaded)

    def _gradients(self) -> list[Array]:
        if self._parameters is None or self._loaded is None:
            raise RuntimeError("the columns of the module are not known")
        return self._loaded.gradients() + self._parameters.gradients()

    def _tensor(self, array: Array) -> torch.Tensor:
        """Returns an array as a tensor on the module's device. On the CPU, both have one memory."""
        return torch.from_numpy(array).to(self._device)


def _array(logits: torch.Tensor) -> Array:
    return logits.detach().cpu().contiguous().view(-1).numpy()  # type: ignore[no-any-return]
