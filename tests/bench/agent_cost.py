#!/usr/bin/env python3
"""What `holdfast agent` costs beside many programs: processor time, memory, and what it sends.

    tests/bench/agent_cost.py [PROCESSES] [SECONDS]       default: 1000 programs, 60 s at an interval of 15 s

Each program is tests/programs/live_steps under the library; each second one in ten does a step. Prints what it measured, as JSON
that scripts/bench takes: percent of a core once each program is known (first: seconds of processor until then), KiB resident at
the most, profiles a second.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
from fleet import LIBRARY, PROGRAMS, TOOL, clean_environment  # noqa: E402
from pyroscope_stand_in import StandIn  # noqa: E402


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    with open("/proc/%d/status" % pid) as file:
        lines = dict(line.split(":", 1) for line in file)
    return {name: int(lines[name].split()[0]) for name in ("VmRSS", "VmHWM", "RssAnon")}


class Cleanups:
    def addCleanup(self, *_):
        pass


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    tables, out = tempfile.mkdtemp(prefix="holdfast-cost-", dir="/dev/shm"), tempfile.mkdtemp(prefix="holdfast-cost-")
    environment = clean_environment()
    environment.update(LD_PRELOAD=os.path.abspath(LIBRARY), HOLDFAST_OUT=out, HOLDFAST_TABLES=tables, HOLDFAST_EXPORTER="no")
    environment.update(HOLDFAST_HEAP_INTERVAL="64KiB", HOLDFAST_MAX_MEMORY="2MiB")
    programs = []
    agent = None
    try:
        for _ in range(count):
            programs.append(subprocess.Popen([os.path.join(PROGRAMS, "live_steps")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment))
        for program in programs:
            program.stdout.readline()
            for _ in range(10):
                program.stdin.write(b"x\n")
            program.stdin.flush()
        server = StandIn(Cleanups())
        agent = subprocess.Popen([TOOL, "agent", server.url, "--tables", tables, "--listen", "127.0.0.1:0"], env=clean_environment())
        begin = time.monotonic()
        while len({one.labels["pid"] for one in list(server.kept)}) < count and time.monotonic() < begin + 120:
            time.sleep(0.5)
        known = len({one.labels["pid"] for one in server.kept})
        if known < count:
            sys.exit("agent_cost: of %d programs %d were reported" % (count, known))
        first = cpu_seconds(agent.pid)
        before, kept, start = cpu_seconds(agent.pid), len(server.kept), time.monotonic()
        while time.monotonic() < start + seconds:
            for program in programs[::10]:
                program.stdin.write(b"x\n")
                program.stdin.flush()
            time.sleep(1)
        took = time.monotonic() - start
        if server.refused:
            sys.exit("agent_cost: refused: %s" % server.refused[0])
        percent = 100 * (cpu_seconds(agent.pid) - before) / took
        print(json.dumps({"programs": count, "seconds": took, "first": first, "percent": percent, "profiles": (len(server.kept) - kept) / took, **memory(agent.pid)}))
    finally:
        if agent is not None:
            agent.terminate()
            agent.wait()
        for program in programs:
            program.kill()
            program.wait()
        shutil.rmtree(tables, True)
        shutil.rmtree(out, True)


if __name__ == "__main__":
    main()
