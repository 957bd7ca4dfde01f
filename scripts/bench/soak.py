"""A day in an hour: clients that work, leave and come back, while what the server holds is watched. Started by scripts/soak.sh;
standard library only.

What happens once an hour or a day by default happens every minute here, so that whatever is kept for a while has come and gone
several times. At the end a line is laid through the second half of each series; one that rises beyond its own noise is growth."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

from server import Binaries, Server
from watch import Watch, verdicts
from work import ACTIONS, Worker

SETTINGS = {
    "STEAD__SESSIONS__IDLE_STOP": "20s",
    "STEAD__COLLECTION__EVERY": "1m",
    "STEAD__COLLECTION__GRACE": "1m",
    "STEAD__COLLECTION__UPLOADS": "1m",
    "STEAD__BUILDS__TIME_LIMIT": "1m",
    "STEAD__GIT__TIME_LIMIT": "1m",
    "STEAD__PROJECTS__KEEP_VERSIONS": "3",
    "STEAD__AUDIT__KEEP": "2m",
    "STEAD__NATIVE__WORKSPACE_SLOTS": "0",
}
WORKERS = 4
EVERY = 10.0
"""Seconds between two samples, or a sixtieth of the whole where that is less."""


def parse():
    parser = argparse.ArgumentParser(prog="scripts/soak.sh", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", 3600)), help="how long")
    parser.add_argument("--workers", type=int, default=WORKERS, help="clients at once")
    parser.add_argument("--directory", default="target/bench", help="where to work")
    parser.add_argument("--results", default="bench-results", help="where samples are kept")
    parser.add_argument("--server", default="target/release/stead", help="the server's binary")
    parser.add_argument("--runtime", required=True, help="the static runtime")
    parser.add_argument("--seed", type=int, default=1, help="what the clients do, one after the other")
    return parser.parse_args()


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.makedirs(arguments.directory, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="soak-", dir=os.path.abspath(arguments.directory)))
    scratch.chmod(0o711)
    binaries = Binaries(server=arguments.server, runtime=arguments.runtime, launch_time="", throughput="", uv="", bwrap=None, docker=None)
    began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    load = os.getloadavg()
    stopping = threading.Event()
    workers = []
    try:
        with Server(binaries, scratch / "data", SETTINGS) as server:
            watch = Watch(server, min(EVERY, arguments.seconds / 60))
            workers = [Worker(server, arguments.seed * 1000 + number, stopping) for number in range(arguments.workers)]
            for worker in workers:
                worker.start()
            try:
                watch.run(arguments.seconds, workers)
            except KeyboardInterrupt:
                print("  interrupted; what was sampled is judged", file=sys.stderr)
            stopping.set()
            for worker in workers:
                if worker.ident:
                    worker.join(60)
                if worker.is_alive():
                    worker.failures.append(f"{worker.name} still waits for an answer")
            died = server.process.poll()
            errors = [line for line in server.log if " ERROR " in line or "panicked" in line]
    finally:
        stopping.set()
        shutil.rmtree(scratch, ignore_errors=True)
    return report(arguments, began, load, watch, workers, died, errors)


def report(arguments, began, load, watch, workers, died, errors):
    judged = verdicts(watch.samples)
    done = {name: sum(worker.done[name] for worker in workers) for name in ACTIONS}
    failures = [failure for worker in workers for failure in worker.failures]
    print(f"\n{len(watch.samples)} samples in {watch.samples[-1]['at']:.0f} s; "
          + ", ".join(f"{count} × {name}" for name, count in sorted(done.items())))
    print(f"\n{'series':<34} {'first half':>12} {'second half':>12} {'at the end':>12} {'per hour':>12}  verdict")
    for row in judged:
        print(f"{row['name']:<34} {row['first']:>12.1f} {row['second']:>12.1f} {row['last']:>12.1f} {row['per_hour']:>+12.1f}  "
              + ("GROWS" if row["grows"] else "flat"))
    for failure in failures[:10]:
        print(f"failed: {failure}")
    for line in errors[:10]:
        print(f"the server's log: {line}")
    if died is not None:
        print(f"the server ended with status {died}")
    os.makedirs(arguments.results, exist_ok=True)
    kept = pathlib.Path(arguments.results, f"soak-{began}.json")
    kept.write_text(json.dumps({"command": sys.argv, "load_before": load, "load_after": os.getloadavg(), "done": done, "failures": failures,
                                "errors": errors, "verdicts": judged, "samples": watch.samples}, indent=1) + "\n")
    words = lambda values: " ".join(f"{value:.2f}" for value in values)
    print(f"\nload average before {words(load)}, after {words(os.getloadavg())}; every sample: {kept}")
    bad = [row["name"] for row in judged if row["grows"]]
    return 1 if bad or died is not None or failures or errors else 0


if __name__ == "__main__":
    sys.exit(main())
