"""A throw-away server and a client of it."""

import dataclasses
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

READY = "Stead is ready at "
PATIENCE = 60
SLOTS = 1024
"""Fewer than by default, so that there are user ids for several servers at the same time."""


@dataclasses.dataclass
class Binaries:
    """What is measured. Paths are made absolute."""

    server: str
    runtime: str
    launch_time: str
    uv: str
    bwrap: "str | None"
    docker: "str | None"
    throughput: str

    def __post_init__(self):
        for name in ("server", "runtime", "launch_time", "throughput", "uv"):
            path = getattr(self, name)
            setattr(self, name, os.path.abspath(path) if path else "")


class Server:
    """`stead serve` on a data directory of its own, until the `with` block ends. `settings` are variables of its environment."""

    def __init__(self, binaries, data, settings=None):
        self.data = pathlib.Path(data)
        self.data.mkdir(mode=0o700, exist_ok=True)
        self.command = [binaries.server, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        own = {"STEAD__RUNTIME__PATH": binaries.runtime, "STEAD__NATIVE__SLOTS": str(SLOTS)}
        self.environment = {**os.environ, **own, **(settings or {})}
        if binaries.uv and os.path.exists(binaries.uv):
            tool = self.data / "toolchains/uv/bin/uv"
            if not tool.exists():
                tool.parent.mkdir(parents=True)
                try:
                    # A copy of so many bytes would still be on its way to the disk when the start is measured.
                    os.link(binaries.uv, tool)
                except OSError:
                    shutil.copy2(binaries.uv, tool)
        self.process = None
        self.url = None
        self.log = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, failure, *_):
        self.stop()
        if failure:
            for line in [line for line in self.log if " WARN " in line or " ERROR " in line][-10:]:
                print(f"  the server's log: {line}", file=sys.stderr)

    def start(self):
        """Starts it and returns the seconds until it said that it is ready."""
        began = time.monotonic()
        self.log = []
        self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        ready = threading.Event()
        threading.Thread(target=self._read, args=(self.process.stderr, ready), daemon=True).start()
        ready.wait(PATIENCE)
        took = time.monotonic() - began
        if not self.url:
            self.stop()
            raise RuntimeError("the server did not become ready: " + " | ".join(self.log[-3:]))
        return took

    def _read(self, pipe, ready):
        # Until the end of the pipe, or the server would come to wait for its own log.
        for line in pipe:
            self.log.append(line.rstrip())
            if READY in line:
                self.url = line.split(READY, 1)[1].split()[0].strip()
                ready.set()
        ready.set()

    def stop(self):
        """Ends it in good order, so that it takes its sandboxes down: another signal would leave them to the next server."""
        self.url = None
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def memory(self):
        """Resident bytes of the server's process."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def numbers(self):
        """What it counts, by name; those with labels are left out."""
        client = self.client()
        client.connection.request("GET", "/metrics", headers=client.headers)
        answer = client.connection.getresponse()
        lines = answer.read().decode().splitlines()
        if answer.status != 200:
            raise RuntimeError(f"GET /metrics: {answer.status}")
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#") and "{" not in line)
        return {name: float(value) for name, value in pairs}

    def client(self):
        return Client(self.url, (self.data / "admin.key").read_text().strip())


class Client:
    """One kept-alive connection, so that what is timed is the server's work."""

    def __init__(self, url, key):
        parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=1800)
        self.headers = {"Authorization": "Bearer " + key}

    def call(self, method, path, body=None, content_type="application/json"):
        """The answer's JSON. Anything but success raises, with the server's own words."""
        if body is not None and content_type == "application/json":
            body = json.dumps(body).encode()
        headers = dict(self.headers, **({"Content-Type": content_type} if body is not None else {}))
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500].decode(errors='replace')}")
        return json.loads(text) if text else None

    def first_delta(self, body):
        """Seconds from a task's request to the first text that it says, by the stream of its events, and its last response."""
        data = json.dumps(dict(body, stream=True)).encode()
        headers = dict(self.headers, **{"Content-Type": "application/json", "Accept": "text/event-stream"})
        began = time.monotonic()
        self.connection.request("POST", "/v1/responses", data, headers)
        answer = self.connection.getresponse()
        if answer.status >= 300:
            raise RuntimeError(f"POST /v1/responses: {answer.status} {answer.read(500).decode(errors='replace')}")
        took, last = None, None
        while line := answer.readline():
            if not line.startswith(b"data: {"):
                continue
            if took is None and b'"response.output_text.delta"' in line:
                took = time.monotonic() - began
            event = json.loads(line[6:])
            last = event.get("response", last)
        if took is None or last["status"] != "completed":
            raise RuntimeError(f"the task ended as {last and last['status']}: {last and last.get('error')}")
        return took, last

    def delete_session(self, session):
        self.call("DELETE", "/v1/sessions/" + session)

    def project(self, name):
        """The id of a new project."""
        return self.call("POST", "/v1/environments", {"name": name, "description": "", "entry": ""})["id"]

    def put(self, project, path, data):
        quoted = urllib.parse.quote(path)
        return self.call("PUT", f"/v1/environments/{project}/files/{quoted}", data, "application/octet-stream")

    def build(self, project):
        """Builds and waits for the end; raises with the end of the build's log when it fails."""
        version = self.call("POST", f"/v1/environments/{project}/build")["version"]
        while True:
            record = self.call("GET", f"/v1/environments/{project}/builds/{version}")
            if record["status"] == "ready":
                return record
            if record["status"] != "building":
                raise RuntimeError(f"the build failed: {record.get('error')}: {record.get('log', '')[-1000:]}")
            time.sleep(0.02)

    def shell_agent(self):
        """The id of an agent that runs commands."""
        return self.call("POST", "/v1/harnesses", {"name": "Bench", "base": "shell"})["id"]
