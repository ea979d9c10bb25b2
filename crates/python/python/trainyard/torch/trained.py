"""Trained modules: a checkpoint as a module that needs PyTorch alone."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
import torch

from trainyard import _native, adapter
from trainyard._native import CheckpointError
from trainyard.checkpoint import Array, Checkpoint, ModelDir, UnknownIdError, Variable
from trainyard.job import Job, job_file
from trainyard.torch.adapter import BUILD_ROWS, constants_of
from trainyard.torch.batch import Batch, RowIds
from trainyard.torch.embedding import Embedding
from trainyard.torch.main import Build
from trainyard.torch.module import Module, device_of
from trainyard.torch.twin import SEED, built

Values = Union[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]
"""Numbers `[rows, width]`, ids `[rows]` or `[rows, length]`, or ids with a weight for each."""

NO_ID = -1
"""What stands for no id."""
MISSING = ("error", "zeros")
"""What the vector of an id is that has no row."""


def load(
    model_dir: ModelDir, module: Build, *, step: int | None = None, job: Job | None = None, missing: str = "error"
) -> TrainedModule:
    """Returns a module with the values of a checkpoint, by default the newest one, in evaluation mode.

    Args:
        model_dir: The folder, or bucket, of a run.
        module: The class, or the function from the keys of `[model]`, with which `main` has trained it.
        step: The step of the checkpoint.
        job: The job of the run, by default the `job.toml` that it has written into `model_dir`.
        missing: What the vector of an id is that has no row in a dynamic table without `shared_row`: `error` raises
            UnknownIdError, `zeros` is 0. A module that is traced or exported cannot raise it.

    Raises CheckpointError if there is no such checkpoint, a file is damaged, or its variables are not those of the module.
    """
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(MISSING)}, given {missing!r}")
    checkpoint = Checkpoint(model_dir, step)
    of_run = _job(model_dir, job)
    model = json.loads(of_run.json())["model"]
    inner, _ = built(lambda: _module(module(adapter.params_of(model))), SEED)
    constants = constants_of(inner)
    trained = TrainedModule(inner, checkpoint, of_run, missing)
    difference = of_run.difference(checkpoint.native.job, constants)
    if difference is not None:
        warnings.warn(f"the values were trained by another job: {difference}", stacklevel=2)
    return trained


class TrainedModule(torch.nn.Module):
    """A module with trained values, whose tables are in it.

    `forward` takes a dictionary of tensors by the names of the features, and returns what the module returns. Numeric features are
    the numbers that the module has received in training, `[rows, width]`, or `[rows]` if the width is 1. All others are ids,
    `[rows]` or `[rows, length]`, int64, or a pair of those and of weights of the same shape; -1 stands for no id.
    """

    def __init__(
        self, module: Module, checkpoint: Checkpoint, job: _native.TrainedJob, missing: str
    ) -> None:
        super().__init__()
        embeddings = [each.described for each in module.modules() if isinstance(each, Embedding)]
        columns, self._ids = job.shown(adapter.resolved(embeddings))
        self._columns = dict(sorted(columns.items(), key=lambda column: column[1]))
        self._looked_up = list(dict.fromkeys(each.feature for each in embeddings))
        self._weighted = {each["name"] for each in json.loads(job.json())["features"] if each["weights"] is not None}
        self.module = module
        device = device_of(module)
        used = self._put_tables(checkpoint, missing, device)
        self._complete(device)
        used |= _put_values(module, checkpoint)
        unused = [str(each) for name, each in checkpoint.variables.items() if name not in used]
        if unused:
            raise CheckpointError(f"{checkpoint.native.path} is of another module, this one has no {', '.join(unused)}")
        self.eval()

    def forward(self, features: Mapping[str, Values]) -> Any:
        """Returns what the module returns for a batch."""
        return self.module(self._batch(features))

    def _put_tables(self, checkpoint: Checkpoint, missing: str, device: torch.device) -> set[str]:
        """Puts a trained lookup into the place of each embedding, and returns the names of the variables."""
        used: set[str] = set()
        tables: dict[str, torch.nn.Module] = {}
        trained: dict[Embedding, TrainedEmbedding] = {}
        for owner in list(self.module.modules()):
            for name, each in owner._modules.items():
                if not isinstance(each, Embedding):
                    continue
                if each not in trained:
                    variable = _table_of(each, checkpoint)
                    if variable.name not in tables:
                        tables[variable.name] = _table(variable, checkpoint, missing).to(device)
                        used.add(variable.name)
                        if variable.shares_row:
                            used.add(variable.shared_row)
                    trained[each] = TrainedEmbedding(each, tables[variable.name])
                owner._modules[name] = trained[each]
        return used

    def _complete(self, device: torch.device) -> None:
        """Gives lazy layers their shapes, by a batch of zeros."""
        if not any(torch.nn.parameter.is_lazy(each) for each in [*self.module.parameters(), *self.module.buffers()]):
            return
        batch: dict[str, Values] = {
            name: torch.zeros(BUILD_ROWS, width, device=device) for name, (_, width) in self._columns.items()
        }
        for name in [*self._ids, *self._looked_up]:
            ids = torch.full((BUILD_ROWS,), NO_ID, dtype=torch.int64, device=device)
            batch[name] = (ids, torch.ones(BUILD_ROWS, device=device)) if name in self._weighted else ids
        self.eval()
        with torch.no_grad():
            self(batch)

    def _batch(self, features: Mapping[str, Values]) -> TrainedBatch:
        needed = [*self._columns, *self._ids, *self._looked_up]
        absent = [name for name in dict.fromkeys(needed) if name not in features]
        if absent:
            raise KeyError(f"the batch must have {', '.join(dict.fromkeys(needed))}; it lacks {', '.join(absent)}")
        numbers = [_numbers(name, features[name], width) for name, (_, width) in self._columns.items()]
        ids = {name: self._with_weights(name, features[name]) for name in dict.fromkeys([*self._ids, *self._looked_up])}
        rows = {name: each.shape[0] for name, each in zip(self._columns, numbers, strict=True)}
        rows.update({name: each[0].shape[0] for name, each in ids.items()})
        if not _is_traced() and len(set(rows.values())) > 1:
            raise ValueError(f"all features of a batch must have one number of rows, given {rows}")
        if not numbers:
            like = next(iter(ids.values()))[0] if ids else torch.zeros(0, device=device_of(self.module))
            numbers = [torch.zeros(like.shape[0], 0, device=like.device)]
        bare = {name: _row_ids(*ids[name], features[name]) for name in self._ids}
        return TrainedBatch(torch.cat(numbers, 1), self._columns, bare, ids)

    def _with_weights(self, name: str, given: Values) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns the ids of a feature, `[rows, length]`, with the weights that they have had in training."""
        ids, weights = _padded(name, given)
        if (weights is not None) != (name in self._weighted):
            trained, wanted = ("has", "a pair of ids and weights") if weights is None else ("has no", "its ids alone")
            raise ValueError(f"the feature `{name}` {trained} weights in the job of the training: give {wanted}")
        return ids, weights


