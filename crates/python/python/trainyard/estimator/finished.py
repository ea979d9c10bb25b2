"""The passes over an input that a model directory has behind it."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import Any

from trainyard.data import Reader


def finished_passes(model_dir: str, reader: Reader) -> int:
    """Returns how many passes over the files of a reader a finished job has trained; 0 for any other input.

    A job counts its passes from its start, and a call of `train` counts from its own.
    """
    state = _json(Path(model_dir, "job_state.json"))
    done = state.get("phase") == "done" or state.get("finished_before")
    if not done or not state.get("epochs"):
        return 0
    keys = _json(Path(model_dir, "job.json")).get("keys", [])
    part = {**{"shuffle_rows": 0, "batch_size": 128}, **reader.part}
    wanted = [f"input.train.{key}={part[key]}" for key in ("batch_size", "shuffle_rows")]
    wanted.append(f'input.format="{reader.shared["format"]}"')
    is_same = all(key in keys for key in wanted) and _files(Path(model_dir, "job.toml")) == _absolute(part["files"])
    return int(state["epochs"]) if is_same and not _have_changed(Path(model_dir, "job_state.json"), part["files"]) else 0


def _have_changed(ended: Path, files: list[str]) -> bool:
    """Returns whether a file is there that was written, or came to its place, after the job had ended.

    Such an input is read from its beginning, and its passes are counted anew. The time of the end is that of its record.
    """
    end = ended.stat().st_mtime_ns
    found = (path for file in files if "://" not in file for path in glob.glob(file, recursive=True))
    times = (status for path in found for status in [os.stat(path)])
    return any(max(status.st_mtime_ns, status.st_ctime_ns) > end for status in times)


def _files(job: Path) -> list[str] | None:
    """Returns the files of training in the job that a chief has recorded."""
    try:
        section = job.read_text().partition("[input.train]")[2]
    except OSError:
        return None
    for line in section.splitlines():
        if line.startswith("files = "):
            try:
                return list(json.loads(line.removeprefix("files = ")))
            except ValueError:
                return None
    return None


def _absolute(files: list[str]) -> list[str]:
    return [file if "://" in file else os.path.abspath(file) for file in files]


def _json(file: Path) -> dict[str, Any]:
    """Returns the object in a file; an empty one if it cannot be read, as in a bucket."""
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError):
        return {}
