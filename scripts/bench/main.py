"""Runs the figures and reports them. Started by scripts/bench.sh; standard library only."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import sys
import tempfile
import traceback

import attach
import builds
import disk
import floods
import idle
import imports
import launch
import network
import output
import proxy
import reads
import sessions
import start
import tasks
from report import print_figures
from server import Binaries

FIGURES = {
    "launch": launch.run,
    "task": tasks.run,
    "build": builds.run,
    "import": imports.run,
    "start": start.run,
    "session": sessions.run,
    "attach": attach.run,
    "network": network.run,
    "proxy": proxy.run,
    "flood": floods.run,
    "read": reads.run,
    "output": output.run,
    "idle": idle.run,
}
LETTERS = dict(zip("abcdefghijklm", FIGURES))
NEED_BWRAP = {"task", "session"}
"""Figures that stand beside bubblewrap's, which belongs to `launch`."""


class Bench:
    """What every figure is given: where to work, how many samples to take, and what was measured before it."""

    def __init__(self, arguments, scratch):
        self.quick = arguments.quick
        self.scratch = scratch
        self.binaries = Binaries(
            server=arguments.server,
            runtime=arguments.runtime,
            launch_time=arguments.launch_time,
            throughput=arguments.throughput,
            uv=arguments.uv,
            bwrap=arguments.bwrap,
            docker=arguments.docker,
        )
        self.bwrap = None

    def say(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)

    def directory(self, name):
        """A new directory on the file system that is measured."""
        return pathlib.Path(tempfile.mkdtemp(prefix=name + "-", dir=self.scratch))


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench.sh", description=__doc__)
    names = ", ".join(f"{letter} or {name}" for letter, name in LETTERS.items())
    parser.add_argument("--only", default=",".join(FIGURES), help=f"figures to take, separated by commas: {names}")
    parser.add_argument("--quick", action="store_true", help="few samples, to see that it works")
    parser.add_argument("--directory", default="target/bench", help="where to work; its file system is what is measured")
    parser.add_argument("--results", default="bench-results", help="where raw samples are kept")
    parser.add_argument("--server", default="target/release/stead", help="the server's binary")
    parser.add_argument("--runtime", required=True, help="the static runtime")
    parser.add_argument("--launch-time", default="target/release/examples/launch_time", help="the launch timer")
    parser.add_argument("--throughput", default="target/release/examples/throughput", help="what measures the proxy")
    parser.add_argument("--uv", default="", help="uv, as the server's toolchain")
    parser.add_argument("--bwrap", default=shutil.which("bwrap"), help="bubblewrap")
    parser.add_argument("--docker", default=shutil.which("docker"), help="a container engine's client")
    arguments = parser.parse_args()
    wanted = [LETTERS.get(name.strip(), name.strip()) for name in arguments.only.split(",")]
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        parser.error(f"no such figure: {', '.join(unknown)}; there are {names}")
    return arguments, [name for name in FIGURES if name in wanted]


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = next((line.split(":", 1)[1].strip() for line in open("/proc/meminfo") if line.startswith("MemTotal")), "?")
    return {"kernel": platform.release(), "processors": os.cpu_count(), "processor": model, "memory": memory}


def main():
    arguments, wanted = parse()
    began = datetime.datetime.now(datetime.timezone.utc)
    os.makedirs(arguments.directory, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=os.path.abspath(arguments.directory)))
    scratch.chmod(0o711)  # Sandboxes of other users pass through it.
    result = {
        "began": began.isoformat(),
        "command": sys.argv,
        "machine": machine(),
        "load_before": os.getloadavg(),
        "file_system": disk.kind(scratch),
        "figures": [],
        "failures": {},
    }
    bench = Bench(arguments, scratch)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # So that servers are stopped in good order.
    try:
        figures = [disk.append_and_sync(scratch, 30 if bench.quick else 200)]
        result["figures"].append(figures[0].record())
        if "launch" not in wanted and NEED_BWRAP.intersection(wanted):
            bench.bwrap = launch.bwrap_alone(bench)
        for name in wanted:
            print(f"{name} …", file=sys.stderr, flush=True)
            try:
                for figure in FIGURES[name](bench):
                    figures.append(figure)
                    result["figures"].append(figure.record())
            except Exception as error:  # One figure that cannot be taken must not cost the others.
                result["failures"][name] = traceback.format_exc()
                print(f"  {name} cannot be taken: {error}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        result["failures"]["the rest"] = "interrupted"
    finally:
        result["load_after"] = os.getloadavg()
        shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(arguments.results, exist_ok=True)
    kept = pathlib.Path(arguments.results, began.strftime("%Y%m%dT%H%M%SZ") + ".json")
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print_figures(figures, result)
    print(f"\nraw samples and command lines: {kept}")


if __name__ == "__main__":
    main()