class TrainedBatch(Batch):
    """A batch of tensors, with ids for the embeddings."""

    def __init__(
        self,
        numbers: torch.Tensor,
        columns: Mapping[str, tuple[int, int]],
        ids: Mapping[str, RowIds],
        looked_up: Mapping[str, tuple[torch.Tensor, torch.Tensor | None]],
    ) -> None:
        super().__init__(numbers, columns, ids, _NoVectors())
        self.looked_up = looked_up


class _NoVectors:
    """Vectors of a batch whose embeddings have tables of their own."""

    def of_rows(self, embedding: torch.nn.Module) -> torch.Tensor | None:
        raise RuntimeError("a trained module holds its tables: an embedding that forward() makes has none")

    def of_ids(self, embedding: torch.nn.Module) -> tuple[torch.Tensor, RowIds]:
        raise RuntimeError("a trained module holds its tables: an embedding that forward() makes has none")


class TrainedEmbedding(torch.nn.Module):
    """Looks the ids of a feature up, as the embedding does that was trained."""

    def __init__(self, embedding: Embedding, table: torch.nn.Module) -> None:
        super().__init__()
        self.described = embedding.described
        self.combiner = embedding.combiner
        self.table = table

    def forward(self, batch: TrainedBatch) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Looks the ids of a batch up: `[rows, dimension]`, or vectors and mask without a combiner."""
        ids, weights = batch.looked_up[self.described.feature]
        mask = ids != NO_ID
        if not _is_traced():
            self._check(ids, mask)
        if isinstance(self.table, torch.nn.Embedding):
            vectors = self.table(torch.where(mask, ids, torch.zeros_like(ids)))
        else:
            vectors = self.table(ids)
        if self.combiner is None:
            return vectors * mask.unsqueeze(2), mask
        return (vectors * _shares(mask, weights, self.combiner, vectors.dtype).unsqueeze(2)).sum(1)

    def _check(self, ids: torch.Tensor, mask: torch.Tensor) -> None:
        """Refuses ids without a row. A module that is traced has no values that it could check."""
        if isinstance(self.table, IdTable):
            self.table.check(ids, mask, self.described.table)
            return
        assert isinstance(self.table, torch.nn.Embedding)
        rows = self.table.num_embeddings
        outside = mask & ((ids < 0) | (ids >= rows))
        if bool(outside.any()):
            found = sorted(set(ids[outside].tolist()))
            raise UnknownIdError(self.described.table, found, f"its ids are 0 to {rows - 1}, and -1 stands for no id")

    def extra_repr(self) -> str:
        """Returns the arguments, for the module's text."""
        return f"{self.described.feature!r}, combiner={self.combiner!r}"


