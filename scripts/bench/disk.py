"""The file system that the data directory lies on."""

import os
import time

from samples import Figure


class Log:
    """A file that grows as a database's log does."""

    COMMAND = "write(4096); fdatasync"

    def __init__(self, directory):
        self.path = os.path.join(directory, "appended")
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.block = os.urandom(4096)
        for _ in range(3):
            self.append()

    def append(self):
        """Seconds of appending 4 KiB and flushing them: the floor of one durable commit."""
        began = time.monotonic()
        os.write(self.file, self.block)
        os.fdatasync(self.file)
        return time.monotonic() - began

    def close(self):
        os.close(self.file)
        os.unlink(self.path)


def append_and_sync(directory, count):
    """The figure that every run begins with."""
    log = Log(directory)
    samples = [log.append() for _ in range(count)]
    log.close()
    return Figure("append 4 KiB + fdatasync", samples, command=Log.COMMAND)


def kind(directory):
    """The type of file system that a directory lies on."""
    directory = os.path.realpath(directory)
    best = ("", "?")
    for line in open("/proc/mounts"):
        _, target, name, *_ = line.split()
        if (directory + "/").startswith(target.rstrip("/") + "/") and len(target) >= len(best[0]):
            best = (target, name)
    return best[1]
