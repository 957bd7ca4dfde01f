"""Figure k: how many reads one second of a processor serves."""

import os
import socket
import time
import urllib.parse

from samples import Figure
from server import Server

CONNECTIONS = 8
PROJECTS = 100
SECONDS = 2.0
UNIT = "/CPU-s"


class Load:
    """Kept-alive connections on which the same request is sent over and over, so that the server's time is all that counts."""

    def __init__(self, server):
        parts = urllib.parse.urlsplit(server.url)
        key = (server.data / "admin.key").read_text().strip()
        self.pid = server.process.pid
        self.head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n\r\n"
        self.sockets = [socket.create_connection((parts.hostname, parts.port), timeout=60) for _ in range(CONNECTIONS)]
        for one in self.sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self):
        for one in self.sockets:
            one.close()

    def status(self, path):
        """The status of one request."""
        self.sockets[0].sendall(f"GET {path} HTTP/1.1\r\n{self.head}".encode())
        return int(answer(self.sockets[0]).split(b" ", 2)[1])

    def per_second(self, path, seconds):
        """Requests that the server answered for each second of a processor that it used."""
        request = f"GET {path} HTTP/1.1\r\n{self.head}".encode()
        before, began, count = processor_seconds(self.pid), time.monotonic(), 0
        while time.monotonic() - began < seconds:
            for one in self.sockets:
                one.sendall(request)
            for one in self.sockets:
                head = answer(one)
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"GET {path}: {head[:100]!r}")
            count += CONNECTIONS
        return count / max(processor_seconds(self.pid) - before, 1 / os.sysconf("SC_CLK_TCK"))


def answer(connection):
    """Reads one answer to its end and returns its head."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += more(connection)
    head, body = received.split(b"\r\n\r\n", 1)
    lines = head.lower().split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), None)
    if length is None:
        while not body.endswith(b"0\r\n\r\n"):
            body = body[-8:] + more(connection)
        return head
    left = length - len(body)
    while left > 0:
        left -= len(more(connection))
    return head


def more(connection):
    data = connection.recv(1 << 16)
    if not data:
        raise RuntimeError("the server closed a connection")
    return data


def processor_seconds(pid):
    """What a process has used, in user and system mode."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(bench):
    with Server(bench.binaries, bench.directory("read") / "data") as server:
        client = server.client()
        for number in range(PROJECTS):
            project = client.project(f"Read {number}")
        client.put(project, "hello.txt", b"hello\n")
        response = client.call("POST", "/v1/responses", {"input": "echo hi", "metadata": {"harness_id": client.shell_agent()}})
        load = Load(server)
        nothing = next(path for path in ("/healthz", "/v1/uhp") if load.status(path) == 200)
        paths = {
            "GET one project": f"/v1/environments/{project}",
            "GET one task": f"/v1/responses/{response['id']}",
            "GET one file": f"/v1/environments/{project}/files/hello.txt",
            f"LIST of {PROJECTS} projects": "/v1/environments",
        }
        seconds = 0.5 if bench.quick else SECONDS
        samples = {path: [] for path in (nothing, *paths.values())}
        for _ in range(3 if bench.quick else 7):
            for path, taken in samples.items():
                taken.append(load.per_second(path, seconds))
        load.close()
    yardstick = Figure(f"GET {nothing}", samples[nothing], unit=UNIT, command=f"GET {nothing}")
    for name, path in paths.items():
        yield Figure(name, samples[path], unit=UNIT, command=f"GET {path}, {CONNECTIONS} connections", yardstick=yardstick)
