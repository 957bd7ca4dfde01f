"""Figure b: a shell task through HTTP, answered when it has ended."""

import time

from disk import Log
from samples import Figure, in_turn, timed
from server import Server

COMMITS = 4
"""Durable commits of a task: at most three before its input is given, and one at its end."""


def run(bench):
    place = bench.directory("task")
    with Server(bench.binaries, place / "data") as server:
        yield from measure(bench, server.client(), Log(place))


def measure(bench, client, log):
    agent = client.shell_agent()
    sessions = []
    project = client.project("Bench")
    client.put(project, "hello.txt", b"hello\n")
    client.build(project)

    def task(previous=None, environment=None):
        body = {"input": "echo hi", "metadata": {}}
        if previous:
            body["previous_response_id"] = previous
        else:
            body["metadata"]["harness_id"] = agent
        if environment:
            body["metadata"]["environment"] = environment
        answer = client.call("POST", "/v1/responses", body)
        if answer["status"] != "completed":
            raise RuntimeError(f"the task ended as {answer['status']}: {answer.get('error')}")
        return answer

    def new(environment=None):
        began = time.monotonic()
        answer = task(environment=environment)
        took = time.monotonic() - began
        sessions.append(answer["metadata"]["session_id"])
        return took

    latest = task()["id"]

    def continued(_):
        nonlocal latest
        began = time.monotonic()
        latest = task(previous=latest)["id"]
        return time.monotonic() - began

    for _ in range(2):
        new()
    fresh, with_project, warm, idle, flushes = in_turn(
        bench.quick, lambda _: new(), lambda _: new(project), continued, lambda _: timed(lambda: client.call("GET", "/v1/uhp")),
        lambda _: sum(log.append() for _ in range(COMMITS)), wanted=50)
    log.close()
    for session in sessions:  # Not in between: taking sandboxes down would be timed with the next task.
        client.delete_session(session)

    floor = Figure("GET /v1/uhp", idle, command="GET /v1/uhp")
    yield floor
    body = "POST /v1/responses {input: echo hi}"
    yardstick, says = bench.bwrap, "bubblewrap alone, without a server"
    yield Figure("task, new session", fresh, command=body, yardstick=yardstick, note=f"the yardstick is {says}")
    commits = Figure(f"{COMMITS} × fdatasync", flushes, command=Log.COMMAND)
    yield Figure("  beside its commits", fresh, command=body, yardstick=commits)
    yield Figure("task, new session with a project", with_project, command=body + " with environment", yardstick=yardstick)
    yield Figure("task, continued session", warm, command=body + " with previous_response_id", yardstick=commits,
                 note="the sandbox runs already, so the yardstick is what its commits must cost")
