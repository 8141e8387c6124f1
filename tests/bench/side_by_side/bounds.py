"""What must hold, each with its figure and whether it does: the worst first."""

import dataclasses
import re
import statistics
import subprocess

from report import of


@dataclasses.dataclass
class Bound:
    """Holds while `figure` ≤ `limit`. `scale`: what a figure's distance from its limit is measured in."""

    what: str
    limit: float
    figure: float
    shown_limit: str
    shown: str
    scale: float = 0

    def holds(self):
        return self.figure <= self.limit

    def left(self):
        return (self.limit - self.figure) / (self.scale or abs(self.limit) or 1)


def table(bounds):
    lines = ["| what | bound | measured | |", "|---|---|---|---|"]
    for bound in sorted(bounds, key=lambda bound: bound.left()):
        lines.append(f"| {bound.what} | {bound.shown_limit} | {bound.shown} | {'held' if bound.holds() else '**not held**'} |")
    failed = sum(not bound.holds() for bound in bounds)
    return f"{len(bounds) - failed} of {len(bounds)} bounds held, {failed} not; sorted by how near to its bound each is.\n\n" + "\n".join(lines) + "\n"


def over_bare(results, work, configuration, measure):
    """Ratio of medians; None if there is nothing to compare."""
    values, bare = of(results, work, configuration, measure), of(results, work, "bare", measure)
    return statistics.median(values) / statistics.median(bare) if values and bare and statistics.median(bare) > 0 else None


def half_spread(values):
    return (max(values) - min(values)) / 2 / statistics.median(values) * 100 if values else 0


def at_most(what, limit, figure, unit="×", digits=3, note=""):
    if figure is None:
        return []
    return [Bound(what, limit, figure, f"≤ {limit:g} {unit}", f"{figure:.{digits}f} {unit}{note}")]


# ---- Paths, counted ----

PATHS = [("malloc", "malloc(64) + free", 12), ("ring", "a ring of 1,024 blocks", 14), ("new", "new + delete", 0),
         ("sized", "new + sized delete", 0), ("lock", "uncontended lock + unlock", 10)]


def paths(command):
    """Instructions that each path has more, by scripts/fast_path."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: not as in the golden table
        raise SystemExit(f"bench: {done.stderr.strip()}")
    more = {name: float(figure) for name, figure in re.findall(r"^round (\w+) ([+-][\d.]+)", done.stdout, re.MULTILINE)}
    return [Bound(f"{what}, instructions over bare", limit, more[name], f"≤ {limit:+d}", f"{more[name]:+.1f}", scale=max(limit, 10))
            for name, what, limit in PATHS if name in more]


# ---- Whole programs ----

INSTRUCTIONS = {"sqlite3": 0.5, "g++": 0.3, "python3": 1.2, "redis": 1.2}


def whole_programs(results, programs, instructions, floors):
    found = []
    for name, limit in INSTRUCTIONS.items():
        counts = instructions.get(name, {})
        if {"bare", "default"} <= counts.keys():
            more = (counts["default"] / counts["bare"] - 1) * 100
            floor = f"; {floors[name]:.2f} % is the floor" if name in floors and more > limit else ""
            found.append(Bound(f"{name}, instructions over bare", limit, more, f"≤ {limit} %", f"{more:+.2f} %{floor}"))
    for work in programs:
        ratio = over_bare(results, work, "default", "cpu")
        spread = f" (bare ±{half_spread(of(results, work, 'bare', 'cpu')):.0f} %)"
        found += at_most(f"{work}, CPU time, default intervals", 1.02, ratio, note=spread)
    for work in ("sqlite3", "g++"):
        found += at_most(f"{work}, CPU time, every allocation sampled", 3, over_bare(results, work, "every", "cpu"), digits=2)
    return found


# ---- Small patterns ----

def contended(results, works):
    """Within the range of the bare runs: one that is faster fails as well. What does not hold is shown beside the floor."""
    found = []
    for work in works:
        bare, values = of(results, work, "bare", "ns"), of(results, work, "default", "ns")
        if not bare or not values:
            continue
        middle = statistics.median(bare)
        away = statistics.median(values) / middle - 1
        # On its own side of the bare median.
        room = (max(bare) / middle - 1) if away >= 0 else (1 - min(bare) / middle)
        least = over_bare(results, work, "least", "ns")
        floor = f"; {(least - 1) * 100:+.1f} % is the floor" if least and abs(away) > room else ""
        found.append(Bound(f"{work}: time per round, either direction", room, abs(away), f"bare's own, {'+' if away >= 0 else '−'}{room * 100:.1f} %",
                           f"{away * 100:+.1f} %{floor}", scale=max(room, 0.05)))
    return found


def hand_off(results, works):
    found = []
    for work in works:
        ratio, least = over_bare(results, work, "default", "ns"), over_bare(results, work, "least", "ns")
        floor = f"; {least:.3f} × is the floor" if least and ratio and ratio > 1.05 else ""
        found += at_most(f"{work}: unlock to the waiter's return", 1.05, ratio,
                         note=f"{floor} (bare {statistics.median(of(results, work, 'bare', 'ns') or [0]) / 1000:.1f} µs ±{half_spread(of(results, work, 'bare', 'ns')):.0f} %)")
    return found


def flat(results, pairs):
    """What a second thread does to the ratio."""
    found = []
    for one, two in pairs:
        first, second = over_bare(results, one, "default", "ns"), over_bare(results, two, "default", "ns")
        if first and second:
            found += at_most(f"{one}: cost with 2 threads over cost with 1", 1.05, second / first)
    return found


def live_samples(results):
    few = over_bare(results, "ring, 1k live samples", "default", "ns")
    found = []
    for work, limit in (("ring, 100k live samples", 1.05), ("ring, 1M live samples", 1.1)):
        many = over_bare(results, work, "default", "ns")
        if few and many:
            found += at_most(f"{work}: over 1k live samples", limit, many / few)
    return found
