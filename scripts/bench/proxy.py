"""Figure i: the egress proxy's throughput beside a direct connection's."""

import json
import shlex
import subprocess

from samples import Figure, Goal


def run(bench):
    """The example of the egress crate takes both in turn: bytes per second, each sample one transfer over loopback."""
    command = [bench.binaries.throughput] + (["--quick"] if bench.quick else [])
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"the throughput timer failed: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    direct = Figure("direct", found["direct"], unit="B/s", command="the same transfer without the proxy")
    ways = {"proxied": "proxy, a tunnel under exact names", "open": "  under an open policy", "socks": "  by SOCKS 5",
            "plain": "  the body of a plain answer"}
    for way, name in ways.items():
        yield Figure(name, found[way], unit="B/s", command=shlex.join(command), yardstick=direct, goal=Goal("share", 0.7))
