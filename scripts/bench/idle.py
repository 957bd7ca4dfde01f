"""Figure m: what sessions cost that do nothing."""

import os
import time

from samples import Figure, Goal
from server import Server
from sessions import Starter

SESSIONS = 1000
SETTLE = 3.0
"""Seconds without requests before memory is read."""
MIB = 1 << 20
RUNTIME = "stead-run"


def run(bench):
    sessions = 50 if bench.quick else SESSIONS
    slots = str(sessions + 100)
    settings = {"STEAD__NATIVE__SLOTS": slots, "STEAD__NATIVE__WORKSPACE_SLOTS": slots, "STEAD__SESSIONS__IDLE_STOP": "24h"}
    with Server(bench.binaries, bench.directory("idle") / "data", settings) as server:
        starter = Starter(server)
        samples = 5 if bench.quick else 30
        alone = [starter.start() for _ in range(samples)]
        time.sleep(SETTLE)
        before = server.memory()
        made, stopped = make(bench, starter, sessions)
        time.sleep(SETTLE)
        after, processes = server.memory(), beneath(server.process.pid)
        names = {}
        for pid in processes:
            name, pss = name_of(pid), proportional(pid)
            count, total = names.get(name, (0, 0))
            names[name] = (count + 1, total + pss)
        beside = [starter.start() for _ in range(samples)]
    by_name = ", ".join(f"{count} × {name} {total / count / 1024:.0f} KiB" for name, (count, total) in sorted(names.items()) if count)
    what = f"{made:,} idle sessions" + (f" (asked for {sessions:,}: {stopped})" if stopped else "")
    # The kernel shortens names; the runtime is run from memory.
    ours = [found for name, found in names.items() if RUNTIME in name]
    runtimes, pss = sum(count for count, _ in ours), sum(total for _, total in ours)
    kernel = f"processes beneath the server, by name: {by_name}"
    yield Figure(f"server's memory for each of {made:,} idle sessions", [(after - before) / made], unit="B",
                 command=f"VmRSS before and after {what}", goal=Goal("value", MIB), note=f"{what}; {kernel}",
                 yardstick=Figure("the server without them", [before], unit="B"))
    if runtimes:
        yield Figure("runtime's memory (PSS), each", [pss / runtimes], unit="B", goal=Goal("value", MIB),
                     command="Pss of /proc/…/smaps_rollup, the mean of all")
        every = sum(total for _, total in names.values())
        yield Figure("all processes of a session (PSS), each", [every / made], unit="B", command="the same of everything beneath the server")
    yield Figure(f"new session beside {made:,} idle ones", beside, command="as `session`",
                 yardstick=Figure("beside none", alone), goal=Goal("ratio", 2))


def make(bench, starter, wanted):
    """Sessions that have had their task, and why there are no more."""
    for number in range(wanted):
        try:
            answer = starter.client.call("POST", "/v1/responses", dict(starter.body, input="true"))
        except RuntimeError as error:
            return number, str(error)[:200]
        if answer["status"] != "completed":
            return number, f"{answer['status']}: {answer.get('error')}"
        if (number + 1) % 100 == 0:
            bench.say(f"{number + 1} sessions")
    return wanted, ""


def beneath(root):
    """Every process whose ancestor is `root`."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue  # It has ended.
    found = set()
    for pid in parents:
        above, seen = pid, []
        while above in parents and above not in found and above != root:
            seen.append(above)
            above = parents[above]
        if above == root or above in found:
            found.update(seen)
    return found - {root}


def name_of(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return "ended"


def proportional(pid):
    """Bytes of memory, those that are shared divided among who shares them."""
    try:
        lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
