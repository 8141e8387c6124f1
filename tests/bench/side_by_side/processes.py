"""Single figures from the tests' programs: resident memory, and what a snapshot of a large profile does to its program."""

import contextlib
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time

from bounds import Bound, at_most
from estimates import Estimate, estimate
from works import Failed, environment


def resident(build, configurations, folder, rounds):
    """500,000 live blocks under random replacement: resident memory over bare, medians."""
    found = {"bare": [], "default": []}
    for _ in range(rounds):
        for configuration in configurations:
            if configuration.name in found:
                said = subprocess.run([os.path.join(build, "tests/programs/random_replacement")], env=environment(configuration, folder),
                                      capture_output=True, text=True, check=True).stdout
                found[configuration.name].append(int(said.split("resident ")[1]))
    more = (statistics.median(found["default"]) / statistics.median(found["bare"]) - 1) * 100
    return [Bound("resident memory of 500,000 blocks, randomly replaced", 1, more, "≤ +1 %", f"{more:+.2f} %")]


def redis_memory(command, rounds):
    """What redis-server keeps more under load, by scripts/memory: medians, MiB."""
    more = []
    for _ in range(rounds):
        said = subprocess.run(command, capture_output=True, text=True)
        found = re.search(r": (-?\d+) KiB more", said.stderr + said.stdout)
        if found is None:
            raise Failed(f"{command[0]} ended with {said.returncode}: {(said.stderr + said.stdout)[-200:].strip()}")
        more.append(int(found[1]) / 1024)
    return at_most("own memory, redis under load", 8, statistics.median(more), "MiB", 1)


class Allocating:
    """tests/programs/allocation_waits, every allocation sampled."""

    def __init__(self, build, stacks, live, folder, tables):
        self.tool = os.path.join(build, "bin/holdfast")
        self.process = subprocess.Popen(
            [self.tool, "run", "--exec", "--out", folder, "--tables", tables, "--heap-interval", "1", "--max-memory", "256MiB",
             "--snapshot-every", "0", "--", os.path.join(build, "tests/programs/allocation_waits"), str(stacks), str(live)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise Failed("allocation_waits did not become ready")

    def ask(self):
        """What happened since it was last asked."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def dump(self):
        begin = time.monotonic()
        subprocess.run([self.tool, "dump", str(self.process.pid)], stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - begin

    def step(self):
        """Works for a moment, so that there is something new for a snapshot, and is stopped."""
        self.process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        self.process.send_signal(signal.SIGSTOP)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait(timeout=60)


def snapshots(build, scratch, stacks=100_000, live=1_000_000, rounds=15):
    """Seconds of one snapshot, and how much longer the longest allocation takes while it is taken: beside a snapshot of a
    twin, a program of the same profile that is stopped. So all that comes from work on the other processors, memory that
    is read and a host that is busy, is on both sides, and what is left is waiting."""
    with contextlib.ExitStack() as stack:
        programs = []
        for _ in range(2):
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=scratch))
            tables = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
            programs.append(Allocating(build, stacks, live, folder, tables))
            stack.callback(programs[-1].end)
        program, twin = programs
        twin.step()
        seconds, own, twins, blocked = [], [], [], 0
        for _ in range(rounds):
            program.ask()
            seconds.append(program.dump())
            said = program.ask()
            own.append(said["longest_ns"] / 1000)
            blocked = max(blocked, said["longest_blocked_ns"] / 1000)
            twin.step()
            program.ask()
            twin.dump()
            twins.append(program.ask()["longest_ns"] / 1000)
    waits = estimate([one - other for one, other in zip(own, twins)])
    waits = Estimate(*(max(blocked, figure) for figure in (waits.middle, waits.low, waits.high)))  # asleep in the kernel is waiting, for whatever
    return [*at_most(f"snapshot of {stacks:,} stacks and {live:,} live samples, to the finished file", 1, statistics.median(seconds), "s", 2),
            Bound("the longest that an allocation waits for a snapshot", 50, waits.middle, "≤ 50 µs",
                  f"{waits.middle:+.0f} µs ({waits.low:+.0f} to {waits.high:+.0f}; longest allocation while one is taken {statistics.median(own):.0f} µs, while one "
                  f"of a twin is taken {statistics.median(twins):.0f} µs, medians of {rounds}; blocked in the kernel: {blocked:.0f} µs)", low=waits.low, high=waits.high)]
