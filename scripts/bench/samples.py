"""Samples of one figure, and how many of them are taken."""

import dataclasses
import math
import random
import statistics
import time

SLOW = 5.0
"""Seconds above which three samples must do."""


def percentile(values, share):
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclasses.dataclass
class Figure:
    """One line of the table. A yardstick is another Figure of the same run; `goal` is the most that the ratio should be."""

    name: str
    samples: list
    unit: str = "s"
    command: str = ""
    yardstick: "Figure | None" = None
    goal: "float | None" = None
    note: str = ""

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def p95(self):
        return percentile(self.samples, 0.95)

    @property
    def ratio(self):
        return self.median / self.yardstick.median if self.yardstick and self.yardstick.median else None

    def record(self):
        """The line as JSON, with everything that is needed to compute it again."""
        return {
            "name": self.name,
            "unit": self.unit,
            "n": len(self.samples),
            "median": self.median,
            "p95": self.p95,
            "yardstick": self.yardstick and self.yardstick.name,
            "yardstick_median": self.yardstick and self.yardstick.median,
            "ratio": self.ratio,
            "goal": self.goal,
            "command": self.command,
            "note": self.note,
            "samples": self.samples,
            "yardstick_samples": self.yardstick and self.yardstick.samples,
        }


def timed(action):
    """Seconds that the action took."""
    began = time.monotonic()
    action()
    return time.monotonic() - began


def in_turn(quick, *measures, wanted=20):
    """Calls each measure (round number → seconds) in turn, so that a busy moment hits all of them, and returns a list of
    samples for each. The order is drawn anew for every round but the first, so that none always pays for what another left
    behind. `wanted` rounds, or three when one measure takes longer than SLOW."""
    all_samples = [[] for _ in measures]
    order = list(range(len(measures)))
    draw = random.Random(1)
    rounds = 0
    while rounds < (3 if quick else wanted):
        for turn in order:
            all_samples[turn].append(measures[turn](rounds))
        draw.shuffle(order)
        rounds += 1
        if rounds >= 3 and any(statistics.median(samples) > SLOW for samples in all_samples):
            break
        if quick and any(max(samples) > SLOW for samples in all_samples):
            break
    return all_samples
