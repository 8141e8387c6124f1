"""`holdfast push` and a real Pyroscope: what its query API gives back is what `holdfast top` says of the program's own files.

scripts/servers builds version 1.0; skipped where it is not there. FLEET_SERVERS names a folder with another one: all but Distributed
are for Pyroscope 2, too, which has what was sent twice once when it has compacted its segments. FLEET_SECONDS is how long the real programs work, and how long the server
is down (by default 4): with 120 and 60 these are the figures of docs/fleet.md. FLEET_PROCESSES is how many processes one pusher has (by
default 40); from 1,000 on at 15 s. FLEET_PATIENCE is how many seconds it waits for the last profile (by default 60).
"""
import glob
import gzip
import http.client
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

from fleet import LIBRARY, PROGRAMS, TOOL, FleetTest, clean_environment, eventually, servers_tool
from pyroscope_stand_in import StandIn, reset
from real_pyroscope import COUNTERS, IN_USE, Cluster, Pyroscope, is_version_2

SECONDS = float(os.environ.get("FLEET_SECONDS", "4"))
PROCESSES = int(os.environ.get("FLEET_PROCESSES", "40"))
LOAD = os.path.join(PROGRAMS, "../bench/memcached_load")
PER_STEP = 100  # blocks of 1,000 bytes


LONGEST_LABEL = 64
LONGEST_NAME = 1024  # of longer ones Pyroscope 1.0 keeps the end; 2 takes 65,535 bytes


def selves_and_totals(profile, column):
    """By name of function: what it used directly, and with all that it called."""
    column, selves, totals = profile.column(column), {}, {}
    for sample in profile.samples:
        value = sample.values[column]
        selves[sample.stack[0]] = selves.get(sample.stack[0], 0) + value
        for name in set(sample.stack):
            totals[name] = totals.get(name, 0) + value
    return selves, totals


