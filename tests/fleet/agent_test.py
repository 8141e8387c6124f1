"""`holdfast agent`: push, serve and sweep in one process."""
import os
import subprocess
import unittest

from fleet import FleetTest, eventually
from pyroscope_stand_in import StandIn

PER_STEP = 100  # blocks of 1,000 bytes


class Agent(FleetTest):
    def agent(self, *arguments):
        return self.tool("agent", *arguments, "--tables", self.tables)

    def test_pushes_and_serves_and_sweeps(self):
        server = StandIn(self)
        left = os.path.join(self.tables, "holdfast.%d.0123456789abcdef.lock" % os.geteuid())  # of an exporter that was killed
        with open(left, "w"):
            pass
        agent = self.agent(server.url, "--every", "100ms", "--listen", "127.0.0.1:0")
        agent.address = agent.wait_for("listening on ").split("://")[1]
        agent.wait_for("pushing ")
        program = self.start()
        program.step(2)
        eventually(lambda: server.total("memory", "alloc_objects", leaf="step_allocates") == 2 * PER_STEP, "it is pushed")
        heap = self.get(agent, "/p/%d/debug/pprof/heap" % program.pid).profile
        self.assertEqual(heap.sum("alloc_objects", leaf="step_allocates"), 2 * PER_STEP)
        eventually(lambda: not os.path.exists(left), "it is swept")
        self.assertEqual(agent.stop(), 0)

    def own_folder_of_tables(self):
        """Runs a program with a tmpfs of its own for tables, as each container has: their inodes have the same numbers."""
        return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64m holdfast "$0" && exec "$@"', self.tables]

    def test_serves_several_containers(self):
        within = self.own_folder_of_tables()
        if os.geteuid() != 0 or subprocess.run([*within, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        server = StandIn(self)
        programs = [self.start(out=os.path.join(self.folder, "out%d" % i), within=within) for i in range(4)]
        for i, program in enumerate(programs):
            program.step(1 + i)
        agent = self.tool("agent", server.url, "--every", "100ms", "--listen", "127.0.0.1:0", *[str(program.pid) for program in programs])
        agent.address = agent.wait_for("listening on ").split("://")[1]
        for i, program in enumerate(programs):
            pushed = lambda: server.total("memory", "alloc_objects", leaf="step_allocates", pid=str(program.pid)) == (1 + i) * PER_STEP
            eventually(pushed, "program %d is pushed; %s" % (i, self.what_tools_said()))
            heap = self.get(agent, "/p/%d/debug/pprof/heap" % program.pid).profile
            self.assertEqual(heap.sum("alloc_objects", leaf="step_allocates"), (1 + i) * PER_STEP)
        programs[0].end()  # the others are reached by another path than before, perhaps
        for program in programs[1:]:
            program.step()
        for i, program in list(enumerate(programs))[1:]:
            pushed = lambda: server.total("memory", "alloc_objects", leaf="step_allocates", pid=str(program.pid)) == (2 + i) * PER_STEP
            eventually(pushed, "program %d is pushed once; %s" % (i, self.what_tools_said()))
        self.assertEqual(agent.stop(), 0)

    def test_does_only_what_its_options_say(self):
        left = os.path.join(self.tables, "holdfast.%d.0123456789abcdef.lock" % os.geteuid())
        with open(left, "w"):
            pass
        agent = self.agent("--listen", "no")
        eventually(lambda: not os.path.exists(left), "it is swept")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(agent.said, [])

    def test_says_what_is_wrong(self):
        for arguments, text in ((["nowhere"], "no URL"), (["--listen", "0.0.0.0:0"], "--listen-token-file")):
            ran = self.run_tool("agent", *arguments)
            self.assertIn(text, ran.stderr)
            self.assertIn(ran.returncode, (2, 3))


if __name__ == "__main__":
    unittest.main()
