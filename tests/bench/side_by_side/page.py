"""What docs/performance.md and README.md say of the results."""

import collections

import bounds
import report
from estimates import over_bare
from instructions import least
from works import HOOKS, OWN


def when(results, command):
    """The day on which most was measured, and what was measured on others."""
    by_day = collections.defaultdict(list)
    for name, day in results["dates"].items():
        by_day[day].append(name)
    if not by_day:
        return f"by `{command}`: nothing"
    first, *others = sorted(by_day, key=lambda day: -len(by_day[day]))
    return f"by `{command}` on {first}" + "".join(f" (on {day}: {'; '.join(by_day[day])})" for day in sorted(others))


def verdicts(results, names, command):
    held = bounds.of_all(results, names)
    return f"Measured {when(results, command)}, medians of interleaved runs, instructions by callgrind. " + bounds.table(held) if held else ""


def more_instructions(instructions, program, configuration):
    """Per cent over bare; None where it was not counted."""
    counts = instructions.get(program, {})
    return (counts[configuration]["total"] / counts["bare"]["total"] - 1) * 100 if {configuration, "bare"} <= counts.keys() else None


def instructions_table(instructions, names):
    def cell(work, configuration):
        if configuration == "bare":
            return f"{instructions[work]['bare']['total'] / 1e6:,.0f} M" if "bare" in instructions[work] else "–"
        more = more_instructions(instructions, work, configuration)
        return "–" if more is None else f"{more:+.2f} %"

    columns = [name for name in names if any(name in counts for counts in instructions.values())]
    return report.table(list(instructions), columns, cell, "instructions")


def floors_table(instructions):
    """Where a whole program's instructions come from, and what the least would be."""
    lines = ["| program | bare | more | of it in fast paths and samples | allocations | frees | locks + unlocks | floor |", "|---" * 8 + "|"]
    for name, counts in instructions.items():
        if not {"bare", "default"} <= counts.keys():
            continue
        bare, ours = counts["bare"]["total"], counts["default"]
        calls = collections.Counter(ours["calls"])
        lines.append(f"| {name} | {bare / 1e6:,.0f} M | {more_instructions(instructions, name, 'default'):+.2f} % | {ours['library'] / bare * 100:.2f} % | "
                     f"{calls['malloc'] + calls['calloc'] + calls['realloc']:,} | {calls['free']:,} | "
                     f"{calls['pthread_mutex_lock'] + calls['pthread_mutex_unlock']:,} | {least(ours) / bare * 100:.2f} % |")
    return "\n".join(lines) + "\n"


def peaks_table(peaks):
    lines = ["| blocks | " + " | ".join(f"a sample every {interval}" for interval in peaks) + " |", "|---" * (1 + len(peaks)) + "|"]
    for size in next(iter(peaks.values())):
        lines.append(f"| {size} | " + " | ".join(f"{most[size][0]:+.1f} ({most[size][1]})" for most in peaks.values()) + " |")
    return "\n".join(lines) + "\n"


def of_programs(runs, programs, present):
    text = ["**CPU time of the program** (bare in seconds):\n\n" + report.ratios(runs, programs, present, "cpu", "CPU time", lambda v: f"{v:.2f} s")]
    servers = [work for work in programs if report.of(runs, work, "bare", "throughput")]
    if servers:
        text.append("**Throughput** (higher is better):\n\n" + report.ratios(runs, servers, present, "throughput", "operations/s", lambda v: f"{v:,.0f}"))
    text.append("**Peak resident memory**:\n\n" + report.ratios(runs, programs, present, "memory", "memory", report.kib))
    text.append("**Bytes written**:\n\n" + report.plain(runs, programs, present, "bytes", "written", report.size))
    return text