class RealTest(FleetTest):
    def setUp(self):
        super().setUp()
        self.began = time.time() - 60

    def push(self, server, *arguments, every="1s", folder=None):
        pusher = self.tool("push", server.url, *([folder] if folder else []), "--every", every, "--linger", "50s", "--tables", self.tables, *arguments)
        pusher.wait_for("pushing ")
        return pusher

    def server(self, **more):
        server = Pyroscope(self, **more)
        eventually(server.ready, "it is ready")
        return server

    def total(self, server, kind, leaf, selector="{}"):
        got = server.ask(kind, selector, self.began, time.time() + 60)
        return 0 if got is None else got.sum(kind[1], leaf=leaf)

    def totals(self, server, selector="{}", period=True):
        """`period` False: as version 1 calls the types of what came by /ingest, without what the period is."""
        kinds = [(*kind[:3], *(kind[3:] if period else ("", ""))) for kind in (*COUNTERS["heap"], COUNTERS["block"][0], COUNTERS["mutex"][0])]
        leaves = ("step_allocates", "step_allocates", "step_waits", "step_holds")
        return tuple(self.total(server, kind, leaf, selector) for kind, leaf in zip(kinds, leaves))

    def expect_steps(self, server, steps, selector="{}", period=True):
        expected, found = (steps * PER_STEP, steps * PER_STEP * 1000, steps, steps), []

        def same():
            found[:] = self.totals(server, selector, period)
            return tuple(found) == expected

        try:
            eventually(same, "")
        except AssertionError:
            self.fail("not %r, but %r" % (expected, found))

    def log(self):
        with open(os.path.join(self.out, ".push/log")) as file:
            return file.read()

    # ---- real programs ----

    def begin(self, command):
        environment = clean_environment()
        environment.update(LD_PRELOAD=LIBRARY, HOLDFAST_OUT=self.out, HOLDFAST_TABLES=self.tables, HOLDFAST_SNAPSHOT_EVERY="0")
        environment.update(HOLDFAST_HEAP_INTERVAL="64KiB", HOLDFAST_LOCK_INTERVAL="1us")
        program = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.socket = os.path.join(self.folder, "s")
        eventually(lambda: os.path.exists(self.socket), "it listens")
        return program

    def work(self, load, seconds=SECONDS):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            subprocess.run(load, check=True, stdout=subprocess.DEVNULL)

    def top(self, kind, metric):
        """As `holdfast top` says of the newest file: the total, and what functions use. Waits that went on are told once they are over."""
        files = sorted(glob.glob(os.path.join(self.out, "*.%s.pb.gz" % kind)))
        if not files:
            return 0, {}, {}
        # The exporter, whose end the program may wait for, reads debug information for so long only; the pusher has more time.
        self.run_tool("symbolize", "-q", files[-1])
        ran = self.run_tool("top", "--format", "json", "-n", "0", "--fold", "none", "--tagignore", "state=waiting", "--metric", metric, files[-1])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        said, selves, totals = json.loads(ran.stdout), {}, {}
        for row in said["rows"]:
            name = row["function"].encode()[-LONGEST_NAME:].decode()
            selves[name] = selves.get(name, 0) + row["self"]
            totals.setdefault(name, []).append(row["total"])
        return said["selected"], selves, {name: rows[0] for name, rows in totals.items() if len(rows) == 1}

    def expect_what_top_says(self, server, service):
        """The total of each metric and its 20 largest functions, by themselves and with what they call, to the unit."""
        compared, selector = [], '{service_name="%s"}' % service
        for kind, metric in [(kind, one) for kind, types in COUNTERS.items() for one in types] + [("heap", one) for one in IN_USE]:
            total, selves, totals = self.top(kind, metric[1])
            if total == 0:
                continue
            found = {}

            def same():
                if metric in IN_USE:
                    got = server.newest(metric, selector, self.began)
                else:
                    got = server.ask(metric, selector, self.began, time.time() + 60)
                if got is None:
                    return False
                their_selves, their_totals = selves_and_totals(got, metric[1])
                found["total"] = got.sum(metric[1])
                found["differ"] = {}
                for ours, theirs in ((selves, their_selves), (totals, their_totals)):
                    for name in sorted(ours, key=ours.get)[-20:]:
                        if ours[name] != theirs.get(name, 0):
                            found["differ"][name] = (ours[name], theirs.get(name, 0))
                return found["total"] == total and not found["differ"]

            try:
                eventually(same, "")
            except AssertionError:
                self.fail("%s: `holdfast top` says %d, the server %r" % (":".join(metric), total, found))
            compared.append("%s %d in %d functions" % (metric[1] if kind == "heap" else kind + " " + metric[1], total, len([1 for value in selves.values() if value])))
        print("%s, %g s: %s" % (service, SECONDS, "; ".join(compared)), file=sys.stderr, flush=True)
        return len(compared)

    def expect_program(self, server, command, load):
        every = "5s" if SECONDS > 60 else "1s"
        program = self.begin(command)
        pusher = self.push(server, every=every)
        self.work(load())
        program.terminate()
        program.wait()
        self.assertEqual(pusher.stop(), 0)
        return self.expect_what_top_says(server, os.path.basename(command[0]))

    def memcached_load(self):
        return [LOAD, self.socket, "8", "100"]


