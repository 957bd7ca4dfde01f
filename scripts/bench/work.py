"""What the clients of the soak do."""

import collections
import dataclasses
import io
import json
import random
import socket
import tarfile
import threading
import time
import urllib.parse

from server import Client

KEPT = 6
"""Sessions that one worker has at a time."""
PROJECTS = 2


@dataclasses.dataclass
class Session:
    id: str
    latest: str
    project: "str | None"


class Worker(threading.Thread):
    """One client that does one thing after the other, drawn by lot, until it is told to stop."""

    def __init__(self, server, seed, stopping):
        super().__init__(daemon=True)
        self.server, self.stopping = server, stopping
        self.draw = random.Random(seed)
        self.name = f"worker {seed}"
        self.sessions, self.projects = collections.deque(), []
        self.done, self.failures = collections.Counter(), []
        self.number = 0
        self.client = server.client()
        self.agent = self.client.shell_agent()

    def run(self):
        names = list(ACTIONS)
        weights = [weight for _, weight in ACTIONS.values()]
        while not self.stopping.is_set():
            name = self.draw.choices(names, weights)[0]
            try:
                ACTIONS[name][0](self)
                self.done[name] += 1
            except Exception as error:  # One that goes wrong is told, and the rest goes on.
                if self.stopping.is_set():
                    return
                self.failures.append(f"{self.name}, {name}: {type(error).__name__}: {error}")
                self.client = self.server.client()
                if len(self.failures) > 50:
                    return

    def made(self):
        self.number += 1
        return self.number

    # Sessions.

    def begin(self):
        while len(self.sessions) >= KEPT:
            self.delete()
        body = {"input": f"echo {self.made()} > kept.txt; head -c 20000 /dev/zero | tr '\\0' a", "metadata": {"harness_id": self.agent}}
        project = None
        if self.projects and self.draw.random() < 0.5:
            project = self.draw.choice(self.projects)
            self.client.build(project)
            body["metadata"]["environment"] = project
        answer = self.client.call("POST", "/v1/responses", body)
        expect(answer, "completed")
        self.sessions.append(Session(answer["metadata"]["session_id"], answer["id"], project))

    def go_on(self):
        """Another task in a session, which may have been stopped because it was idle."""
        if not self.sessions:
            return self.begin()
        session = self.next()
        answer = self.client.call("POST", "/v1/responses", {"input": "cat kept.txt", "previous_response_id": session.latest})
        session.latest = answer["id"]
        expect(answer, "completed")

    def next(self):
        """The session that has waited longest; it becomes the last."""
        self.sessions.rotate(-1)
        return self.sessions[-1]

    def delete(self):
        if self.sessions:
            self.client.delete_session(self.sessions.popleft().id)

    def cancel(self):
        if not self.sessions:
            return self.begin()
        session = self.next()
        body = {"input": "while :; do echo tick; sleep 0.05; done", "previous_response_id": session.latest, "background": True}
        session.latest = self.client.call("POST", "/v1/responses", body)["id"]
        time.sleep(self.draw.random())
        self.client.call("POST", f"/v1/responses/{session.latest}/cancel", {})
        expect(self.ended(session.latest), "cancelled")

    def ended(self, response):
        while (answer := self.client.call("GET", f"/v1/responses/{response}"))["status"] in ("queued", "in_progress"):
            time.sleep(0.05)
        return answer

    # Clients that leave.

    def abandon(self):
        """A stream whose client goes away in the middle; the task ends by itself."""
        if not self.sessions:
            return self.begin()
        session = self.next()
        url = urllib.parse.urlsplit(self.server.url)
        script = "for i in $(seq 40); do echo line $i; sleep 0.02; done"
        body = json.dumps({"input": script, "previous_response_id": session.latest, "stream": True})
        with socket.create_connection((url.hostname, url.port), timeout=60) as raw:
            raw.sendall(f"POST /v1/responses HTTP/1.1\r\nHost: {url.netloc}\r\n{self.head()}Content-Type: application/json\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            seen = b""
            while b'"response.output_text.delta"' not in seen and (piece := raw.recv(4096)):
                seen += piece
        start = seen.index(b'"resp_') + 1
        session.latest = seen[start:seen.index(b'"', start)].decode()
        self.ended(session.latest)

    def half_a_body(self):
        """A request that never comes whole."""
        url = urllib.parse.urlsplit(self.server.url)
        with socket.create_connection((url.hostname, url.port), timeout=60) as raw:
            raw.sendall(f"POST /v1/files HTTP/1.1\r\nHost: {url.netloc}\r\n{self.head()}Content-Type: multipart/form-data; boundary=x\r\n"
                        "Content-Length: 100000\r\n\r\n--x\r\n".encode())
            time.sleep(0.1)

    def head(self):
        return "".join(f"{name}: {value}\r\n" for name, value in self.client.headers.items())

    def come_back(self):
        """A client that begins anew, with what it has on record."""
        self.client = Client(self.server.url, (self.server.data / "admin.key").read_text().strip())
        for session in self.sessions:
            self.client.call("GET", f"/v1/sessions/{session.id}")

    # Projects.

    def project(self):
        while len(self.projects) >= PROJECTS:
            project = self.projects.pop(0)
            for session in [session for session in self.sessions if session.project == project]:
                self.sessions.remove(session)
                self.client.delete_session(session.id)
            self.client.call("DELETE", "/v1/environments/" + project)
        made = self.client.project(f"Soak {self.name} {self.made()}")
        self.client.put(made, "setup.sh", b"#!/bin/sh\necho built > built.txt\n")
        self.projects.append(made)

    def build(self):
        if not self.projects:
            return self.project()
        project = self.draw.choice(self.projects)
        self.client.put(project, "app.py", f"print({self.made()})\n".encode())
        if self.draw.random() < 0.3:
            self.client.put(project, "setup.sh", f"#!/bin/sh\necho {self.made()} > built.txt\n".encode())
        self.client.build(project)

    def import_(self):
        if not self.projects:
            return self.project()
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for number in range(200):
                text = f"{number} {self.made() if number % 4 == 0 else 0}\n".encode() * 20
                member = tarfile.TarInfo(f"p/d{number % 10}/f{number}.txt")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
        path = f"/v1/environments/{self.draw.choice(self.projects)}/import?replace=1"
        self.client.call("POST", path, data.getvalue(), "application/x-tar")

    def upload(self):
        part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + str(self.made()).encode() * 1000 + b"\r\n--x--\r\n"
        self.client.call("POST", "/v1/files", part, "multipart/form-data; boundary=x")


def expect(answer, status):
    if answer["status"] != status:
        raise RuntimeError(f"the task ended as {answer['status']}: {answer.get('error')}")


ACTIONS = {
    "start": (Worker.begin, 6),
    "go on": (Worker.go_on, 10),
    "delete": (Worker.delete, 3),
    "cancel": (Worker.cancel, 2),
    "abandon a stream": (Worker.abandon, 2),
    "half a body": (Worker.half_a_body, 2),
    "come back": (Worker.come_back, 2),
    "project": (Worker.project, 1),
    "build": (Worker.build, 2),
    "import": (Worker.import_, 2),
    "upload": (Worker.upload, 2),
}
