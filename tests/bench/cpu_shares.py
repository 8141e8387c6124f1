#!/usr/bin/env python3
"""Compares what CPU profilers say of the same native programs: Holdfast (--cpu), gperftools' profiler and perf, 100 samples a second.

    tests/bench/cpu_shares.py [--build BUILD] [--rounds N]

Each program does the same work in each run: cpu_mix (twelve functions in two threads, one of them in the kernel) and
maps_and_strings (C++ containers with an operator new of their own; libc is one row). Both are compiled here without debug information, so that every profiler sees the
same functions; addresses are looked up here, the same way for all. For the ten largest functions, prints each profiler's share
of the time in the function itself, and the difference to Holdfast's in standard errors of both samples. Exit status 1 if a
difference is more than four. A profiler that is not there, or not permitted, is left out, and the output says so.

Needs: cc, c++, nm, readelf; libgoogle-perftools4 (libprofiler.so.0), linux-perf. Takes about five minutes on an idle machine.
"""
import argparse
import bisect
import glob
import gzip
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/fleet"))
from pprof_reader import grouped, numbers, signed  # noqa: E402

HERTZ = 100
LARGEST = 10
TURNS = 8  # so that what else the machine does is the same for all


def clean():
    return {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "CPUPROFILE")) and name != "LD_PRELOAD"}


