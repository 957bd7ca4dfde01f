"""Figure b: a shell task through HTTP, answered when it has ended."""

import threading
import time

from disk import Log
from samples import Figure, Goal, in_turn, timed
from server import Server

COMMITS = 4
"""Durable commits of a task: at most three before its input is given, and one at its end."""
AT_ONCE = 8
QUICK_ENOUGH = Goal("value", 0.020)


def run(bench):
    place = bench.directory("task")
    with Server(bench.binaries, place / "data") as server:
        yield from measure(bench, server.client(), Log(place))
        yield from at_once(bench, server)
        yield from commits(bench, server)


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
    yield Figure("task, new session", fresh, command=body, yardstick=yardstick, goal=QUICK_ENOUGH, note=f"the yardstick is {says}")
    commits = Figure(f"{COMMITS} × fdatasync", flushes, command=Log.COMMAND)
    yield Figure("  beside its commits", fresh, command=body, yardstick=commits)
    yield Figure("task, new session with a project", with_project, command=body + " with environment", yardstick=yardstick)
    yield Figure("task, continued session", warm, command=body + " with previous_response_id", yardstick=commits,
                 goal=QUICK_ENOUGH, note="the sandbox runs already, so the yardstick is what its commits must cost")


class Caller:
    """A client that makes tasks, each in a new session or all in one."""

    def __init__(self, server, agent, fresh):
        self.client = server.client()
        self.agent, self.fresh = agent, fresh
        self.latest, self.sessions = None, []
        self.took = None
        self.failure = None
        self.task()

    def task(self):
        body = {"input": "echo hi", "metadata": {"harness_id": self.agent}}
        if self.latest and not self.fresh:
            body = {"input": "echo hi", "previous_response_id": self.latest}
        began = time.monotonic()
        answer = self.client.call("POST", "/v1/responses", body)
        self.took = time.monotonic() - began
        if answer["status"] != "completed":
            raise RuntimeError(f"the task ended as {answer['status']}: {answer.get('error')}")
        self.latest = answer["id"]
        self.sessions.append(answer["metadata"]["session_id"])
        return self.took

    def tidy(self):
        for session in set(self.sessions[:-1]) - {self.sessions[-1]}:
            self.client.delete_session(session)
        del self.sessions[:-1]

    def run(self, barrier):
        try:
            barrier.wait()
            self.task()
        except Exception as error:  # Shown by whoever measures.
            self.failure = error


def at_once(bench, server):
    """Eight tasks that are asked for at the same moment, in turn with one alone."""
    agent = server.client().shell_agent()
    for fresh, name in ((True, "tasks at once, new sessions"), (False, "tasks at once, continued sessions")):
        callers = [Caller(server, agent, fresh) for _ in range(AT_ONCE)]
        alone, together = [], []
        for _ in range(3 if bench.quick else 25):
            alone.append(callers[0].task())
            barrier = threading.Barrier(AT_ONCE)
            threads = [threading.Thread(target=caller.run, args=(barrier,)) for caller in callers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for caller in callers:
                if caller.failure:
                    raise caller.failure
                together.append(caller.took)
                caller.tidy()
        yield Figure(f"{AT_ONCE} {name}", together, command="POST /v1/responses {input: echo hi}, each by a client of its own",
                     yardstick=Figure("one alone", alone), goal=Goal("ratio", 4))


def commits(bench, server):
    """What the server itself counts of its durable commits."""
    agent = server.client().shell_agent()
    count = 5 if bench.quick else 50
    for fresh, name in ((True, "new session"), (False, "continued session")):
        caller = Caller(server, agent, fresh)
        numbers = server.numbers()
        if "stead_store_commits_total" not in numbers:
            raise RuntimeError("the server does not count its commits")
        for _ in range(count):
            caller.task()
        after = server.numbers()
        made, groups = (after[key] - numbers[key] for key in ("stead_store_commits_total", "stead_store_groups_total"))
        yield Figure(f"commits of a task, {name}", [made / count], unit="",
                     command="stead_store_commits_total of /metrics, before and after", note=f"{groups / count:.2f} flushes for each task")
        caller.tidy()
