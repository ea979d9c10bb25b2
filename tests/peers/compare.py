"""Runs ours and the peers in turn, and prints the ratios.

    python compare.py ctr-128 dense-1 --rounds 3

Each run is a line of JSON in the file that `--out` names; the table at the end is made of those lines. Run it with the Python of an
environment that has the peers (see README.md). PEER_PYTHON_PADDLE and PEER_PYTHON_PERSIA name the Python of a peer that has another
environment. A peer whose environment lacks it is skipped, and the table says why.
"""

import argparse
import dataclasses
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import ctr
from processes import PeerFailed, free_addresses, measure, with_paddle_roles, with_persia_roles, with_tf_config

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST_STEP_LIMIT_SECONDS = 180
FIND_MODULE_LIMIT_SECONDS = 60
DENSE_VALUES = 1_000_000
SPARSE_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Peer:
    """A way in which a peer does the work of a comparison."""

    module: str
    """Python module that it needs."""
    tasks: object
    """Function of a scratch folder: (name, command, environment) of each process."""
    trainers: tuple
    """Names of the processes whose lines count steps."""
    work_per_step: float
    """What one counted step does, in the unit of the comparison."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The same work, by ours and by peers."""

    unit: str
    ours: tuple
    """Arguments of `trainyard`."""
    figure: str
    """Key of its JSON that has the rate."""
    peers: dict


def interpreter(module):
    """Returns the Python that runs the peer with this module."""
    named = os.environ.get(f"PEER_PYTHON_{module.upper()}", sys.executable)
    # Tasks do not run in the folder of the caller, so a relative path has no meaning there.
    found = shutil.which(named)
    return os.path.abspath(found) if found else named


