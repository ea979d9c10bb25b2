"""Jobs and processes of the tests. The package is installed: nothing here imports it from the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
"""The jobs of the repository, with the data of iris beside them."""

DEADLINE_SECS = 120
"""Longest run of a process."""


@pytest.fixture
def iris() -> Path:
    """The job that trains on the iris data of the repository."""
    return CONFIGS / "iris.toml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with a path that has no compiler."""
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECS, check=False
    )
