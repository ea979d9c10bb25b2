"""The programs of docs/python.md."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
from pathlib import Path

import clicks
import pytest
from conftest import CONFIGS, ran

ROOT = CONFIGS.parent
PAGE = (ROOT / "docs/python.md").read_text()


def blocks(language: str) -> list[str]:
    """Returns the blocks of a language, in the order of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def programs(of_a_model: bool) -> list[str]:
    """Returns the programs of the page that have the commands of a model, or those that run by themselves."""
    return [block for block in blocks("python") if ("__main__" in block) is of_a_model]


def job_of(program: str) -> str:
    """Returns the job of a program of the page: the next block if that is one, otherwise the first job."""
    block = re.match(r"\s*```toml\n(.*?)^```", PAGE.partition(f"```python\n{program}```")[2], flags=re.DOTALL | re.MULTILINE)
    return block[1] if block else blocks("toml")[0]


def skip_without_frameworks(program: str) -> None:
    """Skips the test if a framework that the program imports is not installed."""
    for framework in ("torch", "jax"):
        if f"import {framework}" in program:
            pytest.importorskip(framework, reason=f"{framework} is not installed")


@pytest.mark.parametrize("program", programs(of_a_model=False))
def test_a_program_of_the_page_runs(program: str, folder: Path) -> None:
    skip_without_frameworks(program)
    shutil.copytree(CONFIGS, "configs")
    Path("program.py").write_text(program)
    ended = ran(sys.executable, "program.py", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


@pytest.mark.parametrize("program", programs(of_a_model=True))
def test_a_model_of_the_page_trains(program: str, folder: Path) -> None:
    skip_without_frameworks(program)
    clicks.write(folder)
    Path("train.py").write_text(program)
    Path("job.toml").write_text(job_of(program))
    ended = ran(sys.executable, "train.py", "train", "job.toml", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert "trained to step 300" in ended.stdout


def test_the_page_shows_the_difference_of_the_examples() -> None:
    examples = ROOT / "crates/python/examples"
    texts = [(examples / name).read_text().splitlines() for name in ("census_tensorflow.py", "census.py")]
    lines = list(difflib.unified_diff(*texts, lineterm="", n=0))[2:]
    assert blocks("diff") == ["\n".join(line for line in lines if not line.startswith("@@")) + "\n"]
