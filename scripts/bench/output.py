"""Figure l: a command's output through the API, beside a pipe, and what another stream feels meanwhile."""

import http.client
import json
import subprocess
import threading
import time

from samples import Figure, Goal, timed
from server import Server
from sessions import Starter

LINE = "0123456789abcdef" * 4
SIZE = 1 << 30
FRAMES = "application/vnd.stead.output"
"""The form of the output that `stead run` takes."""
LINES = "application/x-ndjson"
OUTPUT_LIMIT = 16 << 30
"""More than anything here writes: the default would end the command."""


def script(size):
    return f"yes {LINE} | head -c {size}"


def through_pipe(size):
    """Bytes per second of the same command into a pipe that somebody empties."""
    began = time.monotonic()
    with subprocess.Popen(["/bin/sh", "-c", script(size)], stdout=subprocess.PIPE) as process:
        received = 0
        while piece := process.stdout.read(1 << 16):
            received += len(piece)
    if received != size:
        raise RuntimeError(f"the pipe gave {received} bytes of {size}")
    return size / (time.monotonic() - began)


class Flow:
    """A task that writes, and a client that takes all of its output as it comes."""

    def __init__(self, server, size):
        self.server, self.size = server, size
        self.client = server.client()
        self.agent = self.client.shell_agent()

    def start(self):
        body = {"input": script(self.size), "background": True, "metadata": {"harness_id": self.agent}}
        return self.client.call("POST", "/v1/responses", body)

    def take(self, response, accept=FRAMES):
        """Follows the raw output to its end."""
        url = self.client.connection
        connection = http.client.HTTPConnection(url.host, url.port, timeout=600)
        turn = "turn_" + response["id"].split("_", 1)[1]
        connection.request("GET", f"/stead/v1/turns/{turn}/output", headers={**self.client.headers, "Accept": accept})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"the output: {answer.status} {answer.read(300)!r}")
        tail = b""
        while piece := answer.read1(1 << 16):
            tail = (tail + piece)[-2000:]
        connection.close()
        end = json.loads(tail[tail.rindex(b'{"state"'):])
        if end.get("state") != "completed":
            raise RuntimeError(f"the task ended as {end}")
        found = self.client.call("GET", f"/stead/v1/turns/{turn}")["output_bytes"]
        if found < self.size:
            raise RuntimeError(f"{found} bytes of {self.size} were kept")

    def rate(self, accept):
        began = time.monotonic()
        response = self.start()
        self.take(response, accept)
        took = time.monotonic() - began
        self.client.delete_session(response["metadata"]["session_id"])
        return self.size / took


def run(bench):
    size = SIZE // 16 if bench.quick else SIZE
    settings = {"STEAD__SESSIONS__OUTPUT": str(OUTPUT_LIMIT)}
    with Server(bench.binaries, bench.directory("output") / "data", settings) as server:
        flow = Flow(server, size)
        as_frames, as_lines, piped = [], [], []
        for number in range(3):
            bench.say(f"{size >> 20} MiB, {number + 1}")
            piped.append(through_pipe(size))
            as_frames.append(flow.rate(FRAMES))
            as_lines.append(flow.rate(LINES))
        pipe = Figure("a pipe", piped, unit="B/s", command=script(size) + " into a pipe")
        command = "POST /v1/responses {input: the same}, GET /stead/v1/turns/…/output to its end, which accepts "
        yield Figure("command output through the API", as_frames, unit="B/s", yardstick=pipe, goal=Goal("share", 0.5),
                     command=command + FRAMES, note="everything is also kept on disk")
        yield Figure("  as lines of JSON", as_lines, unit="B/s", yardstick=pipe, command=command + LINES)
        yield from beside(bench, server, flow)


def beside(bench, server, flow):
    """The start of another stream, with and without a flow."""
    starter = Starter(server)
    warm = Continued(server)
    count = 5 if bench.quick else 30
    idle, idle_warm = [], []
    for _ in range(count):
        idle.append(starter.start())
        idle_warm.append(warm.start())
    busy, busy_warm, failures = [], [], []
    while len(busy) < count:
        response = flow.start()

        def follow():
            try:
                flow.take(response)
            except Exception as error:  # Shown by whoever measures.
                failures.append(error)

        reader = threading.Thread(target=follow)
        reader.start()
        time.sleep(0.3)
        while reader.is_alive() and len(busy) < count:
            one, other = starter.start(), warm.start()
            if reader.is_alive():
                busy.append(one)
                busy_warm.append(other)
        reader.join()
        flow.client.delete_session(response["metadata"]["session_id"])
        if failures:
            raise failures[0]
    amount = f"{flow.size >> 20} MiB flow"
    yield Figure(f"first byte of a new session while {amount}", busy, yardstick=Figure("when nothing flows", idle))
    yield Figure("  in a session that runs already", busy_warm, yardstick=Figure("when nothing flows", idle_warm))


class Continued:
    """Tasks in one session, each timed to its first output."""

    def __init__(self, server):
        self.starter = Starter(server)
        self.latest = self.starter.client.first_delta(self.starter.body)[1]["id"]

    def start(self):
        body = {"input": self.starter.body["input"], "previous_response_id": self.latest}
        took, response = self.starter.client.first_delta(body)
        self.latest = response["id"]
        return took
