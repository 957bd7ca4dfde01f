"""Figure d: a whole project at once, and the same again unchanged."""

import io
import os
import random
import shutil
import subprocess
import tarfile
import time

from samples import Figure, Goal, in_turn, timed
from server import Server


def make_tar(files, seed, least=512):
    """An archive of this many files of 0.5 to 4 KiB (of `least` to eight times as many bytes) in directories of 50. Another seed
    gives other bytes in every file."""
    source = random.Random(seed)
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for index in range(files):
            data = source.randbytes(source.randrange(least, 8 * least))
            member = tarfile.TarInfo(f"src/part{index // 1000:02}/group{index // 50:04}/file{index:05}.dat")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return target.getvalue()


def run(bench):
    with Server(bench.binaries, bench.directory("import") / "data") as server:
        client = server.client()
        for files in (2_000, 20_000):
            yield from measure(bench, client, files)


def measure(bench, client, files):
    scratch = bench.directory("tar")
    archive = scratch / "project.tar"
    current = {}

    def imported(project):
        path = f"/v1/environments/{project}/import?replace=true"
        os.sync()
        began = time.monotonic()
        answer = client.call("POST", path, current["tar"], "application/x-tar")
        took = time.monotonic() - began
        if answer["written"] != files and answer["count"] != files:
            raise RuntimeError(f"{answer['written']} of {files} files were written")
        return took

    def fresh(round_number):
        # New bytes in a new project: nothing of it is there yet. Making them is not timed.
        current["tar"] = make_tar(files, f"{files}-{round_number}")
        archive.write_bytes(current["tar"])
        current["project"] = client.project(f"Import {files} {round_number}")
        return imported(current["project"])

    def by_hand(round_number):
        target = scratch / f"out{round_number}"
        target.mkdir()
        os.sync()  # sync -f flushes what anybody wrote before; that is not tar's.
        command = f"tar -x -f {archive} -C {target} && sync -f {target}"
        took = timed(lambda: subprocess.run(["/bin/sh", "-c", command], check=True))
        shutil.rmtree(target)
        return took

    def again(_):
        return imported(current["project"])

    cold, hand, unchanged = in_turn(bench.quick, fresh, by_hand, again)
    shutil.rmtree(scratch)
    yardstick = Figure("tar -x && sync -f", hand, command="tar -x -f project.tar -C out && sync -f out")
    request = f"POST /v1/environments/…/import?replace=true ({files} files)"
    yield Figure(f"import of {files:,} files", cold, command=request, yardstick=yardstick, goal=Goal("ratio", 1.5))
    yield Figure("  again, unchanged", unchanged, command=request, yardstick=yardstick, goal=Goal("ratio", 0.5))
