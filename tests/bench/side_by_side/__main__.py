"""scripts/bench: see there."""

import argparse
import concurrent.futures
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

import bounds
import processes
import report
from configurations import all_configurations, least_locks
from estimates import over_bare
from instructions import count, count_redis, least
from works import FLAT, LIVE, Failed, callgrind_commands, lock_works, micro_works, needed_programs, program_works


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    with open("/etc/os-release") as release:
        system = next((line.split("=")[1].strip().strip('"') for line in release if line.startswith("PRETTY_NAME")), "Linux")
    return f"{model}, {os.cpu_count()} cores; {system}, glibc {platform.libc_ver()[1]}, Linux {platform.release()}"


class Runner:
    def __init__(self, scratch):
        self.scratch, self.results, self.failures = scratch, {}, []
        self.out = set()  # what failed once: its next run would be taken for one of an earlier round

    def once(self, work, configuration):
        folder = tempfile.mkdtemp(dir=self.scratch)
        try:
            self.results.setdefault(work.name, {}).setdefault(configuration.name, []).append(work.run(configuration, folder))
            return True
        except Failed as failed:
            self.failures.append(f"{work.name} under {configuration.name}: {failed}")
            say(self.failures[-1])
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def interleaved(self, works, configurations, rounds):
        """Round by round, every configuration once, each round beginning with another one."""
        for turn in range(rounds):
            for i in range(len(configurations)):
                configuration = configurations[(i + turn) % len(configurations)]
                # One run in `slow`, so that what takes forty times longer does not take forty times longer.
                if turn >= max(1, round(rounds / configuration.slow)):
                    continue
                for work in works:
                    if (work.name, configuration.name) not in self.out and not self.once(work, configuration):
                        self.out.add((work.name, configuration.name))

    def until_told(self, works, configurations, bounds_now, seconds):
        """More rounds while some bound lies within the interval of what was measured, for so long at most."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(bound.wants_more() for bound in bounds_now()):
            self.interleaved(works, configurations, 4)


def count_instructions(inputs, scratch, configurations, quick, wanted):
    """name → configuration → callgrind.Counted. Two at a time: they count, they do not measure time."""
    jobs = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for name, (command, more) in callgrind_commands(inputs, quick).items():
            if not wanted(name + " instructions"):
                continue
            for configuration in configurations:
                folder = tempfile.mkdtemp(dir=scratch)
                job = (pool.submit(count_redis, configuration, folder, 12_000 if quick else 60_000) if command is None
                       else pool.submit(count, configuration, folder, command, more))
                jobs[name, configuration.name] = job
    counted = {}
    for (name, configuration), job in jobs.items():
        try:
            counted.setdefault(name, {})[configuration] = job.result()
        except Failed as failed:
            say(f"{name} under callgrind, {configuration}: {failed}")
    return counted


def unit_benchmarks(build, quick):
    """Google Benchmark's: name → nanoseconds."""
    found = {}
    for program in ("sample_bench", "stack_trace_bench"):
        path = os.path.join(build, "bin", program)
        done = subprocess.run([path, "--benchmark_format=json", f"--benchmark_min_time={0.05 if quick else 0.2}", "--benchmark_repetitions=3",
                               "--benchmark_report_aggregates_only=true"], capture_output=True, text=True)
        if done.returncode != 0:
            say(f"{program} ended with {done.returncode}")
            continue
        for row in json.loads(done.stdout)["benchmarks"]:
            if row["aggregate_name"] == "median":
                found[f"{program}: {row['run_name'].split('/iterations')[0].replace('/manual_time', '')}"] = row["real_time"]
    return found


def floors_table(counted):
    """Where a whole program's instructions come from, and what the least would be. Also: name → the least, per cent."""
    lines, floors = ["| program | bare | more | of it in fast paths and samples | allocations | frees | locks + unlocks | floor |", "|---" * 8 + "|"], {}
    for name, counts in counted.items():
        if not {"bare", "default"} <= counts.keys():
            continue
        bare, ours = counts["bare"].total, counts["default"]
        floors[name] = least(ours) / bare * 100
        calls = ours.calls
        lines.append(f"| {name} | {bare / 1e6:,.0f} M | {(ours.total / bare - 1) * 100:+.2f} % | {ours.library() / bare * 100:.2f} % | "
                     f"{calls['malloc'] + calls['calloc'] + calls['realloc']:,} | {calls['free']:,} | "
                     f"{calls['pthread_mutex_lock'] + calls['pthread_mutex_unlock']:,} | {floors[name]:.2f} % |")
    return "\n".join(lines) + "\n", floors


