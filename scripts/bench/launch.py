"""Figure a: one sandbox, from its start to the first byte that the program in it prints."""

import json
import shlex
import subprocess

from samples import Figure


def measure(bench, count):
    """Raw samples by way, taken in turn by the launch timer."""
    binaries = bench.binaries
    command = [binaries.launch_time, binaries.server, str(count)] + ([binaries.bwrap] if binaries.bwrap else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the launch timer failed: {done.stderr.strip()}")
    return json.loads(done.stdout), shlex.join(command)


def bwrap_figure(found):
    line = found["bwrap_command"]
    return Figure("bwrap, same mounts", found["bwrap"], command=shlex.join(line)) if line else None


def bwrap_alone(bench):
    """Bubblewrap's figure, for runs that leave the launcher's out."""
    return bwrap_figure(measure(bench, 5 if bench.quick else 20)[0])


def run(bench):
    found, command = measure(bench, 10 if bench.quick else 100)
    floor = Figure("vfork + exec of sh", found["bare"], command="/bin/sh -c 'echo x'")
    bench.bwrap = bwrap_figure(found)
    yield floor
    if bench.bwrap:
        bench.bwrap.yardstick = floor
        bench.bwrap.note = "no allow-list of system calls, no Landlock, one user id, no limits: it does less"
        yield bench.bwrap
    launcher = Figure("launcher to first output", found["launcher"], command=command, yardstick=bench.bwrap or floor, goal=1.0)
    yield launcher
    yield Figure("  beside the floor", found["launcher"], command=command, yardstick=floor)
    missing = found["cgroups_missing"]
    yield Figure("launcher with control groups", found["launcher_with_cgroups"], command=command,
                 yardstick=bench.bwrap or floor, goal=1.0,
                 note=f"control groups missing here: {', '.join(missing)}" if missing else "")
