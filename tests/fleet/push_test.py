"""`holdfast push`: what a server that checks as Pyroscope does gets, whatever happens to it."""
import base64
import glob
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from fleet import LIBRARY, PATIENCE, PROGRAMS, TOOL, FleetTest, clean_environment, eventually
from pprof_reader import Profile, grouped
from pyroscope_stand_in import Invalid, StandIn, connect_error, reply, reset

PER_STEP = 100  # blocks of 1,000 bytes, of which 10 stay
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


class PushTest(FleetTest):
    def push(self, server, *arguments, every="100ms", linger="30s", **more):
        pusher = self.tool("push", server.url, "--every", every, "--linger", linger, "--tables", self.tables, *arguments, **more)
        pusher.wait_for("pushing ")
        return pusher

    def allocated(self, server, **labels):
        return server.total("memory", "alloc_objects", leaf="step_allocates", **labels)

    def has_all(self, server, steps, **labels):
        """Each step once: of the memory, who waited, who held."""
        return (
            self.allocated(server, **labels) == steps * PER_STEP
            and server.total("block", "contentions", leaf="step_waits", **labels) == steps
            and server.total("mutex", "contentions", leaf="step_holds", **labels) == steps
        )

    def expect_all(self, server, steps, **labels):
        def otherwise():
            sums = [("memory", "alloc_objects", "step_allocates"), ("block", "contentions", "step_waits"), ("mutex", "contentions", "step_holds")]
            reported = ["%s %d" % (leaf, server.total(family, column, leaf=leaf, **labels)) for family, column, leaf in sums]
            return "every step is reported: %d, but %s; refused %r, failed %r; %s" % (steps, reported, server.refused, server.errors, self.what_tools_said())

        eventually(lambda: self.has_all(server, steps, **labels), otherwise)
        self.assertEqual((server.refused, server.errors), ([], []))

    def spool(self, server, out=None):
        """Of that server alone: whoever pushes all programs of this machine has one of its own there."""
        return glob.escape(out or self.out) + "/.push/127.0.0.1_%d.*" % server.port

    def waiting(self, server, out=None):
        return [path for path in glob.glob(self.spool(server, out) + "/[0-9]*") if path.endswith((".entry", ".still"))]

    def kill(self, pusher, server, out=None):
        """Not between an answer and its note of it: that one is sent again, as docs/fleet.md says."""
        eventually(lambda: not self.waiting(server, out), lambda: "it knows that all was taken; %s" % self.what_tools_said())
        pusher.stop(signal.SIGKILL)

    def series(self, server):
        """The sets of labels that were reported."""
        return {tuple(sorted(one.labels.items())) for one in server.kept}

    def has_open(self, pusher, *parts):
        """A file whose name in /proc has all of them."""
        paths = glob.glob("/proc/%d/fd/*" % pusher.process.pid)
        return any(all(part in link for part in parts) for link in (os.readlink(path) for path in paths if os.path.islink(path)))


