"""`holdfast push --to otlp`: what an OpenTelemetry Collector gets, the stand-in's and a real one, and what profcheck says of it.

The real ones are built by scripts/servers; where they are not, those tests are skipped.
"""
import os
import subprocess
import unittest

from fleet import FleetTest, Server, eventually, servers_tool
from pyroscope_stand_in import StandIn, reply

PER_STEP = 100  # blocks of 1,000 bytes, of which 10 stay

COLLECTOR = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}}
exporters: {otlp_http: {endpoint: "%s", compression: none, retry_on_failure: {enabled: true}}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [otlp_http]}}
"""


class Otlp(FleetTest):
    def push(self, url, *arguments, linger="30s"):
        pusher = self.tool("push", url, "--to", "otlp", "--every", "100ms", "--linger", linger, "--tables", self.tables, *arguments)
        pusher.wait_for("pushing ")
        return pusher

    def has_all(self, server, steps):
        return (
            server.total("memory", "alloc_objects", leaf="step_allocates") == steps * PER_STEP
            and server.total("memory", "alloc_space", leaf="step_allocates") == steps * PER_STEP * 1000
            and server.total("block", "contentions", leaf="step_waits") == steps
            and server.total("mutex", "contentions", leaf="step_holds") == steps
        )

    def expect_all(self, server, steps):
        eventually(lambda: self.has_all(server, steps), "every step is reported")
        self.assertEqual(server.refused, [])

    def test_each_step_arrives_once(self):
        server = StandIn(self)
        program = self.start("shop", env={"OTEL_RESOURCE_ATTRIBUTES": "service.version=1.2", "POD_NAME": "shop-0"})
        pusher = self.push(server.url, "--label", "team=payments")
        program.step(2)
        self.expect_all(server, 2)
        program.step(3)
        self.expect_all(server, 5)
        eventually(lambda: server.newest("memory", "inuse_objects", leaf="step_allocates") in (None, 0, 50), "in use")
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, 5))
        one = server.of("memory")[0]
        for name, value in dict(service_name="shop", program="shop", pid=str(program.pid), version="1.2", pod="shop-0", team="payments").items():
            self.assertEqual(one.labels[name], value)
        self.assertEqual(one.profile.period_type, "memory/bytes")
        self.assertGreater(max(kept.profile.duration_nanos for kept in server.of("memory")), 0)
        waited = [sample.labels.get("wait") for kept in server.of("block") for sample in kept.profile.samples]
        self.assertIn("mutex", waited)

    def test_cpu_time_arrives(self):
        server = StandIn(self)
        program = self.burn()
        pusher = self.push(server.url)
        burnt = lambda kind: sum(one.profile.sum(kind, having="BurnCpu") for one in server.of("process_cpu"))
        eventually(lambda: burnt("cpu") > 100e6, "a tenth of a second is reported")
        self.assertEqual(server.refused, [])
        program.communicate(b"\n\n")
        self.assertEqual(pusher.stop(), 0)
        self.assertEqual(burnt("cpu"), burnt("samples") * 1e6)
        self.assertEqual(server.of("process_cpu")[0].profile.period_type, "process_cpu/nanoseconds")  # the family

    def test_the_time_of_threads_arrives(self):
        server = StandIn(self)
        program = self.burn()
        ran = self.run_tool("set", "--tables", self.tables, str(program.pid), "wall=on")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        pusher = self.push(server.url)

        def spent(state):
            samples = [sample for one in server.of("wall") for sample in one.profile.samples]
            return sum(sample.values[0] for sample in samples if sample.labels.get("state") == state)

        eventually(lambda: spent("cpu") > 100e6, "a tenth of a second on a CPU is reported")
        self.assertEqual(server.refused, [])
        one = server.of("wall")[-1].profile
        self.assertEqual(one.types, ["wall/nanoseconds"])
        self.assertTrue(all("thread" in sample.labels for sample in one.samples), one.samples)
        program.communicate(b"\n\n")
        self.assertEqual(pusher.stop(), 0)

    def test_what_is_sent_again_has_the_same_id(self):
        server = StandIn(self)
        program = self.start()
        self.push(server.url)
        program.step()
        self.expect_all(server, 1)
        server.fail = reply(503)
        program.step()
        eventually(lambda: server.failures > 0, "it fails")
        server.fail = None
        self.expect_all(server, 2)
        ids = [one.id for one in server.kept]
        self.assertEqual(len(set(ids)), len(ids))

    def test_what_a_collector_rejects_is_set_aside(self):
        server = StandIn(self)
        server.otlp_answer = b"\x0a\x09\x08\x01\x12\x05no wa"  # partial success: 1 rejected, "no wa"
        program = self.start()
        pusher = self.push(server.url)
        program.step()
        self.assertIn("rejected a profile (200: no wa)", pusher.wait_for("rejected a profile"))
        self.assertTrue(os.listdir(os.path.join(self.out, ".push", os.listdir(self.out + "/.push")[0], "aside")))

    def test_a_server_of_another_kind_is_explained(self):
        server = StandIn(self)
        server.fail = reply(404)
        self.start().step()
        self.assertIn("service.profilesSupport", self.push(server.url, linger="0s").wait_for("does not accept"))

    @unittest.skipUnless(servers_tool("profcheck"), "profcheck is not here (scripts/servers says how to have it)")
    def test_profcheck_accepts_it(self):
        server = StandIn(self)
        program = self.start()
        self.push(server.url)
        program.step(3)
        self.expect_all(server, 3)
        for number, body in enumerate(server.bodies):
            path = os.path.join(self.folder, "%d.otlp" % number)
            with open(path, "wb") as file:
                file.write(body)
            said = subprocess.run([servers_tool("profcheck"), "-check-dupes", "-check-orphans", path], capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stdout)

    @unittest.skipUnless(servers_tool("collector"), "there is no OpenTelemetry Collector here (scripts/servers builds one)")
    def test_a_real_collector_passes_all_of_it_on(self):
        behind = StandIn(self)
        behind.otlp_orphans = False  # it keeps strings that nothing names any more
        port = Server.free_port()
        config = os.path.join(self.folder, "collector.yaml")
        with open(config, "w") as file:
            file.write(COLLECTOR % (port, behind.url))
        arguments = ["--config=file:" + config, "--feature-gates=service.profilesSupport"]
        collector = Server(self, [servers_tool("collector"), *arguments], port)
        program = self.start()
        pusher = self.push("http://127.0.0.1:%d" % port)
        program.step(2)
        self.expect_all(behind, 2)
        collector.kill()  # what comes meanwhile waits
        program.step(3)
        pusher.wait_for("does not accept profiles")
        collector.start()
        self.expect_all(behind, 5)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(behind, 5))


if __name__ == "__main__":
    unittest.main()