@unittest.skipUnless(servers_tool("pyroscope"), "there is no Pyroscope here (scripts/servers builds one)")
class Programs(RealTest):
    def test_cpu_time_is_there_as_top_says(self):
        server = self.server()
        program = self.burn()
        pusher = self.push(server, every="200ms")
        kind = ("process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds")
        eventually(lambda: self.total(server, kind, None) > 100e6, "a tenth of a second is there")
        program.communicate(b"\n\n")
        self.assertEqual(pusher.stop(), 0)
        for metric, unit in (("cpu", "nanoseconds"), ("samples", "count")):
            total, selves, totals = self.top("cpu", metric)
            self.assertGreater(totals["BurnCpu"], total / 2)
            kind = ("process_cpu", metric, unit, "cpu", "nanoseconds")
            eventually(lambda: self.total(server, kind, None) == total, "all of it is there")
            got = server.ask(kind, '{service_name="cpu_timer_cases"}', self.began, time.time() + 60)
            self.assertEqual(selves_and_totals(got, metric)[1]["BurnCpu"], totals["BurnCpu"])

    def test_the_time_of_threads_is_there_as_it_was_sent(self):
        """The pusher looks for itself, so what it sends is in no file: a relay keeps a copy."""
        server, relay = self.server(), StandIn(self)

        def forward(handler):
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            names = ("Content-Type", "Content-Encoding")
            connection.request("POST", handler.path, body=handler.body, headers={name: handler.headers[name] for name in names if name in handler.headers})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status == 200:
                is_packed = handler.headers.get("Content-Encoding", "identity") == "gzip"
                relay.take_push(gzip.decompress(handler.body) if is_packed else handler.body)
            handler.answer(answer.status, text, {"Content-Type": answer.headers["Content-Type"]})
            connection.close()

        relay.fail = forward
        environment = clean_environment()
        environment.update(LD_PRELOAD=LIBRARY, HOLDFAST_OUT=self.out, HOLDFAST_TABLES=self.tables, HOLDFAST_SNAPSHOT_EVERY="0")
        environment.update(HOLDFAST_WALL="yes", HOLDFAST_CPU="100", HOLDFAST_LOCK_INTERVAL="1us")
        program = subprocess.Popen([os.path.join(PROGRAMS, "known_wall"), "0", "4"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), b"ready\n")
        pusher = self.push(relay, every="500ms")

        def seen(state):
            return sum(sample.values[0] for one in relay.of("wall") for sample in one.profile.samples if sample.labels["state"] == state)

        eventually(lambda: all(seen(state) > SECONDS * 1e8 for state in ("cpu", "lock", "io", "sleep")) and relay.total("process_cpu", "cpu") > 1e8, "all of it is seen")
        program.communicate(b"\n")
        self.assertEqual(pusher.stop(), 0)
        self.assertEqual(relay.refused + relay.errors, [])
        for family, column in (("wall", "wall"), ("process_cpu", "cpu"), ("process_cpu", "samples")):
            sent = relay.of(family)
            kind = (family, column, dict(one.split("/") for one in sent[0].profile.types)[column], *sent[0].profile.period_type.split("/"))
            ours = [{}, {}]
            states = {}
            for one in sent:
                for mine, more in zip(ours, selves_and_totals(one.profile, column)):
                    for name, value in more.items():
                        mine[name] = mine.get(name, 0) + value
                for sample in one.profile.samples:
                    state = sample.labels.get("state")
                    states[state] = states.get(state, 0) + sample.values[one.profile.column(column)]
            selector = '{service_name="known_wall"}'
            eventually(lambda: self.total(server, kind, None, selector) == relay.total(family, column), "all of it is there")
            theirs = selves_and_totals(server.ask(kind, selector, self.began, time.time() + 60), column)
            self.assertEqual([{name: value for name, value in one.items() if value} for one in theirs], [{name: value for name, value in one.items() if value} for one in ours])
            if family == "wall":
                for state, value in states.items():  # labels of samples are asked for in version 2 only
                    found = self.total(server, kind, None, '{service_name="known_wall",state="%s"}' % state)
                    self.assertEqual(found, value if is_version_2() else 0, state)
            said = ", ".join("%s %d" % one for one in sorted(states.items(), key=str)) if family == "wall" else ""
            print("%s: %d in %d functions %s" % (":".join(kind), sum(ours[0].values()), len(ours[0]), said), file=sys.stderr, flush=True)

    def test_redis_is_there_as_top_says(self):
        load = lambda: ["redis-benchmark", "-s", self.socket, "-q", "-n", "20000", "-r", "100000", "-P", "16", "-t", "set,lpush,hset"]
        self.assertGreaterEqual(self.expect_program(self.server(), ["redis-server", "--port", "0", "--unixsocket", "s", "--save", ""], load), 4)

    def test_memcached_is_there_as_top_says(self):
        command = ["memcached", "-s", "s", "-a", "0700", "-t", "4", "-m", "64", "-u", "root"]
        self.assertGreaterEqual(self.expect_program(self.server(), command, self.memcached_load), 4)

    def test_a_server_in_cxx_is_there_as_top_says_with_who_held_its_locks(self):
        self.assertEqual(self.expect_program(self.server(), [os.path.join(PROGRAMS, "small_cache"), "s"], self.memcached_load), 8)