class IdTable(torch.nn.Module):
    """The rows of a dynamic table, by id: the fingerprint of a value, as a signed whole number of the same 64 bits."""

    def __init__(self, ids: Array, values: Array, shared: Array | None, missing: str) -> None:
        """Takes rows by ids of 64 bits without sign, and the row of all others."""
        super().__init__()
        signed = ids.view(np.int64)
        order = np.argsort(signed)
        last = np.zeros((1, values.shape[1]), dtype=np.float32) if shared is None else shared.reshape(1, -1)
        self.refuses = shared is None and missing == "error"
        self.register_buffer("ids", torch.from_numpy(signed[order]))
        self.weight = torch.nn.Parameter(torch.from_numpy(np.concatenate([values[order], last])))

    ids: torch.Tensor

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Looks ids up. Those without a row have the last one."""
        if self.refuses and _is_traced():
            raise ValueError(
                "a module that is traced or exported cannot refuse the ids that a dynamic table has no row of: load it with "
                'missing="zeros", or train it with shared_row = true'
            )
        return torch.nn.functional.embedding(self._rows(ids), self.weight)

    def check(self, ids: torch.Tensor, mask: torch.Tensor, table: str) -> None:
        """Refuses ids without a row, unless they have one in common.

        Raises UnknownIdError.
        """
        unknown = mask & (self._rows(ids) == len(self.ids))
        if self.refuses and bool(unknown.any()):
            found = sorted({each % (1 << 64) for each in ids[unknown].tolist()})
            raise UnknownIdError(table, found, 'load the module with missing="zeros"')

    def _rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns the rows of ids; one past the last for those without a row."""
        count = self.ids.shape[0]
        if count == 0:
            return torch.zeros_like(ids)
        places = torch.searchsorted(self.ids, ids).clamp(max=count - 1)
        return torch.where(self.ids[places] == ids, places, torch.full_like(places, count))

    def extra_repr(self) -> str:
        """Returns the size, for the module's text."""
        return f"{self.ids.shape[0]} ids, {self.weight.shape[1]}"


def _module(made: Any) -> Module:
    if not isinstance(made, Module):
        raise TypeError(f"a model must be a trainyard.torch.Module, given a {type(made).__name__}: derive the class from it")
    return made


def _job(model_dir: ModelDir, job: Job | None) -> _native.TrainedJob:
    """Returns a job, by default that of the newest run in the folder."""
    if job is not None:
        with job_file(job) as path:
            return _native.TrainedJob.of_file(path)
    found = _native.TrainedJob.of_run(os.fspath(model_dir))
    if found is None:
        raise CheckpointError(f"{os.fspath(model_dir)} holds no job.toml, which a run writes there: give its job by job=")
    return found


def _table_of(embedding: Embedding, checkpoint: Checkpoint) -> Variable:
    """Returns the variable of an embedding."""
    described = embedding.described
    variable = checkpoint.variable(f"{_native.variable_name(described.table)}/embedding_weights")
    if variable.row_shape != [described.dimension]:
        raise CheckpointError(
            f"the embedding of `{described.feature}` must have the dimension of its table, given {described.dimension} and "
            f"{variable} in {checkpoint.native.path}"
        )
    return variable


