"""Figure h: what a restricted network costs a session's start."""

from samples import Figure, Goal, in_turn
from server import Server
from sessions import COMMAND, Starter

NETWORKS = {
    "disabled": {"STEAD__SESSIONS__NETWORK": "disabled"},
    "restricted": {"STEAD__SESSIONS__NETWORK": "restricted", "STEAD__SESSIONS__HOSTS": "files.example,api.example"},
}


def run(bench):
    place = bench.directory("network")
    servers = [
        Server(bench.binaries, place / name, settings)
        for name, settings in NETWORKS.items()
    ]
    with servers[0] as first, servers[1] as second:
        starters = [Starter(first), Starter(second)]
        disabled, restricted = in_turn(bench.quick, *[lambda _, one=one: one.start() for one in starters], wanted=100)
    without = Figure("session start, disabled", disabled, command=COMMAND)
    yield Figure("session start, restricted", restricted, command=COMMAND, yardstick=without, goal=Goal("more", 0.002))