@unittest.skipUnless(servers_tool("pyroscope"), "there is no Pyroscope here (scripts/servers builds one)")
class Trouble(RealTest):
    def test_each_step_is_there_once_and_it_goes_on_behind_a_server_that_was_killed(self):
        server = self.server()
        program = self.start()
        pusher = self.push(server, every="200ms")
        program.step(3)
        self.expect_steps(server, 3)
        server.kill()  # what it had not written down is lost
        server.begin()
        kept = self.totals(server)
        program.step(2)
        more = tuple(a + b for a, b in zip(kept, (2 * PER_STEP, 2 * PER_STEP * 1000, 2, 2)))
        eventually(lambda: self.totals(server) == more, "two more are there")
        self.assertEqual(pusher.stop(), 0)

    def test_a_server_that_was_down_has_all_of_it_afterwards(self):
        program = self.start()
        program.step()  # before there was a server
        server = self.server()
        pusher = self.push(server, every="200ms")
        program.step(2)
        self.expect_steps(server, 3)
        server.end()
        end = time.monotonic() + SECONDS
        steps = 3
        while time.monotonic() < end:
            program.step()
            steps += 1
            time.sleep(0.1)
        pusher.wait_for("does not accept profiles")
        server.begin()
        program.step()
        self.expect_steps(server, steps + 1)
        self.assertEqual(pusher.stop(), 0)
        self.expect_steps(server, steps + 1)

    def test_a_server_that_has_enough_for_now(self):
        rate, burst = (0.02, 0.03) if is_version_2() else (0.02, 0.012)
        server = self.server(options=["-distributor.ingestion-rate-limit-mb=%g" % rate, "-distributor.ingestion-burst-size-mb=%g" % burst])
        programs = [self.start() for _ in range(8 if is_version_2() else 1)]  # 2 counts each profile of a request: it takes some
        for program in programs:
            program.step()
        pusher = self.push(server, every="3s" if is_version_2() else "100ms")
        pusher.wait_for("does not accept profiles (429")
        for program in programs:
            program.step(3)
        self.expect_steps(server, 4 * len(programs))  # where profiles still come, 2 compacts
        for program in programs:
            program.end()
        self.assertEqual(pusher.stop(), 0)
        self.expect_steps(server, 4 * len(programs))

    def test_what_one_profile_is_refused_for_holds_up_no_other(self):
        server = self.server(options=["-validation.max-length-label-value=%d" % (LONGEST_LABEL - 1)])
        programs = [self.start(env={"OTEL_SERVICE_NAME": "x" * LONGEST_LABEL if i == 3 else "shop"}) for i in range(6)]
        for program in programs:
            program.step(2)
        pusher = self.push(server, every="1s")
        pusher.wait_for("rejected a profile (400")
        programs[0].step()
        self.expect_steps(server, 11)  # where profiles still come, 2 compacts
        for program in programs:
            program.step()
            program.end()
        self.expect_steps(server, 16)
        self.assertEqual(pusher.stop(), 0)
        refused = {os.path.basename(path).split(".")[1] for path in glob.glob(self.out + "/.push/*/aside/*")}
        self.assertEqual(refused, {str(programs[3].pid)})

    def test_what_is_sent_again_as_no_answer_came_counts_once(self):
        server, front, taken = self.server(), StandIn(self), []

        def pass_on(handler):
            status = server.post(handler.path, handler.body, handler.headers["Content-Type"])[0]
            taken.append(status)
            if len(taken) % 3 == 1:
                reset()(handler)
            else:
                handler.answer(status)

        front.fail = pass_on
        program = self.start()
        pusher = self.push(front, every="200ms")
        for _ in range(3):
            before = len(taken)
            program.step()
            eventually(lambda: len(taken) > before + 3, "another one was sent again")
        front.fail = lambda handler: handler.answer(server.post(handler.path, handler.body, handler.headers["Content-Type"])[0])
        self.expect_steps(server, 3)
        self.assertEqual(set(taken), {200})
        self.assertEqual(pusher.stop(), 0)
        self.expect_steps(server, 3)

    def test_a_pusher_that_is_killed_whatever_it_does_is_gone_on_from(self):
        server = self.server()
        program = self.start()
        for _ in range(6):
            pusher = self.push(server, every="100ms")
            program.step(2)
            pusher.stop(signal.SIGKILL)  # whatever it was doing
        pusher = self.push(server, every="100ms")
        self.expect_steps(server, 12)
        self.assertEqual(pusher.stop(), 0)
        self.expect_steps(server, 12)