class Profiles(PushTest):
    """What is sent."""

    def test_increases_of_counters_and_memory_in_use_as_it_is(self):
        server = StandIn(self)
        program = self.start()
        program.step(2)
        self.push(server)
        self.expect_all(server, 2)
        program.step(3)
        self.expect_all(server, 5)
        eventually(lambda: server.newest("memory", "inuse_space", leaf="step_allocates") == 5 * 10 * 1000, "in use")
        program.end()  # what it held at its end is reported, and each counter once
        eventually(lambda: len(server.of("memory")) > 1, "several profiles")
        self.assertTrue(self.has_all(server, 5))

    def test_resident_memory_as_it_is_where_it_is_asked_for(self):
        server = StandIn(self)
        program = self.start()
        program.step(2)
        self.run_push_once(server)
        self.assertEqual(server.of("resident"), [])
        self.assertGreaterEqual(server.newest("map", "inuse_space", leaf="[glibc heap]"), 4096)
        ran = self.run_tool("set", "--tables", self.tables, str(program.pid), "resident=on")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.push(server)
        # Also where nothing happens in the program.
        eventually(lambda: len(server.of("resident")) > 2, "it is sent each time")
        self.assertEqual(server.newest("resident", "resident_space", leaf="step_allocates"), 2 * 10 * 1000)
        program.step(3)
        eventually(lambda: server.newest("resident", "resident_space", leaf="step_allocates") == 5 * 10 * 1000, "more")
        one = server.of("resident")[-1].profile
        self.assertEqual(one.types, ["inuse_objects/count", "inuse_space/bytes", "resident_space/bytes", "swapped_space/bytes"])
        self.assertGreater(one.duration_nanos, 0)

    def test_cpu_time_and_the_time_of_threads_where_they_are_asked_for(self):
        server = StandIn(self)
        burner = self.burn()
        self.push(server)

        def switch(value):
            ran = self.run_tool("set", "--tables", self.tables, str(burner.pid), "wall=" + value)
            self.assertEqual(ran.returncode, 0, ran.stderr)

        def more_arrive():
            before = len(server.of("wall"))
            eventually(lambda: len(server.of("wall")) > before + 2, "more of it")

        eventually(lambda: server.total("process_cpu", "cpu") > 0, "CPU time")
        self.assertEqual(server.of("process_cpu")[-1].profile.types, ["samples/count", "cpu/nanoseconds"])
        self.assertEqual(server.of("wall"), [])
        switch("on")
        more_arrive()
        self.assertEqual(server.of("wall")[-1].profile.types, ["wall/nanoseconds"])
        switch("off")
        pushed = len(server.of("process_cpu"))
        eventually(lambda: len(server.of("process_cpu")) > pushed + 2, "pushes without it")
        # New looks begin at zero: what the threads did before them arrives neither again nor as unknown.
        threads = len(os.listdir("/proc/%d/task" % burner.pid))
        before, start = server.total("wall", "wall"), time.monotonic_ns()
        switch("on")
        more_arrive()
        self.assertLess(server.total("wall", "wall") - before, threads * 1.05 * (time.monotonic_ns() - start))

    def test_the_time_of_threads_until_the_end_of_the_process(self):
        server = StandIn(self)
        burner = self.burn()
        ran = self.run_tool("set", "--tables", self.tables, str(burner.pid), "wall=on")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.push(server, every="1h")
        # The first report begins the looks; the next one is that of the end.
        eventually(lambda: len(server.of("threads")) + len(server.of("memory")) > 0, "the first report")
        self.assertEqual(server.of("wall"), [])

        def used():
            with open("/proc/%d/stat" % burner.pid) as stat:
                return int(stat.read().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")

        start = used()
        eventually(lambda: used() > start + 0.5, "it computes")
        burner.kill()
        burner.wait()
        eventually(lambda: server.total("wall", "wall") > 0.3e9, "the threads' time")

    def test_types_are_those_of_go(self):
        server = StandIn(self)
        self.start().step()
        self.run_push_once(server)
        kinds = {
            "%s:%s:%s" % (one.family, kind.replace("/", ":"), one.profile.period_type.replace("/", ":"))
            for one in server.kept
            for kind in one.profile.types
        }
        self.assertEqual(
            kinds,
            {
                "memory:alloc_objects:count:space:bytes", "memory:alloc_space:bytes:space:bytes",
                "memory:inuse_objects:count:space:bytes", "memory:inuse_space:bytes:space:bytes",
                "mutex:contentions:count:contentions:count", "mutex:delay:nanoseconds:contentions:count",
                "block:contentions:count:contentions:count", "block:delay:nanoseconds:contentions:count",
                "map:alloc_objects:count:space:bytes", "map:alloc_space:bytes:space:bytes",
                "map:inuse_objects:count:space:bytes", "map:inuse_space:bytes:space:bytes",
                "threads:created:count:created:count", "threads:alive:count:created:count",
            },
        )
        self.assertEqual({"wait"}, {label for one in server.of("block") for sample in one.profile.samples for label in sample.labels})
        self.assertEqual(len({one.id for one in server.kept}), len(server.kept))

    def run_push_once(self, server, *arguments, code=0):
        ran = self.run_tool("push", server.url, "--once", "--tables", self.tables, *arguments)
        self.assertEqual(ran.returncode, code, ran.stderr)
        return ran.stderr

    def test_labels_say_what_it_is_and_where_it_runs(self):
        server = StandIn(self)
        attributes = "service.version=4.2,x=y"
        program = self.start(env={"OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": attributes, "POD_NAME": "shop-1", "POD_NAMESPACE": "prod"})
        program.step()
        self.run_push_once(server, "--label", "team=payments")
        labels = server.of("memory")[0].labels
        labels.pop("container", None)  # of this machine
        self.assertEqual(
            labels,
            {"service_name": "shop", "program": "live_steps", "host": os.uname().nodename, "pid": str(program.pid), "version": "4.2",
             "pod": "shop-1", "namespace": "prod", "team": "payments"},
        )
        self.start("second").step()
        self.run_push_once(server, "--service-name", "named", "--label", "pid=none")
        second = server.of("memory", program="second")[0].labels
        self.assertEqual((second["service_name"], second["pid"]), ("named", "none"))
        self.assertRegex(second["build_id"], "^[0-9a-f]{16,}$")

    def test_more_labels_than_a_series_may_have(self):
        server = StandIn(self)
        out = os.path.join(self.folder, "wide")
        options = ["--heap-interval", "1", "--push", server.url]
        subprocess.run([TOOL, "run", "-q", "-o", out, *options, "--", os.path.join(PROGRAMS, "labelled"), "wide"], check=True, env=clean_environment())
        eventually(lambda: server.total("memory", "alloc_space", leaf="serve") == 1000, "all of it is reported")
        self.assertEqual(server.refused, [])
        labels = {len({**sample.labels, **one.labels}) for one in server.kept for sample in one.profile.samples if sample.stack[0] == "serve"}
        self.assertEqual(labels, {27})  # and three that are the server's own

    def test_processes_of_one_series_are_reported_at_different_times(self):
        for asleep in (False, True):  # then they have all ended when it looks again, most of them in one tick of the kernel's clock
            server = StandIn(self)
            programs = [self.start() for _ in range(8)]
            pusher = self.push(server, "--label", "pid=all")
            if asleep:
                pusher.process.send_signal(signal.SIGSTOP)
            for _ in range(3):
                for program in programs:
                    program.step()
            for program in programs:
                program.process.stdin.close()
            for program in programs:
                program.end()
            pusher.process.send_signal(signal.SIGCONT)
            self.expect_all(server, 24)
            self.assertEqual(len(self.series(server)), 1, self.series(server))
            times = [one.profile.time_nanos // 1000000 for one in server.of("memory")]
            self.assertEqual(len(set(times)), len(times))
            pusher.stop()

    def test_processes_of_one_series_are_reported_in_order(self):
        """Also those that ended before the last one was reported, and with folders of their own."""
        for protocol in ("push", "ingest"):
            server = StandIn(self)
            pusher = self.push(server, "--label", "pid=all", "--to", protocol)
            programs = [self.start(out=os.path.join(self.folder, "%s%d" % (protocol, i % 2))) for i in range(8)]
            for program in programs:
                eventually(lambda: self.has_open(pusher, self.tables, ".%d." % program.pid), "its table is found")
            pusher.process.send_signal(signal.SIGSTOP)
            for i, program in enumerate(programs):
                program.step()
                if i % 2:
                    program.end()
            pusher.process.send_signal(signal.SIGCONT)
            for program in programs[::2]:
                program.step()
                program.end()
            self.expect_all(server, 12)
            self.assertEqual(pusher.stop(), 0)
            self.assertEqual(server.refused, [])

    def expect_three_steps(self, server, programs, pusher):
        for steps in range(1, 4):
            for program in programs:
                program.step()
            self.expect_all(server, len(programs) * steps)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, 3 * len(programs)))

    def test_many_profiles_are_in_a_request(self):
        server = StandIn(self, flushes=0.25)  # as Pyroscope 2 answers
        programs = [self.start() for _ in range(12)]
        pusher = self.push(server)
        self.expect_three_steps(server, programs, pusher)
        self.assertLess(len(server.asked), len(server.kept) / 5)

    def test_many_profiles_of_one_series_are_in_a_request_where_answers_are_slow(self):
        server = StandIn(self, flushes=0.25)
        programs = [self.start() for _ in range(12)]
        pusher = self.push(server, "--label", "pid=all")
        self.expect_three_steps(server, programs, pusher)
        self.assertEqual(len({(one.family, one.profile.time_nanos) for one in server.kept}), len(server.kept))
        self.assertLess(len(server.asked), len(server.of("memory")) / 2)

    def test_a_request_that_hangs_holds_up_no_other_series(self):
        server, held = StandIn(self), []

        def hold(handler):
            if b"hanging" in handler.body:
                held.append(handler)
                eventually(lambda: server.fail is None, "patience")
            server.take_push(handler.body)
            handler.answer(200)

        server.fail = hold
        hanging = self.start("hanging")
        hanging.step()
        self.push(server)
        eventually(lambda: held, "a request that is not answered")
        self.start("other").step(2)
        self.expect_all(server, 2, program="other")
        hanging.step()
        self.assertEqual(self.allocated(server, program="hanging"), 0)
        server.fail = None
        self.expect_all(server, 2, program="hanging")

    def run_short(self, out, steps=1):
        """Its exporter writes its files, and is gone again."""
        program = self.start(out=out, options={"HOLDFAST_EXPORTER": os.path.abspath(TOOL)})
        program.step(steps)
        program.end()
        tables = lambda: [name for name in os.listdir(self.tables) if name.endswith(".table")]
        eventually(lambda: not tables(), lambda: "its exporter removes the table: %r" % tables())
        self.assertTrue(glob.glob(glob.escape(out) + "/*.heap.pb.gz"))
        return program

    def test_programs_that_a_pusher_never_saw_arrive_from_their_files(self):
        server = StandIn(self)
        pusher = self.push(server)
        eventually(lambda: glob.glob(self.tables + "/*.folders"), "it asks for their folders")
        pusher.process.send_signal(signal.SIGSTOP)
        pids = [self.run_short(os.path.join(self.folder, "out%d" % (i % 3))).pid for i in range(6)]
        pusher.process.send_signal(signal.SIGCONT)
        self.expect_all(server, 6)
        for pid in pids:
            self.assertTrue(self.has_all(server, 1, pid=str(pid), program="live_steps", service_name="live_steps"))
        looked = len(server.kept)
        running = self.start()  # the next looks at the folders
        running.step()
        eventually(lambda: len(server.kept) > looked + 6, "it goes on")
        self.assertEqual(pusher.stop(), 0)
        running.end()
        self.push(server)
        self.expect_all(server, 7)

    def test_programs_that_ran_while_there_was_no_pusher_arrive_from_their_files(self):
        server = StandIn(self)
        for _ in range(3):
            self.run_short(self.out, steps=2)
        self.assertEqual(self.push(server, self.out).stop(), 0)
        self.expect_all(server, 6)
        self.run_short(self.out)
        ran = self.run_tool("push", server.url, self.out, "--once", "--tables", self.tables)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.expect_all(server, 7)
        self.assertEqual(self.push(server, self.out).stop(), 0)
        self.expect_all(server, 7)
        self.run_short(os.path.join(self.folder, "another"))  # not one of those that are named
        self.assertEqual(self.push(server, self.out).stop(), 0)
        self.expect_all(server, 7)

    def test_old_servers_that_begin_are_waited_for(self):
        server = StandIn(self)
        server.fail = reply(422)
        self.start().step()
        pusher = self.push(server, "--to", "ingest")
        pusher.wait_for("does not accept profiles (422")
        server.fail = None
        self.expect_all(server, 1)

    def test_old_servers_take_it_at_ingest(self):
        server = StandIn(self)
        self.start(env={"OTEL_SERVICE_NAME": "shop"}).step(2)
        self.run_push_once(server, "--to", "ingest", "--label", "team=a,b")
        self.expect_all(server, 2, service_name="shop", team="a_b")
        self.assertTrue(all(path.startswith("/ingest?") for path, _ in server.asked))
        self.assertEqual({one.family for one in server.kept}, {"memory", "mutex", "block", "map", "threads"})

    def test_an_old_process_is_reported_from_now_on(self):
        server = StandIn(self)
        program = self.start()
        program.step(2)
        self.push(server, "--since-start-within", "0")
        eventually(lambda: server.newest("memory", "inuse_objects", leaf="step_allocates") == 20, "in use is reported at once")
        program.step()
        self.expect_all(server, 1)

    def test_a_very_short_process_is_reported(self):
        server = StandIn(self)
        pusher = self.push(server, every="10m")
        for _ in range(3):
            program = self.start()
            program.step()
            eventually(lambda: self.has_open(pusher, self.tables, ".%d." % program.pid), "its table is found")
            program.end()
            for name in os.listdir(self.tables):  # as an exporter does
                os.unlink(os.path.join(self.tables, name))
        self.expect_all(server, 3)

    def test_a_process_that_ends_before_the_first_look_is_reported_once(self):
        server = StandIn(self)
        pusher = self.push(server)
        os.kill(pusher.process.pid, signal.SIGSTOP)
        program = self.start()
        program.step(2)
        program.end()
        os.kill(pusher.process.pid, signal.SIGCONT)
        self.expect_all(server, 2)
        time.sleep(0.5)  # five looks more at the table, which is still there
        self.expect_all(server, 2)

    def test_a_process_reported_only_at_its_end_has_its_place(self):
        server = StandIn(self)
        pusher = self.push(server, every="10m")
        program = self.start(env={"OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": "service.version=4.2", "POD_NAME": "shop-1"})
        program.step()
        eventually(lambda: self.has_open(pusher, "pidfd"), "it is found")
        program.end()
        self.expect_all(server, 1, service_name="shop", version="4.2", pod="shop-1", pid=str(program.pid))