def why_not(module):
    """Returns why a peer cannot run, or None if its Python finds its module."""
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        # In the folder of the tasks: a folder of the caller with the name of the module would pass for it.
        found = subprocess.run([interpreter(module), "-c", look], cwd=HERE, timeout=FIND_MODULE_LIMIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{interpreter(module)} cannot be run: {error}"
    return None if found.returncode == 0 else f"{interpreter(module)} has no module {module}"


def python(module, script, *arguments):
    return [interpreter(module), os.path.join(HERE, script), *map(str, arguments)]


def estimator(batch_size, roles):
    def tasks(scratch):
        command = python("tensorflow", "estimator_task.py", "--batch-size", batch_size, "--model-dir", scratch)
        return with_tf_config(command, roles) if roles else [("chief:0", command, {})]

    # The chief logs the global step, which counts the steps of all.
    return Peer("tensorflow", tasks, ("chief:0",), batch_size)


def tf2(strategy, batch_size, roles):
    def tasks(_):
        command = python("tensorflow", "tf2_task.py", "--strategy", strategy, "--batch-size", batch_size)
        return with_tf_config(command, roles) if roles else [("chief:0", command, {})]

    if strategy == "mirrored":
        return Peer("tensorflow", tasks, ("worker:0",), batch_size * roles["worker"])
    return Peer("tensorflow", tasks, ("chief:0",), batch_size)


def ddp(batch_size, world):
    def tasks(_):
        (address,) = free_addresses(1)
        shared = ["--batch-size", batch_size, "--world", world, "--address", address]
        return [(f"rank:{rank}", python("torch", "ddp_task.py", *shared, "--rank", rank), {}) for rank in range(world)]

    return Peer("torch", tasks, ("rank:0",), batch_size * world)


def torch_on_ours(batch_size):
    """Our parameter servers under a module of PyTorch, by the package for Python."""

    def tasks(scratch):
        command = python("trainyard", "torch_task.py", "--batch-size", batch_size, "--folder", scratch)
        return with_tf_config(command, {"ps": 1, "chief": 1, "worker": 1})

    # The chief tells the global step, which counts the steps of all.
    return Peer("trainyard", tasks, ("chief:0",), batch_size)


def paddle(batch_size, trainers):
    def tasks(_):
        return with_paddle_roles(python("paddle", "paddle_task.py", "--batch-size", batch_size), trainers)

    return Peer("paddle", tasks, tuple(f"trainer:{index}" for index in range(trainers)), batch_size)


def persia(batch_size, trainers):
    def tasks(scratch):
        return with_persia_roles(python("persia", "persia_task.py", "--batch-size", batch_size), scratch, trainers)

    return Peer("persia", tasks, tuple(f"trainer:{index}" for index in range(trainers)), batch_size)


def traffic(load, size, workers, work_per_step):
    def tasks(_):
        return with_tf_config(python("tensorflow", "traffic_task.py", load, "--size", size), {"ps": 1, "worker": workers})

    return Peer("tensorflow", tasks, tuple(f"worker:{index}" for index in range(workers)), work_per_step)


def on_servers(batch_size, *more):
    job = ("bench", "train", "configs/ctr-tensorflow.toml", "--cluster", "local:ps=1,worker=1")
    return Comparison(
        "examples/s",
        (*job, "--set", f"input.train.batch_size={batch_size}", *more),
        "examples_per_second",
        {
            "TF Estimator": estimator(batch_size, {"ps": 1, "chief": 1, "worker": 1}),
            "TF2 ParameterServerStrategy, fused": tf2("ps", batch_size, {"ps": 1, "worker": 2, "chief": 1}),
            "Paddle parameter server, fused": paddle(batch_size, 2),
            "PERSIA": persia(batch_size, 2),
        },
    )


def alone(batch_size):
    return Comparison(
        "examples/s",
        ("bench", "train", "configs/ctr-tensorflow.toml", "--cluster", "none", "--set", f"input.train.batch_size={batch_size}"),
        "examples_per_second",
        {"TF Estimator": estimator(batch_size, None), "TF2, fused": tf2("none", batch_size, None)},
    )


def kind(name, batch_size, *keys):
    """A kind of the field's models in one process, beside the same layers in PyTorch."""
    model = ", ".join((f'kind="{name}_classifier"', f"hidden_units={ctr.HIDDEN_UNITS}", *keys))
    command = python("torch", "kind_task.py", name, "--batch-size", batch_size)
    peer = Peer("torch", lambda _: [("trainer:0", command, {})], ("trainer:0",), batch_size)
    job = ("bench", "train", "configs/ctr-tensorflow.toml", "--cluster", "none", "--set", f"input.train.batch_size={batch_size}")
    return Comparison("examples/s", (*job, "--set", f"model={{{model}}}"), "examples_per_second", {"PyTorch, fused, sparse": peer})


def allreduce(batch_size):
    settings = ('strategy.kind="multi_worker_mirrored"', "strategy.pipeline_depth=0", f"input.train.batch_size={batch_size}")
    options = [part for setting in settings for part in ("--set", setting)]
    return Comparison(
        "examples/s",
        ("bench", "train", "configs/ctr-tensorflow.toml", "--cluster", "local:ps=0,worker=1", *options),
        "examples_per_second",
        {
            "TF2 MultiWorkerMirrored, fused": tf2("mirrored", batch_size, {"worker": 2}),
            "PyTorch DDP, gloo, fused, sparse": ddp(batch_size, 2),
        },
    )


def modules(batch_size):
    job = ("bench", "train", "configs/ctr-tensorflow.toml", "--cluster", "local:ps=1,worker=1")
    return Comparison(
        "examples/s",
        (*job, "--set", f"input.train.batch_size={batch_size}"),
        "examples_per_second",
        {
            "ours, a module of PyTorch": torch_on_ours(batch_size),
            "PyTorch DDP, gloo, fused, sparse": ddp(batch_size, 2),
        },
    )


def dense(workers):
    megabytes = DENSE_VALUES * 4 / 1e6
    return Comparison(
        "MB/s each way",
        ("bench", "ps", "--dense", str(DENSE_VALUES), "--unix-sockets", "--workers", str(workers)),
        "pulled_mb_per_second",
        {"TF": traffic("dense", DENSE_VALUES, workers, megabytes)},
    )


def sparse(workers, *more):
    return Comparison(
        "rows/s",
        ("bench", "ps", "--rows", str(SPARSE_ROWS), "--workers", str(workers), *more),
        "rows_per_second",
        {"TF": traffic("sparse", SPARSE_ROWS, workers, SPARSE_ROWS)},
    )


COMPARISONS = {
    "ctr-128": on_servers(128),
    "ctr-128-depth-0": on_servers(128, "--set", "strategy.pipeline_depth=0"),
    "ctr-512": on_servers(512),
    "ctr-512-one-process": alone(512),
    "dcn-512-one-process": kind("dcn", 512, "cross_layers=2"),
    "dlrm-512-one-process": kind("dlrm", 512, "bottom_units=[64]"),
    "allreduce-128": allreduce(128),
    "torch-512": modules(512),
    "torch-128": modules(128),
    "dense-1": dense(1),
    "dense-4": dense(4),
    "sparse-1": sparse(1, "--pipeline-depth", "1"),
    "sparse-4": sparse(4),
}


def run_ours(comparison, given):
    """Runs `trainyard bench`, and returns its JSON."""
    command = [given.trainyard, *comparison.ours, "--seconds", str(given.seconds), "--format", "json"]
    if comparison.ours[1] == "train":
        files = os.path.join(os.path.dirname(ctr.training_files()[0]), "ctr-train-*.tsv")
        command += ["--warmup", str(given.warmup), "--set", f'input.train.files=["{files}"]']
    if given.durability:
        is_job = comparison.ours[1] == "train"
        command += ["--set", f'parameter_servers.durability="{given.durability}"'] if is_job else ["--durability", given.durability]
    ended = subprocess.run(command, cwd=ctr.REPOSITORY, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)} has ended with {ended.returncode}:\n{ended.stderr}")
    return json.loads(ended.stdout)


