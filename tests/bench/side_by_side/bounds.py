"""What must hold, each with its figure and whether it does: the worst first."""

import dataclasses
import statistics

from estimates import Estimate, estimate, lower_quartile, more_at_the_lower_quartile, over_bare, over_other
from instructions import least
from report import of
from works import FLAT, LIVE


HELD, NOT_HELD, UNDECIDED = "held", "**not held**", "cannot be decided"


@dataclasses.dataclass
class Bound:
    """Holds while `figure` ≤ `limit`. `low`, `high`: between them the figure lies, where it was not counted but timed.
    `scale`: what a figure's distance from its limit is measured in."""

    what: str
    limit: float
    figure: float
    shown_limit: str
    shown: str
    scale: float = 0
    low: float = None
    high: float = None

    def verdict(self):
        if self.figure <= self.limit:
            return HELD
        return NOT_HELD if self.low is None or self.low > self.limit else UNDECIDED

    def wants_more(self):
        """Whether more rounds might tell on which side of its limit it lies."""
        return self.low is not None and self.low <= self.limit < self.high

    def left(self):
        return (self.limit - self.figure) / (self.scale or abs(self.limit) or 1)


def table(bounds):
    lines = ["| what | bound | measured | |", "|---|---|---|---|"]
    for bound in sorted(bounds, key=lambda bound: bound.left()):
        lines.append(f"| {bound.what} | {bound.shown_limit} | {bound.shown} | {bound.verdict()} |")
    verdicts = [bound.verdict() for bound in bounds]
    undecided = verdicts.count(UNDECIDED)
    return (f"{verdicts.count(HELD)} of {len(bounds)} bounds held, {verdicts.count(NOT_HELD)} not" +
            (f"; for {undecided} it {UNDECIDED}" if undecided else "") +
            ". What was timed is a median (or the figure that its line names), with its interval (99 %); where that is above its bound and the interval is not, it cannot be decided. "
            "Sorted by how near to its bound each is.\n\n" + "\n".join(lines) + "\n")


def at_most(what, limit, figure, unit="×", digits=3, note=""):
    """`figure`: a number, an Estimate, or None."""
    if figure is None:
        return []
    if isinstance(figure, (int, float)):
        return [Bound(what, limit, figure, f"≤ {limit:g} {unit}", f"{figure:.{digits}f} {unit}{note}")]
    return [Bound(what, limit, figure.middle, f"≤ {limit:g} {unit}", f"{figure.middle:.{digits}f} {unit} ({figure}){note}", low=figure.low, high=figure.high)]


# ---- Paths, counted ----

PATHS = [("malloc", "malloc(64) + free", 12), ("ring", "a ring of 1,024 blocks", 14), ("new", "new + delete", 0),
         ("sized", "new + sized delete", 0), ("lock", "uncontended lock + unlock", 10)]


def paths(more):
    """`more`: instructions that each path has more."""
    return [Bound(f"{what}, instructions over bare", limit, more[name], f"≤ {limit:+d}", f"{more[name]:+.1f}", scale=max(limit, 10))
            for name, what, limit in PATHS if name in more]


# ---- Memory, snapshots ----

def resident(found):
    if not found or not found["bare"] or not found["default"]:
        return []
    more = (statistics.median(found["default"]) / statistics.median(found["bare"]) - 1) * 100
    return [Bound("resident memory of 500,000 blocks, randomly replaced", 1, more, "≤ +1 %", f"{more:+.2f} %")]


def peaks(found):
    """The worst of all sizes, patterns and intervals."""
    if not found:
        return []
    over, pattern, size, interval = max((*figure, size, interval) for interval, most in found.items() for size, figure in most.items())
    return [Bound("peak memory of blocks that come and go, 16 B to 64 MiB, own tables left out", 5, over, "≤ +5 %",
                  f"{over:+.1f} % ({size}, {pattern}, at {interval})")]


def redis_memory(more):
    return at_most("own memory, redis under load", 8, statistics.median(more), "MiB", 1) if more else []


def snapshots(found):
    """A wait that comes with a snapshot is in nearly every round; what the host takes away, up to some milliseconds, is in
    more than half of them, with a snapshot and without. So lower quartiles are compared."""
    if not found:
        return []
    blocked, rounds = found["blocked"], len(found["own"])
    waits = estimate(list(zip(found["own"], found["twins"])), more_at_the_lower_quartile)
    waits = Estimate(*(max(blocked, figure) for figure in (waits.middle, waits.low, waits.high)))  # asleep in the kernel is waiting, for whatever
    return [*at_most(f"snapshot of {found['stacks']:,} stacks and {found['live']:,} live samples, to the finished file", 1, statistics.median(found["seconds"]), "s", 2),
            Bound("the longest that an allocation waits for a snapshot", 50, waits.middle, "≤ 50 µs",
                  f"{waits.middle:+.0f} µs ({waits.low:+.0f} to {waits.high:+.0f}; longest allocation while one is taken {lower_quartile(found['own']):.0f} µs, while one "
                  f"of a twin is taken {lower_quartile(found['twins']):.0f} µs, lower quartiles of {rounds}; medians {statistics.median(found['own']):.0f} and "
                  f"{statistics.median(found['twins']):.0f} µs; blocked in the kernel: {blocked:.0f} µs)",
                  low=waits.low, high=waits.high)]