class Trouble(PushTest):
    """Nothing is lost, nothing comes twice."""

    def after(self, break_it, mend, count=3):
        server = StandIn(self)
        program = self.start()
        pusher = self.push(server)
        program.step()
        self.expect_all(server, 1)
        break_it(server)
        for _ in range(count):
            program.step()
            before = len(self.waiting(server))
            eventually(lambda: len(self.waiting(server)) > before, "it waits on disk")
        mend(server)
        program.step()
        self.expect_all(server, count + 2)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, count + 2))
        self.assertEqual(self.waiting(server), [])
        for family in ("memory", "mutex", "block"):  # in order
            times = [one.profile.time_nanos for one in server.of(family)]
            self.assertEqual(times, sorted(times))
        return server, pusher

    def while_it_fails(self, fail):
        def mend(server):
            server.fail = None

        def break_it(server):
            server.fail = fail

        server, pusher = self.after(break_it, mend)
        self.assertGreater(server.failures, 0)
        return pusher

    def test_a_server_that_answers_500(self):
        pusher = self.while_it_fails(reply(500, b"no room"))
        self.assertIn("does not accept profiles (500: no room)", pusher.wait_for("does not accept"))
        pusher.wait_for("accepts profiles again")

    def test_a_server_that_has_enough(self):
        pusher = self.while_it_fails(reply(429, connect_error("resource_exhausted", "push rate limit"), {"Retry-After": "1"}))
        self.assertIn("push rate limit", pusher.wait_for("does not accept"))

    def test_a_server_that_resets_connections(self):
        self.while_it_fails(reset())

    def test_a_server_that_knows_nobody(self):
        pusher = self.while_it_fails(reply(401, b"who?"))
        self.assertIn("Check --token-file", pusher.wait_for("does not accept"))

    def test_a_server_that_is_gone(self):
        server = StandIn(self)
        program = self.start()
        pusher = self.push(server)
        program.step()
        self.expect_all(server, 1)
        server.stop()
        pusher.wait_for("does not accept profiles")
        program.step(2)
        other = StandIn(self, port=server.port)
        program.step()
        eventually(lambda: self.allocated(server) + self.allocated(other) == 4 * PER_STEP, "every step is reported")
        pusher.wait_for("accepts profiles again")

    def test_a_slow_server_holds_up_nothing_else(self):
        server = StandIn(self)
        program = self.start()
        self.push(server)
        held = []

        def hold(handler):  # no answer meanwhile, nor afterwards
            held.append(handler)
            eventually(lambda: server.fail is None, "patience")
            handler.close_connection = True

        server.fail = hold
        program.step()
        eventually(lambda: held, "a request that is not answered")
        program.step(2)
        eventually(lambda: len(self.waiting(server)) > 3, "what is new is written down meanwhile")
        server.fail = None
        self.expect_all(server, 3)

    def test_a_server_that_takes_some_of_a_request_gets_the_others_once(self):
        server = StandIn(self)
        programs = [self.start() for _ in range(5)]
        refused = set()

        def refuses(labels):  # once each series, but for every fifth
            key = (labels["__name__"], labels["pid"])
            if labels["__name__"] == "block" or key in refused:
                return False
            refused.add(key)
            return True

        server.refuses = refuses
        for program in programs:
            program.step()
        pusher = self.push(server, every="300ms")
        self.expect_all(server, 5)
        self.assertGreater(len(refused), 5)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, 5))
        counted = [one.id for one in server.kept]
        self.assertEqual(len(set(counted)), len(counted))

    def test_several_of_a_series_with_a_lost_answer_count_once_where_order_matters(self):
        self.after_a_lost_answer(lambda pusher: pusher)

    def test_several_of_a_series_count_once_where_order_matters_after_a_kill_without_an_answer(self):
        def another(pusher):
            pusher.stop(signal.SIGKILL)
            return self.push(self.server, "--label", "pid=all")

        self.after_a_lost_answer(another)

    def after_a_lost_answer(self, goes_on):
        server, requests, pause = StandIn(self, drops_copies=True), [], [0.25]
        self.server = server

        def slow(handler):  # as Pyroscope 1 on a busy machine; of each series it drops what it has, and refuses what is older
            families = [re.search(rb"__name__..([a-z]+)", grouped(series)[1][0]).group(1) for series in grouped(handler.body)[1]]
            requests.append(len(families) - len(set(families)))
            time.sleep(pause[0])
            try:
                server.take_push(handler.body)
            except Invalid as error:
                return handler.answer(400, connect_error("invalid_argument", str(error)))
            if requests[-1] > 2 and max(requests[:-1]) <= 2:
                return reset()(handler)
            handler.answer(200)

        server.fail = slow
        programs = [self.start() for _ in range(8)]
        pusher = self.push(server, "--label", "pid=all")
        steps = 0
        while steps < 3 or not any(more > 2 for more in requests):
            for program in programs:
                program.step()
            steps += 1
        pause[0] = 0
        pusher = goes_on(pusher)
        self.expect_all(server, 8 * steps)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, 8 * steps))
        self.assertNotIn("set aside", pusher.wait_for("sent "))

    def test_what_one_profile_is_refused_for_holds_up_no_other(self):
        server = StandIn(self)
        programs = [self.start("unwelcome" if i == 3 else "live_steps") for i in range(6)]
        for program in programs:
            program.step()

        def fail(handler):  # as Pyroscope 1: the whole request, and it does not say why
            if b"unwelcome" in handler.body:
                return handler.answer(400, connect_error("invalid_argument", "no such program"))
            server.take_push(handler.body)
            handler.answer(200)

        server.fail = fail
        pusher = self.push(server)
        self.expect_all(server, 5)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, 5))
        self.assertRegex(pusher.wait_for("sent "), r", \d+ set aside")
        self.assertEqual({os.path.basename(path).split(".")[0] for path in glob.glob(self.spool(server) + "/aside/*")}, {"unwelcome"})

    def test_requests_that_are_too_large_for_a_proxy_become_smaller(self):
        server = StandIn(self)
        programs = [self.start() for _ in range(12)]

        def fail(handler):
            if len(handler.body) > 12_000:  # about eight profiles
                return handler.answer(413, b"too large")
            server.take_push(handler.body)
            handler.answer(200)

        server.fail = fail
        for program in programs:
            program.step()
        pusher = self.push(server, every="500ms")
        for steps in range(1, 4):
            self.expect_all(server, 12 * steps)
            for program in programs:
                program.step()
        self.expect_all(server, 48)
        self.assertEqual(pusher.stop(), 0)
        self.assertNotIn("set aside", pusher.wait_for("sent "))
        self.assertLess(len(server.asked), len(server.kept))

    def test_at_the_end_it_goes_on_as_long_as_the_server_takes_profiles(self):
        server = StandIn(self)
        server.fail = reply(503)
        programs = [self.start() for _ in range(8)]
        pusher = self.push(server, "--to", "ingest", linger="2s")  # which takes one in a request
        for program in programs:
            program.step()
            program.end()
        pusher.wait_for("does not accept profiles (503")
        eventually(lambda: len(self.waiting(server)) >= 8 * 5, "all of it waits")
        answers = []

        def fail(handler):
            answers.append(handler)
            if len(answers) == 6:
                return handler.answer(429, b"too many", {"Retry-After": "1"})
            time.sleep(0.3)
            server.take_ingest(handler.path.split("?")[1], handler.headers["Content-Type"], handler.body)
            handler.answer(200)

        server.fail = fail
        self.assertEqual(pusher.stop(), 0, pusher.said)
        self.assertTrue(self.has_all(server, 8))

    def test_what_is_in_use_is_sent_again_as_it_was_after_a_kill(self):
        server = StandIn(self)
        program = self.start()
        pusher = self.push(server)
        program.step()
        self.expect_all(server, 1)
        eventually(lambda: not self.waiting(server), "all is taken")
        held = []

        def hold(handler):  # it has them, and nobody learns of it
            before = len(server.kept)
            server.take_push(handler.body)
            held.extend(server.kept[before:])
            eventually(lambda: server.fail is None, "patience")
            handler.close_connection = True

        server.fail = hold
        eventually(lambda: {one.family for one in held} >= {"memory", "map"}, "only what is in use is under way")
        pusher.stop(signal.SIGKILL)
        server.fail = None
        before = len(server.kept)
        self.push(server, every="10m")
        eventually(lambda: len(server.kept) >= before + len(held), lambda: "they are sent again; %s" % self.what_tools_said())
        again = server.kept[before:]
        self.assertEqual({(one.id, one.profile.time_nanos) for one in again}, {(one.id, one.profile.time_nanos) for one in held})
        self.assertEqual(server.refused, [])

    def test_what_waits_for_a_tenant_is_sent_once_that_is_corrected(self):
        server = StandIn(self, tenants="shop")
        program = self.start(out=os.path.join(self.folder, "out"))
        pusher = self.push(server, "--tenant", "chop")
        program.step(2)
        program.end()
        pusher.wait_for("does not accept profiles (401")
        eventually(lambda: self.waiting(server), "it waits")
        self.assertEqual(pusher.stop(), 3)
        for name in os.listdir(self.tables):  # as an exporter does
            os.unlink(os.path.join(self.tables, name))
        pusher = self.push(server, self.out, "--tenant", "shop")
        self.expect_all(server, 2)
        self.assertIn("another tenant", pusher.wait_for("another tenant"))
        self.assertEqual(pusher.stop(), 0)
        self.assertEqual(self.waiting(server), [])

    def test_what_waits_for_a_token_is_sent_once_that_is_corrected(self):
        server = StandIn(self, check_authorization=lambda got: got == "Bearer right")
        token = os.path.join(self.folder, "token")
        for text, wait in (("wrong", "does not accept profiles (401"), ("right", "accepts profiles again")):
            with open(token, "w") as file:
                file.write(text + "\n")
            if text == "wrong":
                program = self.start()
                pusher = self.push(server, "--token-file", token)
                program.step(2)
                program.end()
            pusher.wait_for(wait)
        self.expect_all(server, 2)

    def test_profiles_that_a_full_disk_cannot_hold_are_reported_later(self):
        os.mkdir(self.out)
        mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "holdfast", self.out]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.out])
        server = StandIn(self)
        with open(os.path.join(self.out, "filler"), "wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        program, other = self.start(), self.start("other")
        pusher = self.push(server)
        for one in (program, other):
            eventually(lambda: self.has_open(pusher, self.tables, ".%d." % one.pid), "its table is found")
            one.step(2)
        program.end()
        for name in os.listdir(self.tables):  # as an exporter does
            if ".%d." % program.pid in name:
                os.unlink(os.path.join(self.tables, name))
        pusher.wait_for("Its profiles are not pushed until that is mended")
        pusher.process.send_signal(signal.SIGSTOP)
        short = self.start("short")  # which ends before it is seen
        short.step()
        short.end()
        pusher.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)  # some looks more, none of which finds room
        os.unlink(os.path.join(self.out, "filler"))
        self.expect_all(server, 5)
        other.step()
        self.expect_all(server, 6)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, 6))

    @unittest.skipUnless(os.path.exists(FAKETIME), "libfaketime is not installed")
    def test_a_clock_that_is_set_back_and_ahead(self):
        server = StandIn(self, drops_copies=True)
        clock = os.path.join(self.folder, "clock")

        def set_clock(offset):
            with open(clock + ".new", "w") as file:
                file.write(offset + "\n")
            os.rename(clock + ".new", clock)

        set_clock("+0")
        program = self.start()
        fake = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": clock, "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
        pusher = self.push(server, env=fake)
        steps = 0
        for offset in ("+0", "-300", "+240", "+7200", "+0", "-7200", "+0"):
            set_clock(offset)
            program.step()
            steps += 1
            eventually(lambda: self.has_all(server, steps), lambda: "%s: all is reported; refused %r" % (offset, server.refused))
        # Another one begins at a time before that of the last profile.
        self.kill(pusher, server)
        set_clock("-200")
        program.step()
        pusher = self.push(server, env=fake)
        eventually(lambda: self.has_all(server, steps + 1), lambda: "all is reported; refused %r" % server.refused)
        self.assertEqual(pusher.stop(), 0)
        self.assertTrue(self.has_all(server, steps + 1))
        # Hours ahead or behind, and after a new start, the server's answers say which time it takes. None was refused for good.
        self.assertIn("profile is outside of ingestion window", server.refused)
        self.assertFalse(glob.glob(self.spool(server) + "/aside/*"))

    def test_another_pusher_goes_on_where_one_was_killed(self):
        server = StandIn(self)
        program = self.start()
        pusher = self.push(server)
        program.step()
        self.expect_all(server, 1)
        server.fail = reply(503)
        program.step(2)
        eventually(lambda: self.waiting(server), "it waits on disk")
        pusher.stop(signal.SIGKILL)
        program.step()
        server.fail = None
        pusher = self.push(server)
        self.expect_all(server, 4)
        self.kill(pusher, server)
        program.step()
        self.push(server)
        self.expect_all(server, 5)

    def test_the_rest_of_a_process_that_ended_without_a_pusher_is_reported(self):
        for exporter in ("no", ""):
            server = StandIn(self)
            out = os.path.join(self.folder, "out" + exporter)
            environment = {"HOLDFAST_EXPORTER": exporter or os.path.abspath(os.environ.get("HOLDFAST_TOOL", "build/release/bin/holdfast"))}
            program = self.start(out=out, options=environment, env={"OTEL_SERVICE_NAME": "shop", "POD_NAME": "shop-1"})
            pusher = self.push(server, out)
            program.step()
            self.expect_all(server, 1)
            self.kill(pusher, server, out)
            program.step(2)
            program.end()  # a table is left, or its last files
            if not exporter:
                self.assertTrue(glob.glob(out + "/*.heap.pb.gz"))
            self.push(server, out).wait_for("pushing ")
            self.expect_all(server, 3, service_name="shop", pod="shop-1")
            self.assertEqual(len(self.series(server)), 1, self.series(server))  # also after its end

    def test_what_is_refused_is_said_once_and_set_aside(self):
        server = StandIn(self)
        program = self.start()
        pusher = self.push(server)
        program.step()
        self.expect_all(server, 1)
        server.fail = reply(400, connect_error("invalid_argument", "not today"))
        program.step()
        eventually(lambda: server.failures > 5, "several are refused")
        server.fail = None
        program.step()
        eventually(lambda: self.allocated(server) == 2 * PER_STEP, "the next ones are taken")
        self.assertEqual(pusher.stop(), 0)
        said = [line for line in pusher.said if "not today" in line]
        self.assertEqual(len(said), 1, pusher.said)
        self.assertRegex(pusher.wait_for("sent "), r", \d+ set aside")
        aside = glob.glob(self.spool(server) + "/aside/*.memory.pb.gz")
        top = self.run_tool("top", "--metric", "alloc_objects", *aside)
        self.assertIn("step_allocates", top.stdout, top.stderr)

    def test_a_server_that_stays_away_ends_nobodys_patience(self):
        server = StandIn(self)
        program = self.start()
        pusher = self.push(server, str(program.pid), linger="5s")
        server.stop()
        program.step()
        program.end()
        pusher.process.wait(PATIENCE)
        self.assertEqual(pusher.stop(), 3)
        line = pusher.wait_for("profiles wait on disk. ")
        command = re.search("Send them with: (holdfast push .*)", line).group(1).split()
        other = StandIn(self, port=server.port)
        ran = self.run_tool(*command[1:], "--once", "--tables", self.tables)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(self.has_all(other, 1))

    def test_no_more_than_max_disk_waits(self):
        server = StandIn(self)
        server.fail = reply(503)
        program = self.start()
        pusher = self.push(server, "--max-disk", "20KB", linger="0")
        program.step()
        pusher.wait_for("have reached --max-disk")
        self.assertLessEqual(sum(os.path.getsize(path) for path in self.waiting(server)), 20000)
        self.assertEqual(pusher.stop(), 3)
        self.assertRegex(pusher.wait_for("sent "), "dropped for lack of disk space")

    def test_one_pusher_for_a_folder_and_server(self):
        server = StandIn(self)
        self.start().step()
        first = self.push(server, self.out)
        second = self.push(server, self.out)
        self.assertIn("process %d already pushes" % first.process.pid, second.wait_for("already"))