def run_peer(peer, given):
    """Runs the processes of a peer, and returns their figures."""
    scratch = tempfile.mkdtemp(prefix="peer-")
    try:
        return measure(peer.tasks(scratch), peer.trainers, given.seconds, given.warmup, FIRST_STEP_LIMIT_SECONDS)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def record(name, number, side, rate, figures, given):
    """Writes a run as a line, and returns it."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    run = {"at": now, "comparison": name, "round": number, "side": side, "rate": rate, "unit": COMPARISONS[name].unit, "figures": figures}
    with open(given.out, "a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")
    shown = f"{rate:,.0f} {run['unit']}" if rate is not None else f"not run: {figures['reason']}"
    print(f"{name}, round {number}, {side}: {shown}", flush=True)
    return run


def compare(name, given):
    """Runs the rounds of a comparison, and returns its runs."""
    comparison = COMPARISONS[name]
    runs = []
    for number in range(1, given.rounds + 1):
        figures = run_ours(comparison, given)
        runs.append(record(name, number, "ours", figures[comparison.figure], figures, given))
        for title, peer in comparison.peers.items():
            missing = why_not(peer.module)
            if missing:
                runs.append(record(name, number, title, None, {"reason": missing}, given))
                continue
            try:
                figures = run_peer(peer, given)
            except PeerFailed as failure:
                runs.append(record(name, number, title, None, {"reason": str(failure)}, given))
                continue
            rate = sum(figures["steps_per_second"]) * peer.work_per_step
            runs.append(record(name, number, title, rate, figures, given))
    return runs


def table(runs):
    """Returns a table in Markdown: for each peer both rates and the ratio within a round, as the median and the range."""
    lines = ["| comparison | unit | ours | peer | its rate | ratio: median (range) |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(run["comparison"] for run in runs):
        own = {run["round"]: run["rate"] for run in runs if run["comparison"] == name and run["side"] == "ours"}
        for side in COMPARISONS[name].peers:
            theirs = [run for run in runs if run["comparison"] == name and run["side"] == side]
            rates = {run["round"]: run["rate"] for run in theirs if run["rate"]}
            rounds = sorted(rates.keys() & own.keys())
            if not rounds:
                reason = theirs[-1]["figures"]["reason"].splitlines()[0] if theirs else "not asked for"
                lines.append(f"| {name} | | | {side} | not run: {reason} | |")
                continue
            ratios = [own[number] / rates[number] for number in rounds]
            shown = [f"{min(values):,.0f} to {max(values):,.0f}" for values in ([own[it] for it in rounds], [rates[it] for it in rounds])]
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            lines.append(f"| {name} | {COMPARISONS[name].unit} | {shown[0]} | {side} | {shown[1]} | {ratio} |")
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("comparisons", nargs="*", choices=[[], *COMPARISONS], help="default: all")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=12)
    arguments.add_argument("--warmup", type=float, default=2)
    arguments.add_argument("--durability", help="of our parameter servers; default: the default of a job")
    arguments.add_argument("--trainyard", default=os.path.join(ctr.REPOSITORY, "target", "release", "trainyard"))
    arguments.add_argument("--out", default="results.jsonl", help="file to which each run is added")
    given = arguments.parse_args()
    runs = []
    for name in given.comparisons or COMPARISONS:
        runs += compare(name, given)
    print("\n" + table(runs))


if __name__ == "__main__":
    main()