def _table(variable: Variable, checkpoint: Checkpoint, missing: str) -> torch.nn.Module:
    """Reads a table."""
    ids, values = checkpoint.vectors(variable)
    if not variable.is_dynamic:
        return torch.nn.Embedding.from_pretrained(torch.from_numpy(values), freeze=False)
    if len(ids) and int(ids[-1]) == NO_ID % (1 << 64):
        raise CheckpointError(f"`{variable.name}` has a row of the id {int(ids[-1])}, which stands for no id in a module")
    shared = None
    if variable.shares_row:
        shared = checkpoint.vectors(checkpoint.variable(variable.shared_row)).values
    return IdTable(ids, values, shared, missing)


def _put_values(module: Module, checkpoint: Checkpoint) -> set[str]:
    """Sets parameters and moving averages, and returns the names of their variables."""
    averages = [(name, each) for name, each in module.named_buffers() if module.is_moving_average(name)]
    used = set()
    of_tables = {id(each) for owner in module.modules() if isinstance(owner, TrainedEmbedding) for each in owner.parameters()}
    for name, each in [*module.named_parameters(), *averages]:
        if id(each) in of_tables:
            continue
        variable = checkpoint.variable(_native.variable_name(name.replace(".", "/")))
        if variable.is_dynamic or variable.shape != list(each.shape):
            raise CheckpointError(
                f"`{name}` must have the shape of its variable, given {list(each.shape)} and {variable} in "
                f"{checkpoint.native.path}"
            )
        values = torch.from_numpy(checkpoint.vectors(variable).values)
        with torch.no_grad():
            each.copy_(values)
        used.add(variable.name)
    return used


def _numbers(name: str, given: Values, width: int) -> torch.Tensor:
    """Returns numbers, `[rows, width]`."""
    if not isinstance(given, torch.Tensor):
        raise TypeError(f"the numeric feature `{name}` must be a tensor, given a {type(given).__name__}")
    if given.dim() == 1 and width == 1:
        given = given.unsqueeze(1)
    if given.dim() != 2 or given.shape[1] != width:
        raise ValueError(f"the numeric feature `{name}` must have the shape [rows, {width}], given {list(given.shape)}")
    return given.to(torch.float32)


def _padded(name: str, given: Values) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns ids, `[rows, length]`, and their weights."""
    ids, weights = given if isinstance(given, tuple) else (given, None)
    if not isinstance(ids, torch.Tensor) or ids.is_floating_point():
        kind = str(ids.dtype) if isinstance(ids, torch.Tensor) else type(ids).__name__
        raise TypeError(f"the feature `{name}` must be a tensor of ids, int64, given {kind}")
    if ids.dim() not in (1, 2):
        raise ValueError(f"the ids of `{name}` must have the shape [rows] or [rows, length], given {list(ids.shape)}")
    if weights is not None and weights.shape != ids.shape:
        raise ValueError(
            f"the weights of `{name}` must have the shape of its ids, given {list(weights.shape)} and {list(ids.shape)}"
        )
    # A fingerprint is looked up by its bits. PyTorch before 2.3 has no such numbers.
    ids = ids.view(torch.int64) if ids.dtype == getattr(torch, "uint64", None) else ids.to(torch.int64)
    if ids.dim() == 1:
        return ids.unsqueeze(1), None if weights is None else weights.unsqueeze(1)
    return ids, weights


def _row_ids(ids: torch.Tensor, weights: torch.Tensor | None, given: Values) -> RowIds:
    """Returns ids of a feature that the module reads itself."""
    plain = given[0] if isinstance(given, tuple) else given
    if plain.dim() == 1 and weights is None:
        # One id in each row, or -1.
        return RowIds(ids.squeeze(1), None, None)
    mask = ids != NO_ID
    counts = mask.sum(1)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return RowIds(ids[mask], offsets, None if weights is None else weights[mask])


def _shares(mask: torch.Tensor, weights: torch.Tensor | None, combiner: str, kind: torch.dtype) -> torch.Tensor:
    """Returns by how much each vector counts, `[rows, length]`, as `tf.nn.safe_embedding_lookup_sparse` has it."""
    shares = mask.to(kind) if weights is None else torch.where(mask, weights.to(kind), torch.zeros_like(weights, dtype=kind))
    if combiner == "sum":
        return shares
    shares = shares.clamp(min=0)
    divisor = shares.sum(1, keepdim=True) if combiner == "mean" else (shares * shares).sum(1, keepdim=True).sqrt()
    return shares / divisor.clamp_min(1e-30)


def _is_traced() -> bool:
    """Returns whether the module is being traced or exported: tensors have shapes, and no values."""
    compiler = getattr(torch, "compiler", None)
    is_tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return is_tracing or (compiler is not None and bool(compiler.is_compiling()))
