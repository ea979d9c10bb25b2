"""Jobs and processes of the tests. The package is installed: nothing here imports it from the sources."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
"""The jobs of the repository, with the data of iris beside them."""

DEADLINE_SECS = 120
"""Longest run of a process."""


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 at which nobody listens, below those that the system gives to connections."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


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
