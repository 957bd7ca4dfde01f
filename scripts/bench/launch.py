"""Figure a: one sandbox, from its start to the first byte that the program in it prints."""

import json
import shlex
import subprocess

import engine
from samples import Figure, Goal


def measure(bench, count, image=None):
    """Raw samples by way, taken in turn by the launch timer."""
    binaries = bench.binaries
    command = [binaries.launch_time, binaries.server, str(count)]
    if binaries.bwrap:
        command += ["--bwrap", binaries.bwrap]
    if image:
        command += ["--docker", binaries.docker, image]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the launch timer failed: {done.stderr.strip()}")
    return json.loads(done.stdout), shlex.join(command)


def bwrap_figure(found):
    line = found["bwrap_command"]
    return Figure("bwrap, same mounts and filter", found["bwrap"], command=shlex.join(line)) if line else None


def bwrap_alone(bench):
    """Bubblewrap's figure, for runs that leave the launcher's out."""
    return bwrap_figure(measure(bench, 5 if bench.quick else 40)[0])


def run(bench):
    with engine.Image(bench) as image:
        found, command = measure(bench, 10 if bench.quick else 200, image.name)
    floor = Figure("vfork + exec of sh", found["bare"], command="/bin/sh -c 'echo x'")
    bench.bwrap = bwrap_figure(found)
    yield floor
    if bench.bwrap:
        bench.bwrap.yardstick = floor
        bench.bwrap.note = "no Landlock, one user id, no limits: it does less"
        yield bench.bwrap
    beside_bwrap = {"yardstick": bench.bwrap or floor, "goal": Goal("ratio", 0.6) if bench.bwrap else None}
    yield Figure("launcher to first output", found["launcher"], command=command, **beside_bwrap)
    yield Figure("  beside the floor", found["launcher"], command=command, yardstick=floor)
    if found["docker"]:
        docker = Figure("docker run --rm", found["docker"], command=shlex.join(found["docker_command"]))
        yield Figure("  beside docker run", found["launcher"], command=command, yardstick=docker, goal=Goal("faster", 40),
                     note=image.note)
    else:
        bench.say(f"docker run: {image.note}")
        yield Figure("  beside docker run", found["launcher"], command=command, note=image.note)
    yield Figure("  started ahead", found["launcher_ahead"], command=command, **beside_bwrap,
                 note="the server keeps one launcher that has begun and waits for its plan")
    missing = found["cgroups_missing"]
    yield Figure("launcher with control groups", found["launcher_with_cgroups"], command=command, **beside_bwrap,
                 note=f"control groups missing here: {', '.join(missing)}" if missing else "")
