#!/usr/bin/env python3
"""What a live page of `holdfast serve` costs: redis-server under redis-benchmark, asked once a second as the page does.

    tests/bench/live_cost.py [SECONDS]       default: 60

Prints the processor time of the server and of the program's exporter, as a part of a core, and what the server holds, while
somebody looks, with two browsers, and while nobody does. Needs redis-server and redis-benchmark. Not a test: it prints what it measured.
"""
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
from fleet import LIBRARY, TOOL, clean_environment  # noqa: E402


def cpu_seconds(pid):
    """Of all its threads, to a nanosecond, those that have ended too: by the clock of the process."""
    return time.clock_gettime((~pid << 3) | 2)  # CLOCK_PROCESS_CPUTIME_ID of another process


def exporter_of(out):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue
        if b"exporter" in arguments and out.encode() in b" ".join(arguments):
            return int(pid)
    return None


def memory(pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.split(":", 1) for line in file)["VmRSS"].strip()


class Browser(threading.Thread):
    """Asks as report/page/web/src/ui/live/feed.ts does."""

    def __init__(self, address, pid, seconds):
        super().__init__(daemon=True)
        self.address, self.pid, self.until = address, pid, time.monotonic() + seconds
        self.answers, self.unchanged, self.bytes, self.longest, self.pace = 0, 0, 0, 0.0, 0
        self.start()

    def run(self):
        connection, version = http.client.HTTPConnection(self.address, timeout=60), ""
        while time.monotonic() < self.until:
            begin = time.monotonic()
            connection.request("GET", "/p/%d/live?since=%s" % (self.pid, version))
            answer = connection.getresponse()
            body = answer.read()
            self.longest = max(self.longest, time.monotonic() - begin)
            version, self.pace = answer.getheader("Holdfast-Version"), int(answer.getheader("Holdfast-Pace"))
            self.answers, self.unchanged, self.bytes = self.answers + 1, self.unchanged + (answer.status == 204), self.bytes + len(body)
            time.sleep(max(0, begin + self.pace / 1000 - time.monotonic()))
        connection.close()


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    tables, out = tempfile.mkdtemp(prefix="holdfast-cost-", dir="/dev/shm"), tempfile.mkdtemp(prefix="holdfast-cost-")
    socket = os.path.join(out, "redis.sock")
    environment = clean_environment()
    environment.update(LD_PRELOAD=os.path.abspath(LIBRARY), HOLDFAST_OUT=out, HOLDFAST_TABLES=tables)
    children, goes_on = [], True

    def load():
        while goes_on:
            subprocess.run(["redis-benchmark", "-s", socket, "-q", "-n", "200000", "-r", "100000", "-d", "100", "-t", "set,hset,lpush"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    try:
        redis = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", out], env=environment, stdout=subprocess.DEVNULL)
        children.append(redis)
        server = subprocess.Popen([TOOL, "serve", "--listen", "127.0.0.1:0", "--tables", tables], env=clean_environment(), stderr=subprocess.PIPE, text=True)
        children.append(server)
        address = server.stderr.readline().split("://")[1].strip()
        loader = threading.Thread(target=load, daemon=True)
        loader.start()
        time.sleep(3)
        exporter = exporter_of(out)

        def measure(what, browsers):
            if browsers > 0:
                Browser(address, redis.pid, 2).join()  # names are looked up
            watched = [pid for pid in (server.pid, exporter, redis.pid) if pid is not None]
            before, start = [cpu_seconds(pid) for pid in watched], time.monotonic()
            looking = [Browser(address, redis.pid, seconds) for _ in range(browsers)]
            for browser in looking:
                browser.join()
            if not looking:
                time.sleep(max(65, seconds))  # after a minute what was read is forgotten
            took = time.monotonic() - start
            parts = [100 * (cpu_seconds(pid) - one) / took for pid, one in zip(watched, before)]
            print("%s: serve %.2f %% of a core, %s; redis-server %.0f %%" % (
                what, parts[0], "exporter %.2f %%" % parts[1] if exporter is not None else "no exporter", parts[-1]))
            for browser in looking:
                print("  %d answers in %.0f s, %d unchanged, %.1f kB each, the longest after %.0f ms, pace %d ms" % (
                    browser.answers, took, browser.unchanged, browser.bytes / max(1, browser.answers - browser.unchanged) / 1000, 1000 * browser.longest, browser.pace))
            print("  resident memory of serve:", memory(server.pid))

        measure("one browser", 1)
        measure("two browsers", 2)
        measure("nobody", 0)
    finally:
        goes_on = False
        for child in reversed(children):
            child.terminate()
            child.wait()
        shutil.rmtree(tables, True)
        shutil.rmtree(out, True)


if __name__ == "__main__":
    main()
