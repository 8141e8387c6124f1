"""What the tests of serve and push have in common: profiled programs that step, and the tool beside them.

The build is named by HOLDFAST_TOOL, HOLDFAST_LIBRARY and HOLDFAST_PROGRAMS. Nothing sleeps for a result: each wait is for
an event, and an end of patience is a failure.
"""
import http.client
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from pprof_reader import Profile

TOOL = os.environ.get("HOLDFAST_TOOL", "build/release/bin/holdfast")
LIBRARY = os.environ.get("HOLDFAST_LIBRARY", "build/release/lib/holdfast/libholdfast.so")
PROGRAMS = os.environ.get("HOLDFAST_PROGRAMS", "build/release/tests/programs")
PATIENCE = float(os.environ.get("FLEET_PATIENCE", "60"))  # seconds, on a busy machine


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_") and k not in ("LD_PRELOAD", "OTEL_SERVICE_NAME")}


def eventually(condition, what):
    """`what`: in words, or what says it in the end."""
    end = time.monotonic() + PATIENCE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError("not in time: " + (what() if callable(what) else what))
        time.sleep(0.005)


class Stepper:
    """tests/programs/live_steps under the library: known memory and one known wait for each step."""

    def __init__(self, test, out, tables, name="live_steps", options={}, user=None, env={}, within=()):
        """`within`: a command that runs the program, without the library itself."""
        environment = clean_environment()
        environment.update(LD_PRELOAD=LIBRARY, HOLDFAST_OUT=out, HOLDFAST_TABLES=tables, HOLDFAST_EXPORTER="no")
        environment.update(HOLDFAST_HEAP_INTERVAL="1", HOLDFAST_LOCK_INTERVAL="1ns", HOLDFAST_SNAPSHOT_EVERY="0")
        environment.update(options)
        environment.update(env)
        program = os.path.join(PROGRAMS, "live_steps")
        if name != "live_steps":
            copy = os.path.join(test.folder, name)
            if not os.path.exists(copy):
                shutil.copy(program, copy)
            program = copy
        more = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        command = [program]
        if within:
            command = [*within, "env", "LD_PRELOAD=" + os.path.abspath(environment.pop("LD_PRELOAD")), os.path.abspath(program)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=test.folder, **more)
        self.pid = self.process.pid
        self.program = program
        self.steps = 0
        test.addCleanup(self.end)
        assert self.process.stdout.readline() == b"ready\n"

    def step(self, times=1):
        for _ in range(times):
            self.process.stdin.write(b"x\n")
            self.process.stdin.flush()
            self.steps += 1
            assert self.process.stdout.readline() == b"done %d\n" % self.steps

    def map_zeros(self):
        """64 GiB to search, which need little memory."""
        self.process.stdin.write(b"z\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"mapped\n"

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(PATIENCE)
        self.process.stdout.close()


class Tool:
    """`holdfast …` in the background; what it says is read as it comes."""

    def __init__(self, test, *arguments, env={}):
        environment = clean_environment()
        environment.update(env)
        self.process = subprocess.Popen([TOOL, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, text=True)
        self.said, self._changed = [], threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self.stop)

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.said.append(line.rstrip("\n"))
                self._changed.notify_all()

    def wait_for(self, text):
        """The line that holds `text`."""
        with self._changed:
            found = lambda: [line for line in self.said if text in line]
            gone = lambda: self.process.poll() is not None and not self._reader.is_alive()
            end = time.monotonic() + PATIENCE
            while not found() and time.monotonic() < end and not gone():
                self._changed.wait(0.2)
            if not found():
                raise AssertionError("%r was not said, but: %r" % (text, self.said))
            return found()[0]

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        self._reader.join(PATIENCE)
        self.process.stderr.close()
        return self.process.returncode


def servers_path(name):
    """Where scripts/servers puts it."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/deps/servers")
    return os.path.join(os.path.realpath(os.environ.get("FLEET_SERVERS", here)), name)


def servers_tool(name):
    """A real server, where it has been built; else None."""
    return servers_path(name) if os.access(servers_path(name), os.X_OK) else None


class Server:
    """A server of others on loopback, which may be killed and started again."""

    def __init__(self, test, arguments, port):
        self.arguments, self.port, self.process = arguments, port, None
        self.log = open(os.path.join(test.folder, os.path.basename(arguments[0]) + ".%d.log" % port), "w")
        test.addCleanup(self.log.close)
        test.addCleanup(self.kill)
        self.start()

    @staticmethod
    def free_port():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return listener.getsockname()[1]

    def start(self):
        self.process = subprocess.Popen(self.arguments, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        eventually(self.answers, "%s answers; it says: %s" % (self.arguments[0], self.log.name))

    def answers(self):
        if self.process.poll() is not None:
            with open(self.log.name) as log:
                raise AssertionError("%s has ended: %s" % (self.arguments[0], log.read()[-2000:]))
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def profile(self):
        return Profile(self.body)


class FleetTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="holdfast-fleet-")
        self.tables = tempfile.mkdtemp(prefix="holdfast-fleet-", dir="/dev/shm")
        self.out = os.path.join(self.folder, "out")
        self.tools = []
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.addCleanup(shutil.rmtree, self.tables, True)

    def start(self, name="live_steps", **more):
        return Stepper(self, more.pop("out", self.out), self.tables, name, **more)

    def burn(self):
        """A program with a thread that computes in BurnCpu, sampled. Two lines of input end it."""
        environment = clean_environment()
        environment.update(LD_PRELOAD=LIBRARY, HOLDFAST_OUT=self.out, HOLDFAST_TABLES=self.tables, HOLDFAST_CPU="1000")
        environment.update(HOLDFAST_SNAPSHOT_EVERY="0")
        command = [os.path.join(PROGRAMS, "cpu_timer_cases"), "until-input"]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=self.folder)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        assert program.stdout.readline() == b"ready\n"
        return program

    def tool(self, *arguments, **more):
        self.tools.append(Tool(self, *arguments, **more))
        return self.tools[-1]

    @staticmethod
    def cpu_of_ended_children():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def what_tools_said(self):
        return "; ".join("`%s` (%s) said %r" % (" ".join(tool.process.args[1:]), tool.process.poll(), tool.said) for tool in self.tools)

    def run_tool(self, *arguments, env={}):
        environment = clean_environment()
        environment.update(env)
        return subprocess.run([TOOL, *arguments], capture_output=True, text=True, env=environment, timeout=PATIENCE)

    def serve(self, *arguments, listen="127.0.0.1:0", tls=False):
        server = self.tool("serve", "--listen", listen, "--tables", self.tables, *arguments)
        line = server.wait_for("listening on ")
        server.address = line.split("listening on ")[1].split("://")[-1]
        return server

    def get(self, server, path, headers={}, method="GET", body=None):
        connection = (
            UnixConnection(server.address[5:])
            if server.address.startswith("unix:")
            else http.client.HTTPConnection(server.address, timeout=PATIENCE)
        )
        try:
            connection.request(method, path, body=body, headers=headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()
