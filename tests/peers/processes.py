"""The processes of one run: started, their lines stamped with the time, their CPU time and memory read from /proc, and stopped."""

import json
import os
import re
import socket
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 10
LAST_LINES = 12
STEP = re.compile(r"step = (\d+)")


class PeerFailed(Exception):
    """A process of a peer has ended, or has not trained in time."""


def free_addresses(count):
    """Returns addresses that nobody listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for it in sockets:
            it.bind(("127.0.0.1", 0))
        return ["127.0.0.1:%d" % it.getsockname()[1] for it in sockets]
    finally:
        for it in sockets:
            it.close()


class Process:
    """A process and the lines that it has printed."""

    def __init__(self, name, command, environment):
        self.name = name
        self.started = time.monotonic()
        self.lines = []
        self.child = subprocess.Popen(
            command,
            cwd=HERE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def steps(self):
        """Returns (time, step) of each line that names a step."""
        found = ((when, STEP.search(line)) for when, line in list(self.lines))
        return [(when, int(match[1])) for when, match in found if match]

    def cpu_seconds(self):
        """Returns the CPU time so far, of user and system."""
        with open(f"/proc/{self.child.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def peak_megabytes(self):
        """Returns the peak of the resident memory."""
        with open(f"/proc/{self.child.pid}/status", encoding="utf-8") as file:
            peak = re.search(r"VmHWM:\s+(\d+) kB", file.read())
        return round(int(peak[1]) / 1024, 1)

    def check(self):
        if self.child.poll() is not None:
            told = "\n   ".join(line for _, line in self.lines[-LAST_LINES:])
            raise PeerFailed(f"{self.name} has ended with {self.child.returncode}:\n   {told}")

    def stop(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(STOP_SECONDS)
        self.reader.join(STOP_SECONDS)


def with_tf_config(command, roles):
    """Returns (name, command, environment) of each task of a cluster of TensorFlow. `roles` says how many tasks each role has."""
    addresses = iter(free_addresses(sum(roles.values())))
    cluster = {role: [next(addresses) for _ in range(count)] for role, count in roles.items()}
    return [
        (
            f"{role}:{index}",
            command,
            {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})},
        )
        for role, count in roles.items()
        for index in range(count)
    ]


def with_paddle_roles(command, trainers):
    """Returns (name, command, environment) of each task of a cluster of Paddle with one parameter server."""
    server, *addresses = free_addresses(1 + trainers)
    cluster = {
        "PADDLE_PSERVERS_IP_PORT_LIST": server,
        "PADDLE_TRAINER_ENDPOINTS": ",".join(addresses),
        "PADDLE_TRAINERS_NUM": str(trainers),
        # A trainer computes in one thread, as a process of PyTorch beside it does with its share of the processors.
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // trainers)),
    }

    def task(name, address, role):
        host, port = address.split(":")
        return (name, command, {**cluster, "POD_IP": host, "PADDLE_PORT": port, **role})

    return [task("server:0", server, {"TRAINING_ROLE": "PSERVER"})] + [
        task(f"trainer:{index}", address, {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(index)})
        for index, address in enumerate(addresses)
    ]


def with_persia_roles(command, folder, trainers):
    """Returns (name, command, environment) of each task of PERSIA with one parameter server. `command` is of a trainer without its role."""
    nats, server, worker, leader = free_addresses(4)
    program, options = command[:2], command[2:]
    shared = {"PERSIA_NATS_URL": f"nats://{nats}", "PERSIA_SOCKET_IFNAME": "lo", "LOG_LEVEL": "error"}
    servers = {"embedding-parameter-server": server, "embedding-worker": worker}
    return [
        ("nats", [*program, "nats"], shared),
        *((role, [*program, role, "--address", address, "--folder", folder], shared) for role, address in servers.items()),
        *(
            (
                f"trainer:{index}",
                [*program, "trainer", "--address", leader, *options],
                {**shared, "WORLD_SIZE": str(trainers), "RANK": str(index), "LOCAL_RANK": str(index)},
            )
            for index in range(trainers)
        ),
    ]


def measure(tasks, trainers, seconds, warmup, limit):
    """Runs tasks, and returns what the trainers did within `seconds`, from `warmup` seconds behind the first line of the last of them.

    `trainers` are names of tasks whose lines count steps. Rates are of each of them.
    """
    processes = []
    try:
        for task in tasks:
            processes.append(Process(*task))
        counted = [process for process in processes if process.name in trainers]
        deadline = time.monotonic() + limit
        while not all(process.steps() for process in counted):
            for process in processes:
                process.check()
            if time.monotonic() > deadline:
                waited = ", ".join(process.name for process in counted if not process.steps())
                raise PeerFailed(f"{waited}: no step within {limit} s")
            time.sleep(0.05)
        time.sleep(warmup)
        begin = time.monotonic()
        cpu_before = {process.name: process.cpu_seconds() for process in processes}
        time.sleep(seconds)
        for process in processes:
            process.check()
        end = time.monotonic()
        cpu = {process.name: process.cpu_seconds() - cpu_before[process.name] for process in processes}
        return {
            "steps_per_second": [rate(process, begin, end) for process in counted],
            "cpu_seconds_per_second": round(sum(cpu.values()) / (end - begin), 3),
            "first_line_after_seconds": round(max(process.steps()[0][0] - process.started for process in counted), 2),
            "peak_megabytes": {process.name: process.peak_megabytes() for process in processes},
            "last_line": counted[0].lines[-1][1],
        }
    finally:
        for process in processes:
            process.stop()


def rate(process, begin, end):
    """Returns the steps per second between the first and the last line of the window."""
    inside = [(when, step) for when, step in process.steps() if begin <= when <= end]
    if len(inside) < 2:
        raise PeerFailed(f"{process.name} has told {len(inside)} steps in {end - begin:.0f} s: measure for longer")
    (first, from_step), (last, to_step) = inside[0], inside[-1]
    return round((to_step - from_step) / (last - first), 3)
