"""Serves the ctr job by ours and by MLServer with onnxruntime in turn, under the same load generator, and prints the ratios.

    python serving.py --trainyard target/release/trainyard --job configs/ctr-tensorflow.toml --rounds 3

The job is trained already. Run it with the Python of an environment that has `mlserver` and `onnxruntime` (see README.md). MLServer gets
the ids of hashed features, so its side of the comparison leaves out the hashing that ours does.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
OURS, THEIRS = 18501, 18601
REQUESTS = 512
START_LIMIT_SECONDS = 60


def bodies(lines, rows):
    """Bodies of requests with the inputs of the graph, padded with -1 to the same number of ids."""
    records = [json.loads(line) for line in lines]
    for first in range(0, len(records) - rows + 1, rows):
        batch = records[first : first + rows]
        inputs = []
        for name in batch[0]:
            width = max(1, max(len(record[name]) for record in batch))
            padded = [record[name] + [-1] * (width - len(record[name])) for record in batch]
            data = [value for row in padded for value in row]
            datatype = "INT64" if name.endswith("/ids") else "FP32"
            inputs.append({"name": name, "shape": [rows, width], "datatype": datatype, "data": data})
        yield json.dumps({"inputs": inputs})


def wait_until_ready(port, model):
    url = f"http://127.0.0.1:{port}/v2/models/{model}/ready"
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url}: not ready after {START_LIMIT_SECONDS} s")


def measure(arguments, command, port, further, environment=None):
    """Starts a server, loads it, stops it, and returns the figures."""
    server = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        wait_until_ready(port, "ctr")
        told = subprocess.run(
            [arguments.trainyard, "bench", "serve", arguments.job, "--model", "ctr", "--protocol", "http-json"]
            + ["--server", f"127.0.0.1:{port}", "--seconds", str(arguments.seconds), "--format", "json"]
            + further,
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(told.stdout)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def mlserver(folder, graph, workers):
    """Writes the configuration of MLServer, and returns its command."""
    (folder / "settings.json").write_text(
        json.dumps(
            {
                "http_port": THEIRS,
                "grpc_port": THEIRS + 1,
                "metrics_port": THEIRS + 2,
                "parallel_workers": workers,
                "debug": False,
            }
        )
    )
    (folder / "model-settings.json").write_text(
        json.dumps(
            {
                "name": "ctr",
                "implementation": "mlserver_onnx.OnnxGraph",
                "parameters": {"uri": str(graph)},
            }
        )
    )
    return [str(pathlib.Path(sys.executable).with_name("mlserver")), "start", str(folder)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainyard", default="target/release/trainyard")
    parser.add_argument("--job", default="configs/ctr-tensorflow.toml")
    parser.add_argument("--records", required=True, help="a file of the job's records")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workers", type=int, default=0, help="processes of MLServer that predict; 0 = its own")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = [arguments.trainyard]
        exported = ["--format", "onnx", "--hashed-as-ids", "--output", str(folder / "export")]
        subprocess.run(run + ["export", arguments.job] + exported, check=True, stdout=subprocess.DEVNULL)
        graph = next((folder / "export").glob("*/model.onnx"))
        inputs = folder / "ids.jsonl"
        transformed = ["--input", arguments.records, "--output", str(inputs)]
        subprocess.run(run + ["transform", arguments.job] + transformed, check=True, stdout=subprocess.DEVNULL)
        lines = inputs.read_text().splitlines()
        peer = mlserver(folder, graph, arguments.workers)
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        ours = run + ["serve", arguments.job, "--name", "ctr", "--listen", f"127.0.0.1:{OURS}", "--log-level", "warn"]
        for rows in arguments.rows:
            requests = folder / f"requests-{rows}.jsonl"
            made = list(bodies(lines[: REQUESTS * rows], rows))
            requests.write_text("\n".join(made))
            connections = ["--rows", str(rows), "--connections", "32" if rows == 1 else "8"]
            ratios = []
            for _ in range(arguments.rounds):
                own = measure(arguments, ours, OURS, connections)
                theirs = measure(
                    arguments, peer, THEIRS, connections + ["--requests", str(requests)], environment
                )
                for side, figures in [("ours", own), ("mlserver", theirs)]:
                    print(
                        f"{rows} rows, {side}: {figures['rows_per_second']:.0f} rows/s, p99 "
                        f"{figures['latency_ms']['p99']:.2f} ms, {figures['failed']} failed",
                        flush=True,
                    )
                ratios.append(own["rows_per_second"] / theirs["rows_per_second"])
            print(f"{rows} rows: {statistics.median(ratios):.1f} x mlserver")


main()
