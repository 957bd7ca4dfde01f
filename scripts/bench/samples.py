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
class Goal:
    """What a figure should come to beside its yardstick, by their medians. `kind` says how `bound` is meant:

    ratio    at most this many times the yardstick
    share    at least this share of the yardstick (of rates: more is better)
    faster   the yardstick takes at least this many times as long
    more     at most this much more than the yardstick, in the figure's unit
    noise    as much as the yardstick, give or take its own spread (the middle half of its samples)
    value    at most this much, whatever the yardstick
    """

    kind: str
    bound: float = 0.0

    def text(self, show):
        """The goal in words; `show` writes a quantity."""
        return {
            "ratio": f"≤ {self.bound:g}×",
            "share": f"≥ {self.bound:g}×",
            "faster": f"≥ {self.bound:g}× faster",
            "more": f"≤ {show(self.bound)} more",
            "noise": "equal within noise",
            "value": f"≤ {show(self.bound)}",
        }[self.kind]

    def verdict(self, figure, show):
        """`goal met`, or by how much it is missed."""
        mine, its = figure.median, figure.yardstick.median if figure.yardstick else 0.0
        spread = figure.yardstick.spread if figure.yardstick else 0.0
        over, words = {
            "ratio": lambda: (figure.ratio - self.bound, lambda by: f"{by:.2f}×"),
            "share": lambda: (self.bound - figure.ratio, lambda by: f"{by:.2f}×"),
            "faster": lambda: (self.bound - its / mine, lambda by: f"{by:.1f}×"),
            "more": lambda: (mine - its - self.bound, show),
            "noise": lambda: (abs(mine - its) - spread, show),
            "value": lambda: (mine - self.bound, show),
        }[self.kind]()
        return "goal met" if over <= 0 else f"goal missed by {words(over)}"


@dataclasses.dataclass
class Figure:
    """One line of the table. A yardstick is another Figure of the same run."""

    name: str
    samples: list
    unit: str = "s"
    command: str = ""
    yardstick: "Figure | None" = None
    goal: "Goal | None" = None
    note: str = ""

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def p99(self):
        return percentile(self.samples, 0.99)

    @property
    def spread(self):
        return percentile(self.samples, 0.75) - percentile(self.samples, 0.25)

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
            "p99": self.p99,
            "yardstick": self.yardstick and self.yardstick.name,
            "yardstick_median": self.yardstick and self.yardstick.median,
            "yardstick_p99": self.yardstick and self.yardstick.p99,
            "ratio": self.ratio,
            "goal": self.goal and dataclasses.asdict(self.goal),
            "verdict": self.goal and self.goal.verdict(self, lambda value: quantity(value, self.unit)),
            "command": self.command,
            "note": self.note,
            "samples": self.samples,
            "yardstick_samples": self.yardstick and self.yardstick.samples,
        }


UNITS = ((1.0, "s", 1), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))


def quantity(value, unit):
    """A value with a unit that suits its size, three digits wide."""
    if unit == "s":
        _, unit, factor = next(row for row in UNITS if value >= row[0])
        value *= factor
    elif unit in ("B", "B/s"):
        value, unit = value / (1 << 20), unit.replace("B", "MiB")
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}".rstrip()


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
