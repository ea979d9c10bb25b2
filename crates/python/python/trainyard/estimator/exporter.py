"""Exporters (`tf.estimator.BestExporter` and others)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Exporter:
    """Exports models after evaluations. The receiver function is not called: an export reads the columns of the job."""

    name: str
    serving_input_receiver_fn: Any = None
    assets_extra: Any = None
    as_text: bool = False
    exports_to_keep: int | None = 5

    def __post_init__(self) -> None:
        if self.exports_to_keep is not None and self.exports_to_keep <= 0:
            raise ValueError(f"exports_to_keep must be positive or None, given {self.exports_to_keep}")
        if self.assets_extra:
            raise ValueError("assets_extra must be empty: copy the files beside the export")

    def _keys(self, kind: str) -> dict[str, Any]:
        keep = self.exports_to_keep or 0
        return {"kind": kind, "name": self.name, "exports_to_keep": keep, "format": "saved_model"}


@dataclass(frozen=True)
class LatestExporter(_Exporter):
    """Exports the model of each evaluation."""

    def keys(self) -> dict[str, Any]:
        """Returns the keys of `[[exporter]]`."""
        return self._keys("latest")


@dataclass(frozen=True)
class FinalExporter(_Exporter):
    """Exports the model of the last evaluation."""

    def keys(self) -> dict[str, Any]:
        """Returns the keys of `[[exporter]]`."""
        return self._keys("final")


@dataclass(frozen=True)
class BestExporter(_Exporter):
    """Exports the model of each evaluation that is better than all before, by its loss or by `metric`.

    `higher_is_better` is known for the metrics of heads, and required for your own.
    """

    name: str = "best_exporter"
    event_file_pattern: str | None = "eval/*.tfevents.*"
    compare_fn: Any = None
    metric: str = "loss"
    higher_is_better: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compare_fn is not None:
            raise ValueError('compare_fn must be None: give metric="auc", or another metric, instead')

    def keys(self) -> dict[str, Any]:
        """Returns the keys of `[[exporter]]`."""
        direction = {} if self.higher_is_better is None else {"higher_is_better": self.higher_is_better}
        return {**self._keys("best"), "metric": self.metric, **direction}
