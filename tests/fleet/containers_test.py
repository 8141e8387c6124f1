"""docs/fleet.md's recipes for containers, run by podman: the program's image knows nothing of Holdfast.

Needs root, podman, and a bare Debian root with libcurl, which `scripts/servers root` makes; skipped without.
"""
import os
import shutil
import subprocess
import unittest

from fleet import LIBRARY, PATIENCE, PROGRAMS, TOOL, FleetTest, eventually, servers_path
from pyroscope_stand_in import StandIn

ROOT = servers_path("root")
USER = 10001
PER_STEP = 100
PODMAN = ["podman", "--runtime", "runc"]  # crun knows no machine with both kinds of control groups
# Not more than a container's root may have here.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]


def why_not():
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("podman") is None or shutil.which("runc") is None:
        return "podman or runc is not installed"
    if not os.path.exists(os.path.join(ROOT, "bin/sh")):
        return "there is no bare root here (scripts/servers root makes one)"
    tool = ["-v", os.path.dirname(os.path.realpath(TOOL)) + ":/tool:ro"]
    command = [*PODMAN, "run", "--rm", *LIMITS, *tool, "--net", "none", "--rootfs", ROOT + ":O", "/tool/holdfast", "--version"]
    said = subprocess.run(command, capture_output=True, text=True)
    return None if said.returncode == 0 else "podman does not run, or the tool does not in that root: " + said.stderr.strip()[-200:]


class Containers(FleetTest):
    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        self.names = []

    def container(self, name, *options, command, **more):
        name = "holdfast-test-%d-%s" % (os.getpid(), name)
        self.names.append(name)
        mounts = ["-v", os.path.dirname(os.path.realpath(TOOL)) + ":/opt/holdfast/bin:ro"]
        mounts += ["-v", os.path.dirname(os.path.realpath(LIBRARY)) + ":/opt/holdfast/lib/holdfast:ro"]
        mounts += ["-v", os.path.realpath(PROGRAMS) + ":/opt/programs:ro"]
        arguments = [*PODMAN, "run", "--rm", "-i", "--name", name, "--user", "%d:%d" % (USER, USER), *LIMITS]
        log = open(os.path.join(self.folder, name + ".log"), "w")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [*arguments, *mounts, *options, "--rootfs", ROOT + ":O", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(subprocess.run, [*PODMAN, "rm", "-f", "-t", "2", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdin.close)
        return name, process

    def program(self, *options):
        variables = dict(LD_PRELOAD="/opt/holdfast/lib/holdfast/libholdfast.so", HOLDFAST_EXPORTER="no", HOLDFAST_OUT="/profiles")
        variables.update(HOLDFAST_HEAP_INTERVAL="1", HOLDFAST_LOCK_INTERVAL="1ns", POD_NAME="shop-0")
        for variable in variables.items():
            options += ("-e", "%s=%s" % variable)
        name, process = self.container("shop", "--net", "none", *options, command=["/opt/programs/live_steps"])
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return name, process

    def step(self, process, number):
        process.stdin.write(b"x\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"done %d\n" % number)

    def agent(self, server, *options, arguments=()):
        command = ["/opt/holdfast/bin/holdfast", "agent", server.url, "--every", "100ms", "--listen", "no", *arguments]
        return self.container("agent", "--net", "host", "--read-only", "--cap-drop", "all", *options, command=command)

    def folder_of(self, name, where=None):
        path = os.path.join(where or self.folder, name)
        os.mkdir(path, 0o700)
        os.chown(path, USER, USER)
        return path

    def expect_all(self, server, steps):
        def reported():
            return (
                server.total("memory", "alloc_objects", leaf="step_allocates") == steps * PER_STEP
                and server.total("mutex", "contentions", leaf="step_holds") == steps
            )

        eventually(reported, "all steps are reported")
        self.assertEqual(server.refused, [])

    def test_an_agent_beside_the_program_in_one_pod(self):
        server = StandIn(self)
        os.chmod(self.folder, 0o755)
        os.chmod(self.tables, 0o755)
        volumes = ["-v", self.folder_of("tables", self.tables) + ":/tables", "-v", self.folder_of("profiles") + ":/profiles"]
        name, program = self.program("-e", "HOLDFAST_TABLES=/tables", *volumes)
        self.step(program, 1)
        self.agent(server, "--pid", "container:" + name, *volumes, arguments=["--tables", "/tables"])
        self.expect_all(server, 1)
        self.step(program, 2)
        self.expect_all(server, 2)
        one = server.of("memory")[0]
        self.assertEqual(one.labels["pod"], "shop-0")
        self.assertEqual(one.labels["service_name"], "live_steps")

    def test_one_agent_for_a_node_reaches_programs_in_their_containers(self):
        server = StandIn(self)
        os.chmod(self.folder, 0o755)
        # Nothing is shared but the process namespace: tables in the container's own /dev/shm, profiles in a folder of its own.
        _, program = self.program("-v", self.folder_of("profiles") + ":/profiles")
        self.step(program, 1)
        self.agent(server, "--pid", "host")
        self.expect_all(server, 1)
        self.step(program, 2)
        self.expect_all(server, 2)
        self.assertEqual(len(server.of("memory")[0].labels["container"]), 64)


if __name__ == "__main__":
    unittest.main()