class Program:
    """An executable at fixed addresses, with its symbols."""

    def __init__(self, path, arguments):
        self.path, self.command = path, [path, *arguments]
        self.starts, self.names, self.ends = [], [], []
        headers = subprocess.run(["readelf", "-lW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.base = int(re.search(r"LOAD +0x0+ (0x[0-9a-f]+)", headers)[1], 16)
        symbols = subprocess.run(["nm", "-n", "-S", "-C", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in symbols.splitlines():
            found = re.match(r"([0-9a-f]+) ([0-9a-f]+) [tTwWiuV] (.*)", line)
            if found:
                self.starts.append(int(found[1], 16))
                self.ends.append(int(found[1], 16) + int(found[2], 16))
                self.names.append(found[3])

    def function(self, address, file):
        if os.path.basename(file) != os.path.basename(self.path):
            return "[%s]" % re.sub(r"[-.0-9]*\.so.*", "", os.path.basename(file))
        at = bisect.bisect_right(self.starts, address) - 1
        return self.names[at] if at >= 0 and address < self.ends[at] else "[?]"


def add(counts, name, count):
    counts[name] = counts.get(name, 0) + count


def with_holdfast(program, build, folder):
    out = os.path.join(folder, "holdfast")
    subprocess.run([f"{build}/bin/holdfast", "run", "-q", f"--cpu={HERTZ}", "--heap-interval", "0", "--lock-interval", "0", "-o", out, "--", *program.command], env=clean(), check=True)
    counts = {}
    with open(sorted(glob.glob(out + "/*.cpu.pb.gz"))[-1], "rb") as file:
        top = grouped(gzip.decompress(file.read()))
    strings = [text.decode() for text in top[6]]
    mappings, locations = {}, {}
    for data in top.get(3, []):
        message = grouped(data)
        mappings[message[1][0]] = strings[message.get(5, [0])[0]]
    for data in top.get(4, []):
        message = grouped(data)
        locations[message[1][0]] = (message.get(3, [0])[0], mappings.get(message.get(2, [0])[0], "?"))
    for data in top.get(2, []):
        message = grouped(data)
        address, file = locations[next(iter(numbers(message[1])))]
        add(counts, program.function(address, file), signed(next(iter(numbers(message[2])))))
    return counts


def with_gperftools(program, _, folder):
    """Its file: words; a header of five, (count, depth, addresses) for each stack, a trailer 0 1 0, then the memory map as text."""
    out = os.path.join(folder, "gperftools")
    environment = dict(clean(), LD_PRELOAD="libprofiler.so.0", CPUPROFILE=out, CPUPROFILE_FREQUENCY=str(HERTZ))
    subprocess.run(program.command, env=environment, check=True, stderr=subprocess.DEVNULL)
    with open(out, "rb") as file:
        data = file.read()
    counts, at, stacks = {}, 40, []
    while True:
        count, depth = struct.unpack_from("<QQ", data, at)
        stacks.append((count, struct.unpack_from("<Q", data, at + 16)[0]))
        at += 16 + 8 * depth
        if count == 0:
            stacks.pop()
            break
    maps = []
    for line in data[at:].decode(errors="replace").splitlines():
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ..x. \S+ \S+ \S+ *(.*)", line)
        if found:
            maps.append((int(found[1], 16), int(found[2], 16), found[3]))
    for count, address in stacks:
        file = next((path for start, end, path in maps if start <= address < end), "?")
        add(counts, program.function(address, file), count)
    return counts


def with_perf(program, _, folder):
    """Time in the kernel belongs to the innermost function of the program, as with the others. perf's addresses are places in a file."""
    out = os.path.join(folder, "perf")
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-g", "-o", out, "--", *program.command]
    subprocess.run(command, env=clean(), check=True, stderr=subprocess.DEVNULL)
    ran = subprocess.run(["perf", "script", "-i", out, "-F", "comm,ip,dso"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    counts = {}
    for stack in ran.stdout.split("\n\n"):
        for line in stack.splitlines():
            found = re.match(r"\s+([0-9a-f]+) \((.*)\)$", line)
            if found and not found[2].startswith("[") and int(found[1], 16) < 1 << 63:
                address = int(found[1], 16)
                add(counts, program.function(address + program.base if address < program.base else address, found[2]), 1)
                break
    return counts


PROFILERS = {"holdfast": with_holdfast, "gperftools": with_gperftools, "perf": with_perf}


def compare(name, program, build):
    found, left_out = {}, set()
    for profiler, run in TURNS * list(PROFILERS.items()):
        if profiler in left_out:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                for function, count in run(program, build, folder).items():
                    add(found.setdefault(profiler, {}), function, count)
            except (OSError, subprocess.CalledProcessError, IndexError, struct.error) as error:
                print(f"{name}: {profiler} is left out: {error}")
                left_out.add(profiler)
                found.pop(profiler, None)
    totals = {profiler: sum(counts.values()) for profiler, counts in found.items()}
    print(f"{name}: samples " + ", ".join(f"{profiler} {total:,}" for profiler, total in totals.items()))
    ours, failed, worst = found["holdfast"], False, {}
    for function in sorted(ours, key=ours.get, reverse=True)[:LARGEST]:
        share = ours[function] / totals["holdfast"]
        line = f"  {function[:44]:44} {100 * share:6.2f} %"
        for profiler in list(found)[1:]:
            other = found[profiler].get(function, 0) / totals[profiler]
            mean = (ours[function] + found[profiler].get(function, 0)) / (totals["holdfast"] + totals[profiler])
            error = math.sqrt(mean * (1 - mean) * (1 / totals["holdfast"] + 1 / totals[profiler]))
            away = (other - share) / error
            worst[profiler] = max(worst.get(profiler, 0), abs(away))
            line += f"   {profiler} {100 * other:6.2f} % ({away:+.1f})"
            failed |= abs(away) > 4
        print(line)
    print("  largest difference in standard errors: " + ", ".join(f"{profiler} {away:.1f}" for profiler, away in worst.items()), flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--rounds", type=int, default=8000, help="of cpu_mix in all; 200 are a second of processor time")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        # Without debug information, and with frame pointers, which perf needs to find the function below the kernel.
        flags = ["-O2", "-no-pie", "-fno-omit-frame-pointer", "-pthread"]
        mix, maps = os.path.join(folder, "cpu_mix"), os.path.join(folder, "maps_and_strings")
        subprocess.run(["cc", *flags, f"{TOP}/tests/bench/cpu_mix.c", "-o", mix, "-lm"], check=True)
        subprocess.run(["c++", *flags, "-O1", "-static-libstdc++", "-static-libgcc", f"{TOP}/tests/programs/maps_and_strings.cc", f"{TOP}/tests/bench/own_new.cc", "-o", maps], check=True)
        failed |= compare("cpu_mix", Program(mix, [str(options.rounds // TURNS)]), options.build)
        failed |= compare("maps_and_strings", Program(maps, ["2", str(options.rounds // TURNS * 9000)]), options.build)
    sys.exit(failed)


if __name__ == "__main__":
    main()