class Exporters(PushTest):
    """`run --push`, and HOLDFAST_PUSH of programs that are preloaded alone."""

    def run_steps(self, server, steps, *arguments, **variables):
        environment = clean_environment()
        environment.update({"HOLDFAST_" + name: value for name, value in variables.items()})
        environment.update(HOLDFAST_TABLES=self.tables, HOLDFAST_HEAP_INTERVAL="1", HOLDFAST_LOCK_INTERVAL="1ns")
        program = os.path.join(PROGRAMS, "live_steps")
        ran = subprocess.run([*arguments, program], input=b"x\n" * steps, env=environment, capture_output=True, cwd=self.folder, timeout=PATIENCE)
        self.assertEqual((ran.returncode, ran.stderr), (0, b""))

    def flat(self, profiles, column):
        """By function of the program; what libraries call theirs depends on how much debug information was read in time."""
        functions = {}
        for profile in profiles:
            for sample in profile.samples:
                value = sample.values[profile.column(column)]
                name = sample.stack[0] if sample.stack[0].startswith("step_") else "others"
                functions[name] = functions.get(name, 0) + value
        return functions

    def test_run_sends_what_its_files_say(self):
        server = StandIn(self)
        self.run_steps(server, 3, TOOL, "run", "-q", "-o", self.out, "--push", server.url, "--")
        self.expect_all(server, 3, program="live_steps", service_name="live_steps", host=os.uname().nodename)
        for family, kind, column in (("memory", "heap", "alloc_space"), ("block", "block", "delay"), ("mutex", "mutex", "delay")):
            last = sorted(glob.glob(self.out + "/*.%s.pb.gz" % kind))[-1]
            with open(last, "rb") as file:
                expected = self.flat([Profile(file.read())], column)
            self.assertEqual(self.flat([one.profile for one in server.of(family)], column), expected)

    def test_a_process_that_executes_itself_is_reported_whole(self):
        server = StandIn(self)
        options = ["--tables", self.tables, "--heap-interval", "1", "--push", server.url]
        subprocess.run([TOOL, "run", "-q", "-o", self.out, *options, "--", os.path.join(PROGRAMS, "exec_itself")], env=clean_environment(), timeout=PATIENCE)
        eventually(lambda: "sent " in self.log(), "the pusher has ended")
        expected = {}  # of each process the newest
        for path in sorted(glob.glob(self.out + "/*.heap.pb.gz")):
            with open(path, "rb") as file:
                profile = Profile(file.read())
            expected[profile.comment("process")] = profile.sum("alloc_space")
        self.assertGreater(len(expected), 1)
        self.assertEqual(server.total("memory", "alloc_space"), sum(expected.values()))

    def test_a_preloaded_program_needs_no_more_than_a_variable(self):
        server = StandIn(self, tenants=True)
        more = {"PUSH": server.url, "PUSH_TENANT": "shop", "PUSH_SERVICE_NAME": "till", "OUT": self.out}
        self.run_steps(server, 2, "/usr/bin/env", "LD_PRELOAD=" + os.path.abspath(LIBRARY), **more)
        self.expect_all(server, 2, service_name="till")

    def test_a_dead_server_holds_up_nobody(self):
        server = StandIn(self)
        server.stop()
        self.run_steps(server, 2, TOOL, "run", "-q", "-o", self.out, "--push", server.url, "--")
        self.assertTrue(glob.glob(self.out + "/live_steps.*.heap.pb.gz"))
        eventually(lambda: "wait on disk" in self.log(), "the pusher gives up")
        other = StandIn(self, port=server.port)
        eventually(lambda: self.run_tool("push", server.url, self.out, "--once", "--tables", self.tables).returncode == 0, "what waited is sent")
        self.expect_all(other, 2)

    def log(self):
        try:
            with open(self.out + "/.push/log") as file:
                return file.read()
        except OSError:
            return ""


