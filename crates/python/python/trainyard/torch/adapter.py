"""Modules of PyTorch as models: puts a batch and values into a module, and takes gradients out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Union

import numpy as np
import torch

from trainyard import adapter
from trainyard.adapter import Array, Ids, Input, Lookup, Parameter, Predictions, Shown, metrics_of, resolved
from trainyard.constants import constants, digest, limited
from trainyard.metrics import Sums
from trainyard.torch.batch import Batch, LabelledBatch
from trainyard.torch.embedding import Embedding
from trainyard.torch.memory import keep_blocks
from trainyard.torch.module import Module, device_of
from trainyard.torch.outputs import MULTI_CLASS, OutputForm, Outputs, Task, tasks_of
from trainyard.torch.parameters import Parameters
from trainyard.torch.tables import LoadedTables, Tables, row_ids
from trainyard.torch.twin import SEED, TWIN_SEED, array_of, built, refuse_drawn_constants, seeded, without_own_seed
from trainyard.torch.twin import constants as tensors

LossOfLabel = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A loss of logits and labels."""
Loss = Union[LossOfLabel, Callable[[Any, LabelledBatch], torch.Tensor], Mapping[str, LossOfLabel]]
"""A loss of logits and labels. In a job of several tasks, one of outputs and a batch with labels, or one for each task."""