@unittest.skipUnless(servers_tool("pyroscope"), "there is no Pyroscope here (scripts/servers builds one)")
class Throughput(RealTest):
    def test_nothing_of_many_processes_is_left_behind_or_sent_twice(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10 * PROCESSES + 1024), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        server = self.server(options=["-ingester.max-global-series-per-tenant=0", "-distributor.ingestion-rate-limit-mb=50", "-distributor.ingestion-burst-size-mb=50"])
        programs = [self.start() for _ in range(PROCESSES)]
        pusher = self.push(server, every="15s" if PROCESSES >= 1000 else "1s")
        rounds, waited, end = 0, [], time.monotonic() + SECONDS
        while rounds < 3 or time.monotonic() < end:
            for program in programs:
                program.step()
            rounds += 1
            waited.append(len([1 for path in glob.glob(self.out + "/.push/*/*.entry")]))
        self.expect_steps(server, rounds * PROCESSES)
        eventually(lambda: not glob.glob(self.out + "/.push/*/*.entry"), "nothing waits")
        self.assertEqual(pusher.stop(), 0)
        self.expect_steps(server, rounds * PROCESSES)
        line = pusher.wait_for("sent ")
        sent, requests = map(int, re.search(r"sent (\d+) profiles .* in (\d+) request", line).groups())
        self.assertNotIn("set aside", line)
        self.assertGreater(sent, 5 * requests)
        print("%d processes, %d steps each: %s; waited at most %d" % (PROCESSES, rounds, line, max(waited)), file=sys.stderr, flush=True)