class Access(PushTest):
    """Who the pusher says it is."""

    def once(self, server, *arguments, env={}):
        return self.run_tool("push", server.url, "--once", "--linger", "5s", "--tables", self.tables, *arguments, env=env)

    def secret(self, text):
        path = os.path.join(self.folder, "secret")
        with open(path, "w") as file:
            file.write(text + "\n")
        return path

    def test_tokens_passwords_and_tenants(self):
        self.start().step()
        for kind, text, expected in (
            ("--token-file", "s3cret", "Bearer s3cret"),
            ("--user-file", "ann:pass word", "Basic " + base64.b64encode(b"ann:pass word").decode()),
        ):
            server = StandIn(self, check_authorization=lambda got: got == expected, tenants=True)
            self.assertEqual(self.once(server).returncode, 3)
            ran = self.once(server, kind, self.secret(text), "--tenant", "shop")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual({headers["X-Scope-OrgID"] for _, headers in server.asked[-1:]}, {"shop"})
            self.assertTrue(self.has_all(server, 1))

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tls_is_checked(self):
        pem = os.path.join(self.folder, "pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem, "-out", pem + ".crt"],
            check=True, capture_output=True)
        self.start().step()
        server = StandIn(self, tls=(pem + ".crt", pem))
        ran = self.once(server)
        self.assertEqual(ran.returncode, 3)
        self.assertIn("certificate", ran.stderr)
        ran = self.once(server, "--ca", pem + ".crt")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(self.has_all(server, 1))

    def test_a_proxy_is_taken_from_the_environment(self):
        self.start().step()
        proxy = StandIn(self)
        proxy.fail = reply(503, b"through the proxy")
        ran = self.run_tool("push", "http://pyroscope.invalid:4040", "--once", "--linger", "1s", "--tables", self.tables, env={"http_proxy": proxy.url})
        self.assertEqual(ran.returncode, 3)
        self.assertIn("through the proxy", ran.stderr)
        self.assertTrue(proxy.asked[0][0].startswith("http://pyroscope.invalid:4040/push.v1"))

    def test_what_is_wrong_is_said_before_anything_is_done(self):
        for arguments, text in (
            (["localhost:4040"], "no URL"),
            (["ftp://x"], "neither http nor https"),
            (["http://a:b@x"], "Use --user-file"),
            (["http://x", "--label", "a-b=c"], "letters, digits and '_'"),
            (["http://x", "--label", "a"], "it has no '='"),
            (["http://x", "--label", "__name__=x"], "reserved by the server"),
            (["http://x", "--every", "1ms"], "between 100ms and 1h"),
            (["http://x", "--to", "carbon"], "--to"),
            (["http://x", "--token-file", "/nonexistent"], "cannot be read"),
        ):
            ran = self.run_tool("push", *arguments)
            self.assertIn(ran.returncode, (2, 3), ran.stderr)
            self.assertIn(text, ran.stderr)
            self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)


if __name__ == "__main__":
    unittest.main()
