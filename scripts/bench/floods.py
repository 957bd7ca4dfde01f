"""Figure j: what one session feels while another takes all it can."""

import threading
import time

from samples import Figure, Goal
from server import Server

FLOODS = {
    "cpu": "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait",
    "processes": "while :; do for i in 1 2 3 4 5 6 7 8; do (while :; do sleep 60 & done) 2>/dev/null & done; wait; done",
    "memory": "while :; do python3 -c 'held = []\nwhile True: held.append(bytearray(1 << 24))' 2>/dev/null; done",
    "output": "yes & yes >&2 & wait",
    "disk": "while :; do dd if=/dev/zero of=/workspace/flood bs=1M count=1024 conv=fsync 2>/dev/null; done",
}
WITHOUT_GOAL = {"disk": "printed only: the bound on a disk's bandwidth needs control groups of version 2 with io"}
HEAD_START = 1.5
"""Seconds a flood has before anything is measured."""


class Flood:
    """A session that runs a script over and over until the `with` block ends: what ends for a limit begins again."""

    def __init__(self, server, script):
        self.client = server.client()
        self.agent = self.client.shell_agent()
        self.script = script
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.rounds = 0
        self.failure = None

    def __enter__(self):
        self.thread.start()
        time.sleep(HEAD_START)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(60)

    def _run(self):
        try:
            while not self.stopping.is_set():
                body = {"input": self.script, "background": True, "metadata": {"harness_id": self.agent}}
                response = self.client.call("POST", "/v1/responses", body)
                self.rounds += 1
                while response["status"] in ("queued", "in_progress"):
                    if self.stopping.wait(0.25):
                        self.client.call("POST", f"/v1/responses/{response['id']}/cancel", {})
                    response = self.client.call("GET", f"/v1/responses/{response['id']}")
                self.client.delete_session(response["metadata"]["session_id"])
        except Exception as error:  # Shown by whoever measures.
            self.failure = error


def run(bench):
    with Server(bench.binaries, bench.directory("flood") / "data") as server:
        client = server.client()
        body = {"input": "true", "metadata": {"harness_id": client.shell_agent()}}
        latest = client.call("POST", "/v1/responses", body)["id"]

        def true():
            nonlocal latest
            began = time.monotonic()
            latest = client.call("POST", "/v1/responses", {"input": "true", "previous_response_id": latest})["id"]
            return time.monotonic() - began

        count = 5 if bench.quick else 50
        for name, script in FLOODS.items():
            bench.say(f"a flood of {name}")
            for _ in range(3):
                true()
            alone = [true() for _ in range(count)]
            with Flood(server, script) as flood:
                beside = [true() for _ in range(count)]
            if flood.failure:
                raise RuntimeError(f"the flood of {name} failed: {flood.failure}")
            yield Figure(f"`true` beside a flood of {name}", beside, command=f"POST /v1/responses {{input: true}}; flood: {script}",
                         yardstick=Figure("alone", alone), goal=None if name in WITHOUT_GOAL else Goal("ratio", 2),
                         note=WITHOUT_GOAL.get(name, ""))
            time.sleep(1)
