"""Measures how a server of predictions follows training: one parameter server, a chief, a worker and the server on one machine.

    python3 tests/peers/follow_training.py --program target/release/trainyard --data data/ctr --out docs/figures/following.svg

It prints the training rate with and without publication in turn, and the bytes of increments by the bytes of their values. With
--out, it then prints the time from an applied step to an answer that has it, kills each process once, and draws the timeline.
"""

import argparse
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

SAMPLE_SECONDS = 0.1
WARM_SECONDS = 6
READY_SECONDS = 90
STOP_SECONDS = 60
KILLS = ["ps", "worker", "chief", "serving"]
JOB = "configs/ctr-tensorflow.toml"


def ask(url):
    """Returns the JSON at a URL; None if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


class Run:
    """A training run under `trainyard up`, in a folder of its own."""

    def __init__(self, options, every_secs):
        self.folder = tempfile.mkdtemp(prefix="following-")
        self.model_dir = os.path.join(self.folder, "model")
        files = lambda part: "input.%s.files=[%s]" % (part, json.dumps(os.path.join(os.path.abspath(options.data), "ctr-%s-*.tsv" % part)))
        changes = [files("train"), files("eval"), "input.train.epochs=1000", "publish.every_secs=%d" % every_secs]
        command = [options.program, "up", JOB, "--cluster", "local:ps=1,worker=1", "--model-dir", self.model_dir]
        for change in changes:
            command += ["--set", change]
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.child = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.page = self.wait_for_page()

    def wait_for_page(self):
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            with open(self.log.name) as log:
                found = re.search(r"in a browser: (http://\S+)", log.read())
            if found:
                return found[1].rstrip("/")
            time.sleep(SAMPLE_SECONDS)
        raise SystemExit("the run has no page after %d s: see %s" % (READY_SECONDS, self.log.name))

    def step(self):
        run = ask(self.page + "/api/v1/run")
        # A chief that has started says 0 until it has asked the servers.
        return run["global_step"] or None if run else None

    def wait_for_steps(self):
        until = time.monotonic() + READY_SECONDS
        while not self.step():
            if time.monotonic() > until:
                raise SystemExit("no step after %d s: see %s" % (READY_SECONDS, self.log.name))
            time.sleep(SAMPLE_SECONDS)

    def kill(self, role):
        """Kills the process of a role."""
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            with open(path, "rb") as file:
                words = file.read().split(b"\0")
            is_role = any(pair == (b"--role", role.encode()) for pair in zip(words, words[1:]))
            process = int(path.split("/")[2])
            if is_role and parent(process) == self.child.pid:
                os.kill(process, signal.SIGKILL)
                return
        raise SystemExit("no process of the role %s" % role)

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(STOP_SECONDS)
        self.log.close()

    def remove(self):
        shutil.rmtree(self.folder)


def parent(process):
    try:
        with open("/proc/%d/stat" % process) as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


class Serving:
    """A server of predictions that follows a run."""

    def __init__(self, options, run):
        self.command = [options.program, "serve", run.model_dir, "--name", "ctr", "--listen", "127.0.0.1:%d" % options.port]
        self.url = "http://127.0.0.1:%d/v1/models/ctr" % options.port
        self.log = open(os.path.join(run.folder, "serving.log"), "w")
        self.start()

    def start(self):
        self.child = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT)

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.start()

    def version(self):
        status = ask(self.url)
        states = status["model_version_status"] if status else []
        return max((int(it["version"]) for it in states if it["state"] == "AVAILABLE"), default=None)

    def stop(self):
        self.child.terminate()
        self.child.wait(STOP_SECONDS)
        self.log.close()


class Samples(threading.Thread):
    """Samples the step of a run and the version that answers."""

    def __init__(self, run, serving):
        super().__init__(daemon=True)
        self.run_of, self.serving = run, serving
        self.rows, self.is_over = [], False
        self.start()

    def run(self):
        while not self.is_over:
            step, version = self.run_of.step(), self.serving.version()
            self.rows.append((time.monotonic(), step, version))
            time.sleep(SAMPLE_SECONDS)


def lags(rows):
    """Returns, for each sample of a step, the time until an answer has that step; without those at the end that none has."""
    out, at = [], 0
    for when, step, _ in rows:
        if step is None:
            continue
        while at < len(rows) and (rows[at][2] is None or rows[at][2] < step or rows[at][0] < when):
            at += 1
        if at == len(rows):
            break
        out.append(rows[at][0] - when)
    return sorted(out)


def rate(options, every_secs):
    """Returns the steps per second of a run with its server."""
    run = Run(options, every_secs)
    serving = Serving(options, run)
    run.wait_for_steps()
    time.sleep(WARM_SECONDS)
    begun, first = time.monotonic(), run.step()
    time.sleep(options.seconds)
    steps = (run.step() - first) / (time.monotonic() - begun)
    serving.stop()
    run.stop()
    if every_secs:
        tell_bytes(run.model_dir)
    run.remove()
    return steps


def tell_bytes(model_dir):
    """Prints the bytes of the increments by the bytes of the values in them."""
    files, values, count, biggest = 0, 0, 0, 0
    for path in glob.glob(os.path.join(model_dir, "publish", "increment-*", "manifest.json")):
        with open(path) as file:
            shards = json.load(file)["shards"]
        count += 1
        for shard in shards:
            files += shard["bytes"]
            biggest = max(biggest, shard["bytes"])
            for tensor in shard["tensors"]:
                held = tensor.get("held", {}).get("rows", tensor["row_end"] - tensor["row_begin"])
                values += held * tensor["width"] * 4 if tensor.get("dtype", "F32") == "F32" else 0
    if values:
        print("  increments: %d, largest %.1f MB, bytes / bytes of values = %.3f" % (count, biggest / 1e6, files / values))


def plot(rows, kills, path):
    """Draws the steps that are trained and that answer, and the kills."""
    width, height, left, top = 760, 420, 80, 60
    begin, end = rows[0][0], rows[-1][0]
    most = max(step for _, step, _ in rows if step is not None)
    x = lambda when: left + (when - begin) / (end - begin) * (width - left - 25)
    y = lambda step: height - 50 - step / most * (height - 50 - top)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">' % (width, height, width, height)]
    out.append('<rect width="100%" height="100%" fill="white"/>')
    out.append('<text x="%d" y="24" font-size="16" font-weight="bold">Steps trained, and step of the values that answer</text>' % left)
    for when, name in kills:
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#CC3333" stroke-dasharray="4 3"/>' % (x(when), top, x(when), height - 50))
        out.append('<text x="%.1f" y="%d" fill="#CC3333">kill -9 %s</text>' % (x(when) + 3, top - 6, name))
    for place, colour, name in [(1, "#2266BB", "trained"), (2, "#DD8800", "answers")]:
        points = " ".join("%.1f,%.1f" % (x(row[0]), y(row[place])) for row in rows if row[place] is not None)
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>' % (points, colour))
        out.append('<text x="%d" y="%d" fill="%s">%s</text>' % (left + 12, top + 18 * place, colour, name))
    for part in range(5):
        step, when = most * part / 4, begin + (end - begin) * part / 4
        out.append('<text x="%d" y="%.1f" text-anchor="end">%d</text>' % (left - 8, y(step) + 4, step))
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%.0f s</text>' % (x(when), height - 30, when - begin))
    out.append('<text x="%d" y="%d">seconds; global step on the left</text>' % (left, height - 10))
    with open(path, "w") as file:
        file.write("\n".join(out + ["</svg>", ""]))


def timeline(options):
    run = Run(options, options.every_secs)
    serving = Serving(options, run)
    run.wait_for_steps()
    until = time.monotonic() + READY_SECONDS
    while serving.version() is None and time.monotonic() < until:
        time.sleep(SAMPLE_SECONDS)
    samples = Samples(run, serving)
    time.sleep(options.seconds)
    quiet = lags(list(samples.rows))
    if quiet:
        p99 = quiet[int(0.99 * (len(quiet) - 1))]
        print("applied step to an answer that has it: p50 %.2f s, p99 %.2f s, most %.2f s of %d samples" % (quiet[len(quiet) // 2], p99, quiet[-1], len(quiet)))
    kills = []
    for name in KILLS:
        kills.append((time.monotonic(), name))
        serving.kill() if name == "serving" else run.kill(name)
        time.sleep(options.pause)
    samples.is_over = True
    samples.join()
    shown = [version for _, _, version in samples.rows if version is not None]
    back = sum(later < earlier for earlier, later in zip(shown, shown[1:]))
    print("samples %d, answers that went back %d" % (len(samples.rows), back))
    plot(samples.rows, kills, options.out)
    serving.stop()
    run.stop()
    run.remove()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--program", required=True)
    arguments.add_argument("--data", required=True)
    arguments.add_argument("--out")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=25)
    arguments.add_argument("--pause", type=float, default=15)
    arguments.add_argument("--every-secs", type=int, default=5)
    arguments.add_argument("--port", type=int, default=18501)
    options = arguments.parse_args()
    for turn in range(options.rounds):
        without, with_cuts = rate(options, 0), rate(options, options.every_secs)
        print("round %d: steps/s without %.1f, with %.1f: %.1f %%" % (turn + 1, without, with_cuts, 100 * with_cuts / without), flush=True)
    if options.out:
        timeline(options)


if __name__ == "__main__":
    main()
