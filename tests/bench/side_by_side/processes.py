"""Figures from the tests' programs: resident memory, and what a snapshot of a large profile does to its program."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from works import Failed, environment


def resident(build, configurations, folder, rounds):
    """500,000 live blocks under random replacement: configuration → resident memory of each round."""
    found = {"bare": [], "default": []}
    for _ in range(rounds):
        for configuration in configurations:
            if configuration.name in found:
                said = subprocess.run([os.path.join(build, "tests/programs/random_replacement")], env=environment(configuration, folder),
                                      capture_output=True, text=True, check=True).stdout
                found[configuration.name].append(int(said.split("resident ")[1]))
    return found


SIZES = [16, 64, 256] + [1 << octave for octave in range(10, 25)] + [64 << 20]


def named(size):
    return f"{size} B" if size < 1 << 10 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def block_peaks(build, configurations, folder, quick):
    """Blocks that come and go (tests/programs/block_patterns): interval → size → by how many per cent the highest peak of
    resident memory is above bare, our own tables left out, and in which pattern."""
    plain = {c.name: c for c in configurations}
    program = os.path.join(build, "tests/programs/block_patterns")

    def peak(arguments, configuration, **options):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as tables:
            done = subprocess.run([program, *arguments], env={**environment(configuration, folder), **options, "HOLDFAST_EXPORTER": "no", "HOLDFAST_TABLES": tables},
                                  capture_output=True, text=True, check=True)
        _, highest, _, own = done.stdout.split()
        return int(highest) - int(own)

    found = {"512KiB": {}, "4MiB": {}}
    for size in SIZES[::3] if quick else SIZES:
        for pattern in ("replace", "queue", "waves", "grow"):
            for kind in ("equal", "varied", "mixed"):
                if kind == "mixed" and size < 1 << 10:
                    continue
                arguments = [pattern, str(size), kind, str(max(40, 8 * size >> 20)), "4" if size < 256 else "2" if kind == "mixed" else "10"]
                bare = peak(arguments, plain["bare"])
                for interval, most in found.items():
                    over = (peak(arguments, plain["default"], HOLDFAST_HEAP_INTERVAL=interval, HOLDFAST_SEED="1") / bare - 1) * 100
                    if over > most.get(named(size), [-100])[0]:
                        most[named(size)] = [over, f"{pattern}, {kind}"]
    return found


def redis_memory(command, rounds):
    """What redis-server keeps more under load, by scripts/memory: MiB in each round."""
    more = []
    for _ in range(rounds):
        said = subprocess.run(command, capture_output=True, text=True)
        found = re.search(r": (-?\d+) KiB more", said.stderr + said.stdout)
        if found is None:
            raise Failed(f"{command[0]} ended with {said.returncode}: {(said.stderr + said.stdout)[-200:].strip()}")
        more.append(int(found[1]) / 1024)
    return more


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


def snapshots(build, scratch, stacks=100_000, live=1_000_000, rounds=40):
    """Seconds of each snapshot, and the longest allocation while it is taken (own, µs) and while one is taken of a twin, a
    program of the same profile that is stopped (twins). So all that comes from work on the other processors, memory that is
    read and a host that is busy, is on both sides, and what is left is waiting. blocked: the longest that one slept, µs."""
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
    return {"stacks": stacks, "live": live, "seconds": seconds, "own": own, "twins": twins, "blocked": blocked}


def agent(build, top, programs=1000, seconds=60):
    """What `holdfast agent` costs beside so many programs, at its interval of 15 s: tests/bench/agent_cost.py."""
    surroundings = dict(os.environ, HOLDFAST_TOOL=os.path.join(build, "bin/holdfast"), HOLDFAST_PROGRAMS=os.path.join(build, "tests/programs"),
                        HOLDFAST_LIBRARY=os.path.join(build, "lib/holdfast/libholdfast.so"))
    command = [sys.executable, "-B", os.path.join(top, "tests/bench/agent_cost.py"), str(programs), str(seconds)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{command[2]} ended with {done.returncode}: {done.stderr[-300:]}")
    return json.loads(done.stdout)
