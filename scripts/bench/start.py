"""Figure e: the server's start, and what it holds when idle."""

import pathlib
import socket
import subprocess
import time

from samples import Figure, Goal, in_turn
from server import Server

IDLE = 2.0
"""Seconds without requests before memory is read."""
READY = Goal("value", 0.1)


def run(bench):
    memory, python_memory = [], []
    place = bench.directory("start")
    kept = Server(bench.binaries, place / "kept")
    kept.start()
    kept.stop()

    def first(round_number):
        server = Server(bench.binaries, place / f"data{round_number}")
        try:
            return server.start()
        finally:
            server.stop()

    def again(round_number):
        took = kept.start()
        try:
            if round_number < 3:
                time.sleep(IDLE)
                memory.append(kept.memory())
        finally:
            kept.stop()
        return took

    def python(round_number):
        return start_python(place, python_memory if round_number < 3 else None)

    new, old, yardstick = in_turn(bench.quick, first, again, python)
    by_python = Figure("python3 -m http.server", yardstick, command="python3 -m http.server, until it accepts")
    command = "stead serve, until it says that it is ready"
    yield Figure("start, new data directory", new, command=command, yardstick=by_python, goal=READY)
    yield Figure("start, existing data directory", old, command=command, yardstick=by_python, goal=READY)
    resident = Figure("python3 -m http.server", python_memory, unit="B")
    yield Figure("resident memory, idle", memory, unit="B", command=f"VmRSS {IDLE:g} s after the start", yardstick=resident,
                 goal=Goal("value", 30 << 20))


def start_python(place, memory):
    """Seconds until Python's own file server accepts a connection."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() - began > 30:
                    raise RuntimeError("python3 -m http.server does not start") from None
                time.sleep(0.001)
        took = time.monotonic() - began
        if memory is not None:
            time.sleep(IDLE)
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            memory.append(int(status.split("VmRSS:")[1].split()[0]) * 1024)
        return took
    finally:
        process.terminate()
        process.wait()
