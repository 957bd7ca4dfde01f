"""The file system that the data directory lies on."""

import os
import time

from samples import Figure


def append_and_sync(directory, count):
    """Appends 4 KiB and flushes the data, as a database's log does: the floor of one durable commit."""
    path = os.path.join(directory, "appended")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    block = os.urandom(4096)
    samples = []
    try:
        for _ in range(count + 3):
            began = time.monotonic()
            os.write(file, block)
            os.fdatasync(file)
            samples.append(time.monotonic() - began)
    finally:
        os.close(file)
        os.unlink(path)
    return Figure("append 4 KiB + fdatasync", samples[3:], command="write(4096); fdatasync")


def kind(directory):
    """The type of file system that a directory lies on."""
    directory = os.path.realpath(directory)
    best = ("", "?")
    for line in open("/proc/mounts"):
        _, target, name, *_ = line.split()
        if (directory + "/").startswith(target.rstrip("/") + "/") and len(target) >= len(best[0]):
            best = (target, name)
    return best[1]
