"""Runs everything that is wanted, interleaved, and keeps what was measured (results.py)."""

import concurrent.futures
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import bounds
import processes
from configurations import least_locks, own_profiler
from instructions import count, count_memcached, count_redis
from works import FLAT, LINKED, LIVE, Failed, allocating_works, callgrind_commands, linked_works, lock_works, memcached, micro_works, program_works


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


class Runner:
    """Puts what it measures into `results`."""

    def __init__(self, results, scratch, quick):
        self.runs, self.failures, self.scratch, self.quick = results["runs"], results["failures"], scratch, quick
        self.out = set()  # what failed once
        self.turn = 0  # of all rounds

    def once(self, work, configuration):
        folder = tempfile.mkdtemp(dir=self.scratch)
        try:
            run = {**work.run(configuration, folder), "round": self.turn}
            self.runs.setdefault(work.name, {}).setdefault(configuration.name, []).append(run)
        except Failed as failed:
            self.out.add((work.name, configuration.name))
            said = f"{work.name} under {configuration.name}: {failed}"
            self.failures.setdefault(work.name, []).append(said)
            say(said)
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
                    if (work.name, configuration.name) not in self.out:
                        self.once(work, configuration)
            self.turn += 1

    def until_decided(self, works, configurations, bounds_now, seconds):
        """More rounds while some bound lies within the interval of what was measured, for so long at most."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(bound.wants_more() for bound in bounds_now()):
            self.interleaved(works, configurations, 4)

    def measure(self, works, configurations, rounds, more=0, bounds_now=list):
        """`more`: rounds of us and bare alone, as a bound of 2 % needs more of them than one of 100 %."""
        begin, compared = time.monotonic(), [c for c in configurations if c.name in ("bare", "default")]
        self.interleaved(works, configurations, rounds)
        self.interleaved(works, compared, more)
        self.until_decided(works, compared, bounds_now, 0 if self.quick else 60)
        say(f"{', '.join(work.name for work in works)}: {time.monotonic() - begin:.0f} s")


def count_instructions(build, inputs, scratch, configurations, quick, wanted, failures):
    """name → configuration → what callgrind counted. Two at a time: they count, they do not measure time. Of a program that
    failed under one of them, nothing. Servers do a little else each time (redis-server's hash tables have random seeds, by
    which their look-ups differ by half a per cent of it all): of theirs, the median run."""
    jobs = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for name, (command, more) in callgrind_commands(inputs, quick).items():
            if not wanted(name + " instructions"):
                continue
            for configuration in configurations:
                for _ in range(7 if command is None and not quick else 1):
                    folder = tempfile.mkdtemp(dir=scratch)
                    if name == "redis":
                        job = pool.submit(count_redis, configuration, folder, 12_000 if quick else 60_000)
                    elif name == "memcached":
                        job = pool.submit(count_memcached, configuration, folder, memcached(build, 400 if quick else 2_000, connections=1))
                    else:
                        job = pool.submit(count, configuration, folder, command, more)
                    jobs.setdefault((name, configuration.name), []).append(job)
    counted = {}
    for (name, configuration), runs in jobs.items():
        try:
            results = sorted((job.result() for job in runs), key=lambda one: one["total"])
            counted.setdefault(name, {})[configuration] = results[len(results) // 2]
        except Failed as failed:
            said = f"{name} under callgrind, {configuration}: {failed}"
            failures.setdefault(f"{name}, instructions", []).append(said)
            say(said)
    return {name: counts for name, counts in counted.items() if f"{name}, instructions" not in failures}


def unit_benchmarks(build, quick):
    """Google Benchmark's: name → nanoseconds."""
    found = {}
    for program in ("sample_bench", "stack_trace_bench"):
        path = os.path.join(build, "bin", program)
        done = subprocess.run([path, "--benchmark_format=json", f"--benchmark_min_time={0.05 if quick else 0.2}", "--benchmark_repetitions=3",
                               "--benchmark_report_aggregates_only=true"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{program} ended with {done.returncode}: {done.stderr[-200:].strip()}")
        for row in json.loads(done.stdout)["benchmarks"]:
            if row["aggregate_name"] == "median":
                found[f"{program}: {row['run_name'].split('/iterations')[0].replace('/manual_time', '')}"] = row["real_time"]
    return found


def paths(command):
    """Instructions that each path has more, by scripts/fast_path: name → figure."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: not as in the golden table
        raise Failed(f"{command[0]}: {done.stderr.strip()}")
    return {name: float(figure) for name, figure in re.findall(r"^round (\w+) ([+-][\d.]+)", done.stdout, re.MULTILINE)}


def patterns(runner, build, configurations, wanted):
    """The small ones, each with those that it is compared with."""
    quick, runs = runner.quick, runner.runs
    micro = [work for work in micro_works(build, quick) if wanted(work.name)]
    free, contended, handed = ([work for work in works if wanted(work.name)] for works in lock_works(build, quick))
    # Peers have no part in locks.
    of_locks = [c for c in configurations if c.name in ("bare", "idle", "default")] + [least_locks(build)]
    groups = [((two.removesuffix(", 2 threads"), two), lambda two=two: bounds.flat(runs, [two])) for two in FLAT]
    groups += [((LIVE[0], *(name for name, _ in LIVE[1])), lambda: bounds.live_samples(runs, *LIVE)), (("new + delete",), list)]
    for names, bounds_now in groups:
        if group := [work for work in micro + free if work.name in names]:
            runner.measure(group, of_locks if set(group) <= set(free) else configurations, 3 if quick else 5, 2 if quick else 20, bounds_now)
    for work in contended:
        runner.measure([work], of_locks, 5 if quick else 9)
    for work in handed:
        runner.measure([work], of_locks, 5 if quick else 9, 4 if quick else 20, lambda: bounds.hand_off(runs, [work.name]))


def measure(results, top, build, configurations, quick, wanted):
    compared = [c for c in configurations if c.name in ("bare", "default")]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench.") as scratch:
        inputs = os.path.join(scratch, "inputs")
        os.mkdir(inputs)
        runner = Runner(results, scratch, quick)
        # Where every allocation is recorded: as often as bare, as these have bounds of their own.
        recording = [dataclasses.replace(c, slow=1) for c in configurations if c.name in ("bare", "every", "heaptrack")]
        for work in program_works(build, inputs, quick):
            if wanted(work.name):
                runner.measure([work], configurations, 2 if quick else 3, 1 if quick else 8, lambda: bounds.cpu_time(runner.runs, [work.name]))
                if work.name in bounds.EVERY and len(recording) > 1:
                    runner.interleaved([work], recording, 2 if quick else 7)
                    runner.until_decided([work], recording, lambda: bounds.every_allocation(runner.runs, [work.name]), 0 if quick else 150)
        if any(wanted(name) for name in LINKED):
            linked, remarks = linked_works(build, inputs, quick)
            for remark in remarks:
                say(remark)
            with_us = [c for c in configurations if c.name in ("bare", "idle", "default", "every")]
            for work, own in linked:
                if wanted(work.name):
                    runner.measure([work], with_us + [own_profiler(environment, name) for name, environment in own.items()], 2 if quick else 5)
        # Long enough that few runs tell.
        for work in allocating_works(build, quick):
            if wanted(work.name):
                runner.measure([work], recording, 2 if quick else 5)
        patterns(runner, build, configurations, wanted)
        results["instructions"] = count_instructions(build, inputs, scratch, compared, quick, wanted, runner.failures)
        for name, asked, work in (
                ("resident", "resident", lambda: processes.resident(build, compared, scratch, 1 if quick else 3)),
                ("peaks", "resident", lambda: processes.block_peaks(build, compared, scratch, quick)),
                ("redis memory", "resident", lambda: processes.redis_memory([os.path.join(top, "scripts/memory"), build], 3 if quick else 9)),
                ("snapshots", "snapshot", lambda: processes.snapshots(build, scratch, *((20_000, 100_000, 8) if quick else ()))),
                ("agent", "agent", lambda: processes.agent(build, top, seconds=30 if quick else 60)),
                ("units", "units", lambda: unit_benchmarks(build, quick)),
                ("paths", "paths", lambda: paths([os.path.join(top, "scripts/fast_path"), build]))):
            if not wanted(asked):
                continue
            try:
                results[name] = work()
            except (Failed, OSError, ValueError, subprocess.SubprocessError) as failed:  # what was measured until now stays
                runner.failures[name] = [f"{name}: {failed}"]
                say(runner.failures[name][0])
