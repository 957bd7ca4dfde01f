"""Figure i: the egress proxy's throughput beside a direct connection's."""

import json
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
    yield Figure("through the proxy", found["proxied"], unit="B/s", command=" ".join(command), yardstick=direct,
                 goal=Goal("share", 0.7))