# ---- One sample ----

SAMPLES = [("sample_bench: Hot", "one sample, depth 30, hot stack", 1), ("sample_bench: Known", "one sample, by turns on 1,000 stacks", 1),
           ("sample_bench: New", "one sample, unknown stack", 3), ("sample_bench: FirstOfAThread", "a thread's first sample", 20)]


def samples(units):
    found = []
    for name, what, limit in SAMPLES:
        if name in units:
            found += at_most(what, limit, units[name] / 1000, "µs", 2)
    return found


# ---- Whole programs ----

# python3: 1.2, and one instruction in each of its frees, for the look at large blocks (docs/performance.md, the worst case).
INSTRUCTIONS = {"sqlite3": 0.5, "g++": 0.3, "python3": 1.32, "redis": 1.2}


def instructions_of_programs(instructions):
    found = []
    for name, limit in INSTRUCTIONS.items():
        counts = instructions.get(name, {})
        if {"default", "bare"} <= counts.keys():
            bare = counts["bare"]["total"]
            more, floor = (counts["default"]["total"] / bare - 1) * 100, least(counts["default"]) / bare * 100
            found.append(Bound(f"{name}, instructions over bare", limit, more, f"≤ {limit} %",
                               f"{more:+.2f} %" + (f"; {floor:.2f} % is the floor" if more > limit else "")))
    return found


def cpu_time(results, programs):
    found = []
    for work in programs:
        found += at_most(f"{work}, CPU time, default intervals", 1.02, over_bare(results, work, "default", "cpu"))
    return found


# Over bare, and as a part of what heaptrack takes in the same run; None: no bound.
EVERY = {"sqlite3": (1.3, None), "python3": (1.6, 0.45), "g++": (1.25, None), "redis, pipelined": (1.3, None), "a loop below 32 frames": (4, None),
         "the same with new and delete": (4, None), "maps and strings, 4 threads": (2, None), "random call trees": (None, 0.4),
         "random call trees, none in [overflow]": (None, 0.4)}


def every_allocation(results, works):
    found = []
    for work in works:
        limit, part = EVERY[work]
        ratio, heaptrack = (over_bare(results, work, configuration, "cpu") for configuration in ("every", "heaptrack"))
        if ratio and limit:
            found += at_most(f"{work}, CPU time, every allocation recorded", limit, ratio, digits=2)
        if part and (over := over_other(results, (work, "every"), (work, "heaptrack"), "cpu")):
            found += at_most(f"{work}, CPU time, every allocation recorded: over heaptrack's", part, over,
                             note=f"; {ratio.middle:.2f} × bare's, and {heaptrack.middle:.2f}")
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
        floor = f"; {(least.middle - 1) * 100:+.1f} % is the floor" if least and abs(away) > room else ""
        found.append(Bound(f"{work}: time per round, either direction", room, abs(away), f"bare's own, {'+' if away >= 0 else '−'}{room * 100:.1f} %",
                           f"{away * 100:+.1f} %{floor}", scale=max(room, 0.05)))
    return found


def hand_off(results, works):
    found = []
    for work in works:
        ratio, least = over_bare(results, work, "default", "ns"), over_bare(results, work, "least", "ns")
        floor = f"; {least.middle:.3f} × is the floor" if least and ratio and ratio.middle > 1.05 else ""
        found += at_most(f"{work}: unlock to the waiter's return", 1.05, ratio,
                         note=f"{floor}; bare {statistics.median(of(results, work, 'bare', 'ns') or [0]) / 1000:.1f} µs")
    return found


def flat(results, works):
    """What a second thread does to the cost: by turns in one process, and that over the same of a bare one."""
    return [bound for work in works
            for bound in at_most(f"{work.removesuffix(', 2 threads')}: cost with 2 threads over cost with 1", 1.05,
                                 over_bare(results, work, "default", "together_over_alone"))]


def live_samples(results, few, more):
    found = []
    for work, limit in more:
        found += at_most(f"{work}: over {few.partition(', ')[2]}", limit, over_other(results, (work, "default"), (few, "default"), "ns"))
    return found


def agent(found):
    if not found:
        return []
    beside = f"agent beside {found['programs']:,} programs, every 15 s"
    return [*at_most(f"{beside}: processor", 5, found["percent"], "% of a core", 1), *at_most(f"{beside}: memory", 100, found["VmHWM"] * 1024 / 1e6, "MB", 0)]


def of_all(results, works):
    """The bounds of whatever was measured. `results`: see results.py."""
    runs = results["runs"]
    return [*paths(results["paths"]), *resident(results["resident"]), *peaks(results["peaks"]), *redis_memory(results["redis memory"]), *snapshots(results["snapshots"]), *agent(results["agent"]),
            *instructions_of_programs(results["instructions"]), *cpu_time(runs, works.programs), *every_allocation(runs, EVERY),
            *contended(runs, works.contended), *hand_off(runs, works.handed), *samples(results["units"]), *flat(runs, FLAT), *live_samples(runs, *LIVE)]
