"""Modules of PyTorch as models: puts a batch and values into a module, and takes gradients out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from trainyard import adapter
from trainyard.adapter import Array, Ids, Input, Lookup, Parameter, Predictions, Shown, metrics_of, resolved
from trainyard.constants import constants, digest, limited
from trainyard.metrics import Sums
from trainyard.torch.batch import Batch
from trainyard.torch.embedding import Embedding
from trainyard.torch.memory import keep_blocks
from trainyard.torch.module import Module, device_of
from trainyard.torch.parameters import Parameters
from trainyard.torch.tables import LoadedTables, Tables, row_ids
from trainyard.torch.twin import SEED, TWIN_SEED, array_of, built, refuse_drawn_constants, seeded, without_own_seed
from trainyard.torch.twin import constants as tensors

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

MULTI_CLASS = "multi_class"
INTERNAL = frozenset(vars(torch.nn.Module()))
"""Attributes of a module that PyTorch keeps."""
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
        params = adapter.params_of(settings["model"])
        self._module, has_own_seed = built(lambda: _module(build(params)), SEED)
        self._twin, _ = built(lambda: _module(build(params)), TWIN_SEED)
        refuse_drawn_constants(self._module, self._twin)
        if has_own_seed:
            # The author's seed makes all draws equal, and would hide which values are drawn.
            self._twin = without_own_seed(lambda: _module(build(params)), TWIN_SEED)
        self._loss = loss
        self._sums = settings["model"]["loss_reduction"] == "sum"
        self._head = settings["model"]["head"]
        self._device = device_of(self._module)
        self._tables = Tables(_embeddings(self._module), self._device)
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
        return resolved([each.described for each in _embeddings(self._module)])

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
        for module, seed in ((self._twin, TWIN_SEED), (self._module, SEED)):
            batch = self._batch((BUILD_ROWS, numbers, lookups, ids), values, Tables(_embeddings(module), self._device))
            module.eval()
            with torch.no_grad(), seeded(seed):
                self._build(module, batch)
        self._parameters = Parameters(self._module, self._twin)
        self._twin = self._module
        return self._parameters.described

    def constants(self) -> dict[str, str]:
        """Returns a digest of each tensor, number and list of the module that is no parameter, and of what its code names."""
        return constants_of(self._module)

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
        losses = self._loss(logits, self._labels(labels, logits.shape))
        return self._descended(self._reduced(losses, logits, weights))

    def evaluate(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None, sums: Sums
    ) -> tuple[Array | None, dict[str, float]]:
        """Returns the logits, and the module's own metrics of the batches so far."""
        with torch.no_grad():
            logits = self._inferred(features, values)
            wanted = self._labels(labels, logits.shape)
            shares = None if weights is None else self._tensor(weights)
            scores = sums.add(metrics_of(self._module.metrics, logits, wanted, shares))
        return _array(logits), scores

    def predict(self, features: Input, values: Sequence[Array]) -> Predictions:
        """Returns the logits, without what training alone does."""
        with torch.no_grad():
            return _array(self._inferred(features, values))

    def _build(self, module: Module, batch: Batch) -> None:
        """Calls a build of the module with a batch of zeros."""
        self._checked(module(batch), batch.rows)

    def _trained(self, features: Input, values: Sequence[Array]) -> torch.Tensor:
        self._set_training(True)
        with several_rows(features[0]):
            return self._checked(self._module(self._loaded_batch(features, values)), features[0])

    def _inferred(self, features: Input, values: Sequence[Array]) -> torch.Tensor:
        self._set_training(False)
        return self._checked(self._module(self._loaded_batch(features, values)), features[0])

    def _set_training(self, is_training: bool) -> None:
        """Sets the mode of the module, unless it has it: a visit of each submodule costs more than a small one computes."""
        if self._module.training != is_training:
            self._module.train(is_training)

    def _labels(self, labels: Array, shape: Sequence[int]) -> torch.Tensor:
        """Returns labels in the shape of the logits; whole numbers, `[rows]`, if they are one of several classes."""
        wanted = self._tensor(labels)
        return wanted.long() if self._head == MULTI_CLASS else wanted.view(*shape)

    def _descended(self, loss: torch.Tensor) -> tuple[float, list[Array]]:
        """Returns a loss, and its gradients."""
        loss.backward()
        return float(loss.detach()), self._gradients()

    def _reduced(self, losses: torch.Tensor, logits: torch.Tensor, weights: Array | None) -> torch.Tensor:
        """Returns the loss of the batch: the weighted sum over the rows, divided by their number unless the job says
        otherwise."""
        if not isinstance(losses, torch.Tensor):
            raise ValueError(f"the loss must be a tensor, given a {type(losses).__name__}")
        if losses.dim() == 0:
            wish = "weights" if weights is not None else 'model.loss_reduction = "sum"' if self._sums else None
            if wish is not None:
                raise ValueError(
                    f"the loss must give a value for each row, because the job has {wish}: reduction=\"none\""
                )
            return losses
        rows = logits.shape[0]
        if tuple(losses.shape) not in {(rows,), (rows, 1), tuple(logits.shape)}:
            raise ValueError(
                f"the loss must give a value for each of {rows} rows, or for each logit, given the shape "
                f"{list(losses.shape)} for logits of shape {list(logits.shape)}"
            )
        if weights is not None:
            losses = losses * self._tensor(weights).view(rows, *[1] * (losses.dim() - 1))
        return losses.sum() if self._sums else losses.sum() / losses.numel()

    def _checked(self, logits: Any, rows: int) -> torch.Tensor:
        """Returns the logits, `[rows]` or `[rows, units]`, as they are."""
        if isinstance(logits, torch.Tensor):
            shape = tuple(logits.shape)
            if shape == (rows, self._units) or (self._units == 1 and shape == (rows,)):
                return logits
        given = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(f"forward must return logits of shape [{rows}, {self._units}], as the label needs, given {given}")

    def _loaded_batch(self, features: Input, values: Sequence[Array]) -> Batch:
        """Puts the parameters into the module, and returns the batch with the rows of its ids."""
        if self._parameters is None:
            raise RuntimeError("the columns of the module are not known")
        self._parameters.load(values[len(self._tables) :])
        return self._batch(features, values[: len(self._tables)], self._tables)

    def _batch(self, features: Input, matrices: Sequence[Array], tables: Tables) -> Batch:
        rows, numbers, lookups, ids = features
        matrix = self._tensor(numbers).view(rows, numbers.size // max(rows, 1))
        self._loaded = tables.load(matrices, lookups)
        others = {name: row_ids(each, self._device) for name, each in zip(self._ids, ids, strict=True)}
        return Batch(matrix, self._columns, others, self._loaded)

    def _gradients(self) -> list[Array]:
        if self._parameters is None or self._loaded is None:
            raise RuntimeError("the columns of the module are not known")
        return self._loaded.gradients() + self._parameters.gradients()

    def _tensor(self, array: Array) -> torch.Tensor:
        """Returns an array as a tensor on the module's device. On the CPU, both have one memory."""
        return torch.from_numpy(array).to(self._device)


def constants_of(module: Module) -> dict[str, str]:
    """Returns a digest of each tensor, number and list of a module that is no parameter, and of what its code names."""
    found: dict[str, str] = {}
    for path, each in module.named_modules():
        if not type(each).__module__.startswith(("torch.", "trainyard.")):
            found.update(constants(each, f"{path}." if path else "", array_of, INTERNAL))
    for name, value in tensors(module):
        found[name] = digest(value, array_of) or ""
    return limited(found)


@contextmanager
def several_rows(rows: int) -> Iterator[None]:
    """Names the key by which BatchNorm gets the two rows that it needs in training."""
    try:
        yield
    except ValueError as error:
        if rows == 1 and str(error).startswith("Expected more than 1 value per channel"):
            raise ValueError(
                "BatchNorm cannot train on a batch of one record, which has no variance. It is the last batch of the input: choose "
                "another input.train.batch_size, of which the number of records is not one more than a multiple"
            ) from error
        raise


def _module(made: Any) -> Module:
    if not isinstance(made, Module):
        raise TypeError(f"a model must be a trainyard.torch.Module, given a {type(made).__name__}: derive the class from it")
    return made


def _embeddings(module: Module) -> list[Embedding]:
    return [each for each in module.modules() if isinstance(each, Embedding)]


def _array(logits: torch.Tensor) -> Array:
    return logits.detach().cpu().contiguous().view(-1).numpy()  # type: ignore[no-any-return]
