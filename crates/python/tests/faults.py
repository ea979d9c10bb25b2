"""Kills the tasks of a counting job under `trainyard up`, and tells whether each update counted once.

    python crates/python/tests/faults.py --rounds 10 --epochs 60
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import ledger

DEADLINE_SECS = 120
"""Longest wait for progress, and for the end."""
ROLES = ("worker", "ps", "chief")
STEP = re.compile(r"training step=(\d+)")


@dataclass
class Cluster:
    """A cluster of this machine, and its log."""

    process: subprocess.Popen[str]
    step: int = 0
    lines: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def start(cls, job: Path, workers: int) -> Cluster:
        """Starts the tasks."""
        program = [sys.executable, ledger.__file__, "up", str(job), "--cluster", f"local:ps={ledger.SERVERS},worker={workers}"]
        process = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        cluster = cls(process)
        threading.Thread(target=cluster._read, daemon=True).start()
        return cluster

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = STEP.search(line)
            with self.changed:
                self.lines.append(line)
                self.step = max(self.step, int(found[1])) if found else self.step
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def wait_for_steps(self, steps: int) -> None:
        """Waits until the job has gone on by some steps.

        Raises AssertionError if it does not, or has ended.
        """
        with self.changed:
            until = self.step + steps
            reached = self.changed.wait_for(lambda: self.step >= until or self.process.poll() is not None, DEADLINE_SECS)
        assert reached and self.process.poll() is None, "the job did not go on: " + "".join(self.lines[-20:])

    def kill(self, role: str, draw: random.Random) -> None:
        """Kills a task of a role."""
        # A task that was killed before may not have been started again.
        with self.changed:
            found = self.changed.wait_for(lambda: self._tasks(role), DEADLINE_SECS)
            assert found, f"no {role} runs: " + "".join(self.lines[-20:])
        os.kill(draw.choice(found), signal.SIGKILL)

    def _tasks(self, role: str) -> list[int]:
        return [pid for pid in _children(self.process.pid) if f"\0--role\0{role}\0" in _command(pid)]

    def finish(self) -> None:
        """Waits for the end of the job.

        Raises AssertionError if it fails.
        """
        code = self.process.wait(DEADLINE_SECS)
        assert code == 0, f"`up` ended with {code}: " + "".join(self.lines[-40:])


def rounds(job: Path, count: int, steps: int, draw: random.Random) -> int:
    """Runs a job, and kills a worker, a server and the chief in each round, some steps apart. Returns the number of kills."""
    cluster = Cluster.start(job, workers=2)
    kills = 0
    try:
        for _ in range(count):
            for role in ROLES:
                cluster.wait_for_steps(steps)
                cluster.kill(role, draw)
                kills += 1
        cluster.finish()
    finally:
        if cluster.process.poll() is None:
            cluster.process.terminate()
            cluster.process.wait(DEADLINE_SECS)
    return kills


def counters(job: Path, output: Path) -> dict[str, ledger.Array]:
    """Returns the values of the last checkpoint."""
    command = [sys.executable, ledger.__file__, "export", str(job), "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_SECS)
    (file,) = output.glob("**/model.safetensors")
    return ledger.tensors(file)


def _children(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(pid) for path in listed for pid in path.read_text().split()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def main() -> None:
    """Runs the rounds, and prints what they counted."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--rows", type=int, default=20_000)
    arguments.add_argument("--epochs", type=int, default=60)
    arguments.add_argument("--steps-between", type=int, default=1500)
    arguments.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = arguments.parse_args()
    book = ledger.Ledger(given.rows, given.epochs)
    print(f"seed {given.seed}, {book.steps} steps", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        job = book.write(Path(folder))
        began = time.monotonic()
        kills = rounds(job, given.rounds, given.steps_between, random.Random(given.seed))
        seconds = time.monotonic() - began
        found = counters(job, Path(folder, "export"))
    mistakes = book.mistakes(found)
    checked = sum(values.size for values in found.values())
    print(f"{kills} kills in {seconds:.1f} s; {checked} counters, {len(mistakes)} wrong")
    print("\n".join(mistakes[:10]))
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