def markdown(results, micro, programs, configurations, least_of_locks, instructions, origins, units, remarks, failures, command):
    names = [c.name for c in configurations]
    present = [name for name in names if any(name in results.get(work, {}) for work in micro + programs)]
    text = [f"Measured {datetime.date.today()} by `{command}` on {machine()}. Ratios are to bare, each round's to its own bare run, and of these the median: 1.000 is no cost; ± is "
            "half the spread of the runs.\n"]
    floor = [least_of_locks] if any(least_of_locks.name in results.get(work, {}) for work in micro) else []
    explained = [c for c in configurations if c.name in present and c.name != "bare"] + floor
    text.append("".join(f"- **{c.name}**: {c.explains}\n" for c in explained))
    if remarks:
        text.append("".join(f"- {remark}\n" for remark in remarks))
    if any(work in results for work in programs):
        text.append("**CPU time of the program** (bare in seconds):\n\n" + report.ratios(results, programs, present, "cpu", "CPU time", lambda v: f"{v:.2f} s"))
        servers = [work for work in programs if report.of(results, work, "bare", "throughput")]
        if servers:
            text.append("**Throughput** (higher is better):\n\n" +
                        report.ratios(results, servers, present, "throughput", "operations/s", lambda v: f"{v:,.0f}"))
        text.append("**Peak resident memory**:\n\n" + report.ratios(results, programs, present, "memory", "memory", report.kib))
        text.append("**Bytes written**:\n\n" + report.plain(results, programs, present, "bytes", "written", report.size))
    if instructions:
        def cell(work, configuration):
            counts = instructions[work]
            if configuration == "bare":
                return f"{counts['bare'] / 1e6:,.0f} M" if "bare" in counts else "–"
            return f"{(counts[configuration] / counts['bare'] - 1) * 100:+.2f} %" if configuration in counts and "bare" in counts else "–"

        columns = [name for name in names if any(name in counts for counts in instructions.values())]
        text.append("**Instructions of the whole program** (callgrind):\n\n" + report.table(list(instructions), columns, cell, "instructions"))
        text.append("Where they come from at the default intervals. *Floor*: calls × what any library between pays that samples bytes and looks at "
                    "locks (malloc 4, free 3, lock 3, unlock 3: `LEAST` in tests/bench/side_by_side/instructions.py), samples left out:\n\n" + origins)
    if any(work in results for work in micro):
        text.append("**Small patterns, ns for each operation of each thread**:\n\n" + report.ratios(results, micro, present + [c.name for c in floor], "ns", "pattern", lambda v: f"{v:.1f} ns"))
    if units:
        text.append("**Units** (Google Benchmark, medians):\n\n| unit | ns |\n|---|---|\n" + "".join(f"| {name} | {value:,.0f} |\n" for name, value in units.items()))
    if failures:
        text.append("Could not be run:\n\n" + "".join(f"- {failure}\n" for failure in failures))
    return "\n".join(text)