@unittest.skipUnless(servers_tool("pyroscope"), "there is no Pyroscope here (scripts/servers builds one)")
class Series(RealTest):
    def test_processes_that_share_a_series_are_added_up(self):
        server = self.server()
        programs = [self.start() for _ in range(8)]
        pusher = self.push(server, "--label", "pid=all", every="100ms")
        for _ in range(3):
            for program in programs:
                program.step()
        self.expect_steps(server, 24, '{pid="all"}')
        for program in programs:
            program.step()
        for program in programs:
            program.end()
        self.expect_steps(server, 32)
        self.assertEqual(pusher.stop(), 0)

    def test_old_requests_are_taken_too(self):
        server = self.server()
        program = self.start(env={"OTEL_SERVICE_NAME": "team/shop v1.2{b}"})
        pusher = self.push(server, "--to", "ingest", "--label", "team=a,b", every="200ms")
        program.step(3)
        self.expect_steps(server, 3, '{service_name="team_shop_v1.2_b_",team="a_b"}', period=is_version_2())
        program.step(2)
        program.end()
        self.expect_steps(server, 5, period=is_version_2())
        self.assertEqual(pusher.stop(), 0)

    def test_labels_of_samples_are_asked_for_in_version_2_only(self):
        server = self.server()
        program = self.start()
        pusher = self.push(server, every="200ms")
        program.step(3)
        self.expect_steps(server, 3)
        waits = COUNTERS["block"][0]
        self.assertEqual(self.total(server, waits, "step_waits", '{wait="mutex"}'), 3 if is_version_2() else 0)
        self.assertEqual(self.total(server, waits, "step_waits", '{wait="barrier"}'), 0)
        self.assertEqual(pusher.stop(), 0)

    def test_the_last_command_of_the_guide_shows_the_memory_in_use(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/fleet.md")) as file:
            guide = file.read().split("### A local Pyroscope")[1].split("###")[0]
        bar = re.search(r'\{service_name="(\w+)", profile_type="([\w:]+)"\}', guide)
        address = re.search(r"http://localhost:4040/\?query=([\w:]+\{[^}]*\})", guide)
        server = self.server()
        program = self.start(bar.group(1))
        pusher = self.push(server, every="200ms")
        program.step(3)
        self.expect_steps(server, 3)
        self.assertEqual(pusher.stop(), 0)
        newest = server.newest(tuple(bar.group(2).split(":")), '{service_name="%s"}' % bar.group(1), self.began)
        self.assertEqual(newest.sum(bar.group(2).split(":")[1], leaf="step_allocates"), 3 * 10 * 1000)
        status, shown = server.get("/pyroscope/render?from=now-1h&until=now&query=" + urllib.parse.quote(address.group(1)))
        self.assertEqual(status, 200, shown)
        self.assertIn("step_allocates", json.loads(shown)["flamebearer"]["names"])

    def test_labels_and_names_may_be_anything(self):
        server = self.server()
        name = "sh op/é\"\\{x}=,\x01.v1"
        self.start(env={"OTEL_SERVICE_NAME": name}).step(2)
        pusher = self.push(server, "--label", "team= a,\"b\"\\{}", "--label", "long=" + "x" * 2048, every="200ms")
        quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\x01", "\\x01")
        self.expect_steps(server, 2, '{service_name="%s",team=" a,\\"b\\"\\\\{}"}' % quoted)
        self.assertEqual(pusher.stop(), 0)

    def test_more_labels_than_a_sample_may_have(self):
        server = self.server()
        command = [TOOL, "run", "-q", "-o", self.out, "--heap-interval", "1", "--push", server.url, "--", os.path.join(PROGRAMS, "labelled"), "wide"]
        subprocess.run(command, check=True, env=clean_environment())
        eventually(lambda: self.total(server, COUNTERS["heap"][1], "serve") == 1000, "all of it is there")
        eventually(lambda: "sent " in self.log(), "the pusher has ended")
        self.assertRegex(self.log(), "servers accept 30 labels per series, so these labels of samples are dropped: .*zc")
        self.assertNotIn("set aside", self.log())


@unittest.skipUnless(servers_tool("pyroscope") and not is_version_2(), "there is no Pyroscope 1 here (scripts/servers builds one)")
class Distributed(RealTest):
    def test_it_is_the_same_while_parts_of_it_are_killed(self):
        cluster = Cluster(self)
        program = self.begin([os.path.join(PROGRAMS, "small_cache"), "s"])
        steps = self.start()
        pusher = self.push(cluster, every="5s" if SECONDS > 60 else "500ms")
        loads = threading.Thread(target=self.work, args=(self.memcached_load(), SECONDS))
        loads.start()
        steps.step(3)
        self.work(["sleep", "0.2"], SECONDS / 2)
        cluster.ingesters[1].kill()
        steps.step(3)
        cluster.distributor.kill()
        steps.step(3)
        cluster.distributor.ingesters = 2  # of three that it knows
        cluster.distributor.begin()
        loads.join()
        program.terminate()
        program.wait()
        steps.end()
        self.assertEqual(pusher.stop(), 0)
        self.expect_steps(cluster, 9, '{service_name="live_steps"}')
        for file in glob.glob(self.out + "/live_steps.*"):
            os.unlink(file)
        self.assertEqual(self.expect_what_top_says(cluster, "small_cache"), 8)


if __name__ == "__main__":
    unittest.main()
