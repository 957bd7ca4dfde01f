"""Figure f: a session's first output, from the HTTP request to the first text over server-sent events."""

from samples import Figure, Goal, in_turn, timed
from server import Server

SCRIPT = "echo hi; sleep 0.2"
"""It goes on after its output, or the end of the task would bring the text."""
COMMAND = "POST /v1/responses {input: %s, stream: true}, until the first delta" % SCRIPT


class Starter:
    """New sessions on one server, deleted when they have been timed."""

    def __init__(self, server, project=None):
        self.client = server.client()
        self.body = {"input": SCRIPT, "metadata": {"harness_id": self.client.shell_agent()}}
        if project:
            self.body["metadata"]["environment"] = project
        for _ in range(3):
            self.start()

    def start(self):
        """Seconds to the first output of a new session."""
        took, response = self.client.first_delta(self.body)
        self.client.delete_session(response["metadata"]["session_id"])
        return took


def run(bench):
    with Server(bench.binaries, bench.directory("session") / "data") as server:
        starter = Starter(server)
        latest = starter.client.first_delta(starter.body)[1]["id"]

        def continued(_):
            nonlocal latest
            took, response = starter.client.first_delta({"input": SCRIPT, "previous_response_id": latest})
            latest = response["id"]
            return took

        fresh, warm, idle = in_turn(
            bench.quick, lambda _: starter.start(), continued,
            lambda _: timed(lambda: starter.client.call("GET", "/v1/uhp")), wanted=100)
    yield Figure("session, request to first output", fresh, command=COMMAND, yardstick=bench.bwrap,
                 goal=Goal("ratio", 1.5) if bench.bwrap else None,
                 note="HTTP, three durable commits, the sandbox, the runtime in it, the command; the yardstick is bubblewrap alone")
    yield Figure("  in a session that runs already", warm, command=COMMAND + ", previous_response_id",
                 yardstick=Figure("GET /v1/uhp", idle, command="GET /v1/uhp"))