def tables(results, names, configurations, floor_of_locks, remarks, command):
    runs, instructions = results["runs"], results["instructions"]
    programs, micro = ([work for work in works if work in runs] for works in (names.programs, names.micro))
    present = [c.name for c in configurations if any(c.name in of_work for of_work in runs.values())]
    text = [f"Measured {when(results, command)}; {results['machine']}. Ratios are to bare, each round's to its own bare run, and of these the median: 1.000 is no cost; ± is "
            "half the spread of the runs.\n"]
    floor = [floor_of_locks] if any(floor_of_locks.name in runs[work] for work in micro) else []
    text.append("".join(f"- **{c.name}**: {c.explains}\n" for c in [c for c in configurations if c.name in present and c.name != "bare"] + floor))
    text.append("".join(f"- {remark}\n" for remark in remarks))
    if programs:
        text += of_programs(runs, programs, present)
    if linked := [work for work in names.linked if work in runs]:
        columns = [name for name in ("bare", "idle", "default", "every", OWN, HOOKS) if any(name in runs[work] for work in linked)]
        text.append("**Programs with an allocator linked in**, redirected at its entries, beside the allocator's own profiler (jemalloc's prof and gperftools' "
                    "TCMALLOC_SAMPLE_PARAMETER at 512 KiB; gperftools' HEAPPROFILE hooks each call; rustc's jemalloc has none). CPU time:\n\n" + report.ratios(runs, linked, columns, "cpu", "CPU time", lambda v: f"{v:.2f} s"))
        text.append("Peak resident memory:\n\n" + report.ratios(runs, linked, columns, "memory", "memory", report.kib))
    if allocating := [work for work in names.allocating if work in runs]:
        text.append("**CPU time of programs that do nothing but allocate**, every allocation recorded (bare in seconds):\n\n" +
                    report.ratios(runs, allocating, [name for name in present if name in ("bare", "every", "heaptrack")], "cpu", "CPU time", lambda v: f"{v:.2f} s"))
    if instructions:
        text.append("**Instructions of the whole program** (callgrind):\n\n" + instructions_table(instructions, [c.name for c in configurations]))
        text.append("Where they come from at the default intervals. *Floor*: calls × what any library between pays that samples bytes and looks at "
                    "locks (malloc 4, free 3, lock 3, unlock 3: `LEAST` in tests/bench/side_by_side/instructions.py), samples left out:\n\n" + floors_table(instructions))
    if micro:
        text.append("**Small patterns, ns for each operation of each thread**:\n\n" +
                    report.ratios(runs, micro, present + [c.name for c in floor], "ns", "pattern", lambda v: f"{v:.1f} ns"))
    if results["peaks"]:
        text.append("**Peak memory of blocks that come and go** (tests/programs/block_patterns: about 40 MiB in blocks of this size, of sizes from half to one "
                    "and a half of it, or of all sizes up to it; randomly replaced, in a queue, in waves, and by realloc), per cent over bare, our own tables left "
                    "out, the highest of the twelve:\n\n" + peaks_table(results["peaks"]))
    if results["units"]:
        text.append("**Units** (Google Benchmark, medians):\n\n| unit | ns |\n|---|---|\n" + "".join(f"| {name} | {value:,.0f} |\n" for name, value in results["units"].items()))
    if results["failures"]:
        text.append("Could not be run:\n\n" + "".join(f"- {said}\n" for of_work in results["failures"].values() for said in of_work))
    return "\n".join(part for part in text if part)


def cost_table(results):
    """The README's: few rows, the default intervals."""
    def ratio(work, measure):
        found = over_bare(results["runs"], work, "default", measure)
        return f"{found.middle:.2f} ×" if found else "–"

    rows = []
    for work, counted in (("sqlite3", "sqlite3"), ("python3", "python3"), ("g++", "g++"), ("redis, pipelined", "redis"), ("memcached", "memcached")):
        more = more_instructions(results["instructions"], counted, "default")
        rows.append(f"| {work} | {'–' if more is None else f'{more:+.2f} %'} | {ratio(work, 'cpu')} | {ratio(work, 'memory')} |")
    return "| default intervals, over bare | instructions | CPU time | peak memory |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def plot(results, names, configurations):
    """None without programs."""
    programs = [work for work in names.programs if work in results["runs"]]
    return report.plot(results["runs"], programs, [c.name for c in configurations], "cpu", "CPU time over bare (left is cheaper)") if programs else None
