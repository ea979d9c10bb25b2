"""Programs that start the tasks of a cluster as more processes of themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import clicks
from conftest import ran

from trainyard import toml

MODEL = """
import sys
import trainyard
import trainyard.numpy as tn

class Told(trainyard.Callback):
    def begin(self):
        open(f"role-{self.role}", "w").close()

class Net(tn.Model):
    def __init__(self, params):
        self.price = tn.Variable("price", [1])
        super().__init__([], [self.price])

    def logits(self, batch, values):
        return batch["price"] @ values[self.price]

    def gradients(self, batch, values, delta):
        return {"price": batch["price"].T @ delta}

program = tn.program(Net, [Told()])
UP = ["up", "job.toml", "--cluster", "local:ps=1,worker=1"]
"""


def job(folder: Path) -> None:
    """Writes a job into a folder."""
    (folder / "job.toml").write_text(toml.dumps(clicks.write(folder, 500)))


def test_callbacks_of_each_task_know_their_role(folder: Path) -> None:
    job(folder)
    (folder / "train.py").write_text(f"{MODEL}\nraise SystemExit(program.run(sys.argv[1:]).code)\n")
    ended = ran(sys.executable, "train.py", "up", "job.toml", "--cluster", "local:ps=1,worker=1", folder=folder)
    assert ended.returncode == 0, ended.stderr
    roles = {path.name.removeprefix("role-") for path in folder.glob("role-*")}
    assert roles == {"chief", "worker", "ps", "evaluator"}, roles


def test_a_session_of_an_interpreter_starts_no_cluster(folder: Path) -> None:
    job(folder)
    session = f"{MODEL}\nraise SystemExit(program.run(UP).code)\n"
    ended = ran(sys.executable, "-c", session, folder=folder)
    assert ended.returncode == 64
    assert "a notebook, or a session of an interpreter, is no program" in ended.stderr
    assert "to a file, and run `python FILE.py up" in ended.stderr


def test_a_notebook_starts_no_cluster(folder: Path) -> None:
    job(folder)
    cell = f"{MODEL}\ncode = program.run(UP).code\n"
    # The kernel is a script, whose `__main__` is the module of the notebook.
    kernel = f"import sys, types\nmain = sys.modules['__main__'] = types.ModuleType('__main__')\nexec({cell!r}, main.__dict__)\n"
    (folder / "ipykernel_launcher.py").write_text(f"{kernel}\nsys.exit(main.code)\n")
    ended = ran(sys.executable, "ipykernel_launcher.py", "-f", "connection.json", folder=folder)
    assert ended.returncode == 64
    assert "a notebook, or a session of an interpreter, is no program" in ended.stderr


def test_a_script_that_ignores_its_arguments_ends_with_the_remedy(folder: Path) -> None:
    job(folder)
    (folder / "train.py").write_text(f"{MODEL}\nraise SystemExit(program.run(UP).code)\n")
    ended = ran(sys.executable, "train.py", folder=folder)
    assert ended.returncode == 64, ended.stderr
    assert "has started this process for a task, by `run --role " in ended.stderr
    assert "pass the arguments of the process on" in ended.stderr


def test_a_script_with_arguments_of_its_own_ends_with_the_remedy(folder: Path) -> None:
    job(folder)
    own = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--fast')\nparser.parse_args()\n"
    (folder / "train.py").write_text(f"{own}{MODEL}\nraise SystemExit(program.run(UP).code)\n")
    ended = ran(sys.executable, "train.py", "--fast", "yes", folder=folder)
    assert ended.returncode == 2, ended.stderr
    assert "a script that starts a cluster must pass the arguments of its process on" in ended.stderr