def cost_table(results, instructions, units):
    """The README's: few rows, the default intervals."""
    def ratio(work, measure):
        found = over_bare(results, work, "default", measure)
        return f"{found.middle:.2f} ×" if found else "–"

    rows = []
    for work, shown in (("sqlite3", "sqlite3"), ("python3", "python3"), ("g++", "g++"), ("redis, pipelined", "redis"), ("memcached", None)):
        counts = instructions.get(shown, {})
        more = f"{(counts['default'] / counts['bare'] - 1) * 100:+.2f} %" if {"default", "bare"} <= counts.keys() else "–"
        rows.append(f"| {work} | {more} | {ratio(work, 'cpu')} | {ratio(work, 'memory')} |")
    return "| default intervals, over bare | instructions | CPU time | peak memory |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--configurations", default="", metavar="REGEX")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--build", default="build/release")
    arguments = parser.parse_args()
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    build = os.path.abspath(arguments.build)
    if missing := needed_programs():
        say(f"missing: {', '.join(missing)}. scripts/deps bench installs them.")
        return 3
    configurations, remarks = all_configurations(build)
    configurations = [c for c in configurations if c.name == "bare" or re.search(arguments.configurations, c.name)]
    quick, begin = arguments.quick, time.monotonic()
    wanted = lambda name: re.search(arguments.only, name) is not None
    of_ours = [c for c in configurations if c.name in ("bare", "idle", "default")]
    compared = [c for c in configurations if c.name in ("bare", "default")]
    units, held, least_of_locks = {}, [], least_locks(build)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench.") as scratch:
        inputs = os.path.join(scratch, "inputs")
        os.mkdir(inputs)
        runner = Runner(scratch)
        micro = [work for work in micro_works(build, quick) if wanted(work.name)]
        free, contended, handed = ([work for work in works if wanted(work.name)] for works in lock_works(build, quick))
        programs = [work for work in program_works(build, inputs, quick) if wanted(work.name)]
        def measure(works, ours, rounds, more, bounds_now):
            """A bound of 2 % needs more rounds than one of 100 %, and those of us and bare alone."""
            started, group = time.monotonic(), ", ".join(work.name for work in works)
            runner.interleaved(works, ours, rounds)
            runner.interleaved(works, compared, more)
            runner.until_told(works, compared, bounds_now, 0 if quick else 60)
            say(f"{group}: {time.monotonic() - started:.0f} s")

        for work in programs:
            measure([work], configurations, 2 if quick else 3, 1 if quick else 8, lambda: bounds.cpu_time(runner.results, [work.name]))
        # Peers have no part in locks.
        of_locks = of_ours + [least_of_locks]
        together = [(pair, lambda pair=pair: bounds.flat(runner.results, [pair])) for pair in FLAT]
        together += [((LIVE[0], *(name for name, _ in LIVE[1])), lambda: bounds.live_samples(runner.results, *LIVE)), (("new + delete",), list)]
        for group_names, bounds_now in together:
            group = [work for work in micro + free if work.name in group_names]
            if group:
                measure(group, of_locks if set(group) <= set(free) else configurations, 3 if quick else 5, 2 if quick else 20, bounds_now)
        for work in contended:
            measure([work], of_locks, 5 if quick else 9, 0, list)
        for work in handed:
            measure([work], of_locks, 5 if quick else 9, 4 if quick else 20, lambda: bounds.hand_off(runner.results, [work.name]))
        if wanted("resident"):
            held += processes.resident(build, compared, scratch, 1 if quick else 3)
            held += processes.redis_memory([os.path.join(top, "scripts/memory"), build], 3 if quick else 9)
        if wanted("snapshot"):
            held += processes.snapshots(build, scratch, *((20_000, 100_000, 5) if quick else ()))
        counted = count_instructions(inputs, scratch, compared, quick, wanted)
        if wanted("units"):
            units = unit_benchmarks(build, quick)
        if wanted("paths"):
            held += bounds.paths([os.path.join(top, "scripts/fast_path"), build])
    instructions = {name: {configuration: one.total for configuration, one in counts.items()} for name, counts in counted.items()}
    origins, floors = floors_table(counted)
    names = lambda works: [work.name for work in works]
    held += bounds.instructions_of_programs(instructions, floors) + bounds.cpu_time(runner.results, names(programs)) + bounds.every_allocation(runner.results)
    held += bounds.contended(runner.results, names(contended)) + bounds.hand_off(runner.results, names(handed))
    held += bounds.samples(units) + bounds.flat(runner.results, FLAT) + bounds.live_samples(runner.results, *LIVE)
    micro += free + contended + handed
    say(f"all together {time.monotonic() - begin:.0f} s")
    micro_names, program_names = names(micro), names(programs)
    command = "scripts/bench" + (" --quick" if quick else "") + (f" --only '{arguments.only}'" if arguments.only else "")
    text = markdown(runner.results, micro_names, program_names, configurations, least_of_locks, instructions, origins, units, remarks, runner.failures, command)
    verdicts = (f"By `{command}` on {datetime.date.today()}, medians of interleaved runs, instructions by callgrind. " + bounds.table(held)) if held else ""
    picture = report.plot(runner.results, program_names, [c.name for c in configurations], "cpu", "CPU time over bare (left is cheaper)") if program_names else None
    os.makedirs(os.path.join(build, "bench"), exist_ok=True)
    with open(os.path.join(build, "bench/results.json"), "w") as out:
        json.dump({"runs": runner.results, "instructions": instructions, "units": units}, out, indent=1)
    if arguments.write:
        report.replace_between(os.path.join(top, "docs/performance.md"), "scripts/bench: bounds", verdicts)
        report.replace_between(os.path.join(top, "docs/performance.md"), "scripts/bench: tables", text)
        report.replace_between(os.path.join(top, "README.md"), "scripts/bench: cost", cost_table(runner.results, instructions, units))
        with open(os.path.join(top, "docs/performance.svg"), "w") as out:
            out.write(picture or "")
        say("wrote docs/performance.md, docs/performance.svg and README.md")
    else:
        print(verdicts)
        print(text)
        if picture:
            with open(os.path.join(build, "bench/performance.svg"), "w") as out:
                out.write(picture)
            say(f"the plot is {build}/bench/performance.svg, all figures are in results.json beside it")
    return 0


sys.exit(main())
