"""A job as Python gives it: a file, or a dictionary that becomes one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union

from trainyard import toml

Job = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""A job file, or the same tables and keys as a dictionary."""


@contextmanager
def job_file(job: Job) -> Iterator[str]:
    """Gives the path of a job file. The file of a dictionary exists until the context ends."""
    if not isinstance(job, Mapping):
        yield os.fspath(job)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.toml")
        path.write_text(toml.dumps(job), encoding="utf-8")
        yield str(path)
