"""What a server holds, sampled, and whether it grows."""

import math
import os
import pathlib
import sqlite3
import subprocess
import sys
import time

SURE = 4.0
"""How many times its own uncertainty a slope must be."""
MATTERS = 0.05
"""A rise within the second half below this share of its mean is not called growth."""
SLACK = {"descriptors": 8, "threads": 4, "environments": 4, "processes": 16, "resident MiB": 4, "data MiB": 8}
"""Nor is one below so much of a series; of rows, 100."""


class Watch:
    def __init__(self, server, every):
        self.server, self.every = server, every
        self.samples = []

    def run(self, seconds, workers):
        """Samples until the time is over."""
        began = time.monotonic()
        said = began
        while (at := time.monotonic() - began) < seconds:
            self.samples.append({"at": at, **self.sample()})
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(f"  {at:.0f} s: " + ", ".join(f"{name} {value:.0f}" for name, value in self.samples[-1].items() if "rows" not in name),
                      file=sys.stderr, flush=True)
            time.sleep(max(0.0, min(self.every - (time.monotonic() - began - at), seconds - (time.monotonic() - began))))

    def sample(self):
        pid, data = self.server.process.pid, self.server.data
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        field = lambda name: int(next(line for line in status.splitlines() if line.startswith(name)).split()[1])
        used = subprocess.run(["du", "-sk", "--one-file-system", str(data)], capture_output=True, text=True)
        found = {
            "resident MiB": field("VmRSS:") / 1024,
            "threads": field("Threads:"),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "data MiB": int(used.stdout.split()[0]) / 1024,
            "environments": count(data / "environments"),
            "run directories": count(data / "run"),
        }
        found.update(rows(data / "stead.db"))
        return found


def count(directory):
    try:
        return len(os.listdir(directory))
    except FileNotFoundError:
        return 0


def rows(database):
    """How many rows each table has."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)
    try:
        tables = [name for name, in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {f"rows of {name}": connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
                for name in tables if not name.startswith(("sqlite_", "_sqlx"))}
    finally:
        connection.close()


def verdicts(samples):
    """For each series its means, the slope of its second half in units per hour, and whether that is growth."""
    half = len(samples) // 2
    first, second = samples[:half], samples[half:]
    judged = []
    for name in sorted({name for sample in samples for name in sample} - {"at"}):
        series = [(sample["at"], sample.get(name, 0)) for sample in second]
        slope, error = line(series)
        span = series[-1][0] - series[0][0]
        mean = sum(value for _, value in series) / len(series)
        matters = max(MATTERS * mean, SLACK.get(name, 100))
        judged.append({
            "name": name,
            "first": sum(sample.get(name, 0) for sample in first) / max(len(first), 1),
            "second": mean,
            "last": series[-1][1],
            "per_hour": slope * 3600,
            "grows": slope * span > matters and slope > SURE * error,
        })
    return judged


def line(points):
    """Slope of the line of least squares and its standard error. Neighbouring samples of such series are alike, so the error is that of
    a tenth as many."""
    count = len(points)
    if count < 3:
        return 0.0, math.inf
    at, value = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - at) ** 2 for x, _ in points)
    if spread == 0:
        return 0.0, math.inf
    slope = sum((x - at) * (y - value) for x, y in points) / spread
    rest = sum((y - value - slope * (x - at)) ** 2 for x, y in points)
    return slope, math.sqrt(rest / (count - 2) / spread * 10)