MISSING_CLASS = -100
"""The label of a row that has none, among classes: PyTorch's `cross_entropy` leaves it out."""
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
        self._tasks = tasks_of(settings["model"])
        self._loss = _checked_loss(loss, self._tasks)
        self._sums = settings["model"]["loss_reduction"] == "sum"
        self._head = settings["model"]["head"]
        self._device = device_of(self._module)
        self._tables = Tables(_embeddings(self._module), self._device)
        self._loaded: LoadedTables | None = None
        self._columns: dict[str, tuple[int, int]] = {}
        self._ids: list[str] = []
        self._units = 1
        self._form = OutputForm(self._tasks, 1)
        self._outputs: list[str] = []
        """Names of the outputs of the module's own."""
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
        self._form = OutputForm(self._tasks, units)
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

    def outputs(self) -> list[str]:
        """Returns the names of the outputs of the module's own."""
        return self._outputs

    def constants(self) -> dict[str, str]:
        """Returns a digest of each tensor, number and list of the module that is no parameter, and of what its code names."""
        return constants_of(self._module)

    def forward(self, features: Input, values: Sequence[Array]) -> Array:
        """Returns the logits, and keeps what `backward` needs."""
        outputs = self._trained(features, values)[0]
        self._refuse_constants(outputs)
        self._logits = outputs.joined()
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
        outputs, batch = self._trained(features, values)
        if self._tasks:
            return self._descended(self._loss_of_tasks(outputs, self._labelled(batch, outputs, labels, weights)))
        loss: Any = self._loss
        (logits,) = outputs.logits
        losses = loss(logits, self._labels(labels, logits.shape))
        return self._descended(self._reduced(losses, logits, None if weights is None else self._tensor(weights)))

    def evaluate(
        self, features: Input, values: Sequence[Array], labels: Array, weights: Array | None, sums: Sums
    ) -> tuple[Array | None, dict[str, float]]:
        """Returns the logits, and the module's own metrics of the batches so far."""
        with torch.no_grad():
            outputs, batch = self._inferred(features, values)
            if self._tasks:
                own = self._module.metrics(outputs.given, self._labelled(batch, outputs, labels, weights))
            else:
                (logits,) = outputs.logits
                shares = None if weights is None else self._tensor(weights)
                own = metrics_of(self._module.metrics, logits, self._labels(labels, logits.shape), shares)
            scores = sums.add(own)
        return _array(outputs.joined()), scores

    def predict(self, features: Input, values: Sequence[Array]) -> Predictions:
        """Returns the logits and the module's own outputs, without what training alone does."""
        with torch.no_grad():
            outputs, _ = self._inferred(features, values)
            return _array(outputs.joined()), outputs.arrays()

    def _build(self, module: Module, batch: Batch) -> None:
        """Calls a build of the module with a batch of zeros."""
        self._outputs = list(self._form.read(module(batch), batch.rows).others)

    def _trained(self, features: Input, values: Sequence[Array]) -> tuple[Outputs, Batch]:
        self._set_training(True)
        with several_rows(features[0]):
            return self._computed(features, values)

    def _inferred(self, features: Input, values: Sequence[Array]) -> tuple[Outputs, Batch]:
        self._set_training(False)
        return self._computed(features, values)

    def _computed(self, features: Input, values: Sequence[Array]) -> tuple[Outputs, Batch]:
        batch = self._loaded_batch(features, values)
        return self._form.read(self._module(batch), batch.rows), batch

    def _set_training(self, is_training: bool) -> None:
        """Sets the mode of the module, unless it has it: a visit of each submodule costs more than a small one computes."""
        if self._module.training != is_training:
            self._module.train(is_training)

    def _labels(self, labels: Array, shape: Sequence[int]) -> torch.Tensor:
        """Returns labels in the shape of the logits; whole numbers, `[rows]`, if they are one of several classes."""
        wanted = self._tensor(labels)
        return wanted.long() if self._head == MULTI_CLASS else wanted.view(*shape)

    def _labelled(self, batch: Batch, outputs: Outputs, labels: Array, weights: Array | None) -> LabelledBatch:
        """Returns a batch with the labels and weights of tasks, of which each row has one of each."""
        matrix = self._tensor(labels).view(batch.rows, len(self._tasks))
        shares = None if weights is None else self._tensor(weights).view(batch.rows, len(self._tasks))
        found, is_labelled = {}, {}
        for place, (task, logits) in enumerate(zip(self._tasks, outputs.logits, strict=True)):
            label = matrix[:, place]
            present = ~torch.isnan(label)
            is_labelled[task.name] = present
            if task.is_multi_class:
                found[task.name] = torch.where(present, label, torch.full_like(label, MISSING_CLASS)).long()
            else:
                found[task.name] = label.contiguous().view(*logits.shape)
        by_task = None if shares is None else {task.name: shares[:, place] for place, task in enumerate(self._tasks)}
        return LabelledBatch(batch, found, is_labelled, by_task)

    def _refuse_constants(self, outputs: Outputs) -> None:
        """Refuses logits of a task that nothing is learned from, beside those of others."""
        for task, logits in zip(self._tasks, outputs.logits):
            if not logits.requires_grad:
                raise ValueError(
                    f"the logits of the task `{task.name}` have no gradient, so that it would not be trained: forward must not detach "
                    "them, round them, or make integers of them"
                )

    def _loss_of_tasks(self, outputs: Outputs, batch: LabelledBatch) -> torch.Tensor:
        """Returns the module's own loss in a job of several tasks."""
        weights = batch.weights
        if isinstance(self._loss, Mapping):
            self._refuse_constants(outputs)
            of_tasks = [
                task.weight * self._loss_of_task(self._loss[task.name], task.name, logits, batch)
                for task, logits in zip(self._tasks, outputs.logits, strict=True)
                if bool(batch.is_labelled[task.name].any())
            ]
            return torch.stack(of_tasks).sum()
        batch.are_weights_read = False
        loss: Any = self._loss
        losses = loss(outputs.given, batch)
        if weights is not None and not batch.are_weights_read:
            raise ValueError("the job has weights of examples, and the loss does not read them: multiply by batch.weights[task]")
        return self._reduced(losses, outputs.joined(), None)

    def _loss_of_task(self, loss: LossOfLabel, name: str, logits: torch.Tensor, batch: LabelledBatch) -> torch.Tensor:
        """Returns the loss of the rows that have the label of a task."""
        rows, labels = batch.is_labelled[name], batch.labels[name]
        weights = None if batch.weights is None else batch.weights[name]
        if not bool(rows.all()):
            logits, labels = logits[rows], labels[rows]
            weights = None if weights is None else weights[rows]
        return self._reduced(loss(logits, labels), logits, weights)

    def _descended(self, loss: torch.Tensor) -> tuple[float, list[Array]]:
        """Returns a loss, and its gradients."""
        loss.backward()
        return float(loss.detach()), self._gradients()

    def _reduced(self, losses: Any, logits: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
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
            losses = losses * weights.reshape(rows, *[1] * (losses.dim() - 1))
        return losses.sum() if self._sums else losses.sum() / losses.numel()

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


def _checked_loss(loss: Loss | None, tasks: Sequence[Task]) -> Loss | None:
    """Returns the module's own loss.

    Raises ValueError if it has another form than the tasks of the job need.
    """
    names = [task.name for task in tasks]
    if isinstance(loss, Mapping):
        if sorted(loss) != sorted(names):
            raise ValueError(
                f"losses by name must be those of the tasks of the job, {', '.join(names) or 'which has one label'}, given "
                f"{', '.join(map(str, loss)) or 'none'}"
            )
    elif loss is not None:
        weighted = next((task for task in tasks if task.weight != 1), None)
        if weighted is not None:
            raise ValueError(
                f"the weight {weighted.weight:g} of the task `{weighted.name}` has no effect on a loss of all outputs: weigh it in the "
                "loss and remove the key, or give a loss for each task"
            )
    return loss


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
