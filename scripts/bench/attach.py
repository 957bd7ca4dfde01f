"""Figure g: whether a session's start depends on how many files the version has that it reads."""

from imports import make_tar
from samples import Figure, Goal, in_turn
from server import Server
from sessions import COMMAND, Starter

FEW, MANY = 10, 100_000


def run(bench):
    many = MANY // 10 if bench.quick else MANY
    with Server(bench.binaries, bench.directory("attach") / "data") as server:
        client = server.client()
        starters = []
        for files in (FEW, many):
            bench.say(f"a version of {files:,} files")
            project = client.project(f"Attach {files}")
            client.call("POST", f"/v1/environments/{project}/import", make_tar(files, "attach", 16), "application/x-tar")
            client.build(project)
            starters.append(Starter(server, project))
        few, large = in_turn(bench.quick, *[lambda _, one=one: one.start() for one in starters], wanted=100)
    yield Figure(f"attach, {many:,} files", large, command=COMMAND + " with environment",
                 yardstick=Figure(f"attach, {FEW} files", few), goal=Goal("noise"))
