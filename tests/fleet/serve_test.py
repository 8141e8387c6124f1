"""`holdfast serve`: Go's /debug/pprof, several processes, metrics and targets."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

from fleet import PATIENCE, FleetTest, Stepper, clean_environment, eventually

KINDS = {"heap": "step_allocates", "allocs": "step_allocates", "mutex": "step_holds", "block": "step_waits"}
PER_STEP = 100  # blocks of 1,000 bytes, of which 10 stay


def pprofs():
    """Go's newest and Debian's oldest, each once."""
    return sorted({os.path.realpath(path) for path in [shutil.which("go"), *glob.glob("/usr/lib/go-*/bin/go")] if path})


class Pprof(FleetTest):
    """The contract of net/http/pprof."""

    def test_headers_are_those_of_go(self):
        self.start().step()
        server = self.serve()
        for kind in KINDS:
            answer = self.get(server, "/debug/pprof/" + kind)
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers["Content-Type"], "application/octet-stream")
            self.assertEqual(answer.headers["Content-Disposition"], 'attachment; filename="%s"' % kind)
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(answer.profile.duration_nanos, 0)
            delta = self.get(server, "/debug/pprof/%s?seconds=1" % kind)
            self.assertEqual(delta.headers["Content-Disposition"], 'attachment; filename="%s-delta"' % kind)
            self.assertGreaterEqual(delta.profile.duration_nanos, 10**9)

    def test_profiles_hold_what_the_program_did(self):
        program = self.start()
        program.step(3)
        server = self.serve()
        heap = self.get(server, "/debug/pprof/heap").profile
        self.assertEqual(heap.sum("alloc_objects", leaf="step_allocates"), 3 * PER_STEP)
        self.assertEqual(heap.sum("inuse_space", leaf="step_allocates"), 3 * 10 * 1000)
        self.assertEqual(heap.default_type, "inuse_space")
        allocs = self.get(server, "/debug/pprof/allocs").profile
        self.assertEqual(allocs.default_type, "alloc_space")
        self.assertEqual(allocs.sum("alloc_objects"), heap.sum("alloc_objects"))
        self.assertEqual(self.get(server, "/debug/pprof/block").profile.sum("contentions", leaf="step_waits"), 3)
        self.assertEqual(self.get(server, "/debug/pprof/mutex").profile.sum("contentions", leaf="step_holds"), 3)

    def test_resident_is_there_where_it_is_asked_for(self):
        program = self.start()
        program.step(3)
        server = self.serve()
        for path in ("/debug/pprof/resident", "/debug/pprof/resident?seconds=1"):
            answer = self.get(server, path)
            self.assertEqual((answer.status, answer.headers["X-Go-Pprof"]), (404, "1"))
            self.assertIn("set %d resident=on" % program.pid, answer.text)
        ran = self.run_tool("set", "--tables", self.tables, str(program.pid), "resident=on")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        answer = self.get(server, "/debug/pprof/resident")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Content-Disposition"], 'attachment; filename="resident"')
        profile = answer.profile
        self.assertEqual(profile.default_type, "resident_space")
        self.assertEqual(profile.types, ["inuse_objects/count", "inuse_space/bytes", "resident_space/bytes", "swapped_space/bytes"])
        for column in ("inuse_space", "resident_space"):
            self.assertEqual(profile.sum(column, leaf="step_allocates"), 3 * 10 * 1000)
        self.assertEqual(self.get(server, "/debug/pprof/delta_resident").status, 404)
        text = self.get(server, "/debug/pprof/resident?debug=1").text
        self.assertIn("# kind: resident\n", text)
        self.assertRegex(text, r"^heap profile: \d+: %d \[\d+: \d+\] @ heap/2\n" % profile.sum("resident_space"))
        self.assertRegex(self.get(server, "/debug/pprof/").text, r">[1-9]\d*</td><td><a href='resident")
        program.step(2)
        change = self.get(server, "/debug/pprof/resident?seconds=1")
        self.assertEqual(change.status, 200)
        self.assertEqual(change.profile.sum("resident_space", leaf="step_allocates"), 0, "nothing happened meanwhile")

    def test_wall_is_where_the_time_of_threads_goes_once_it_is_asked_for(self):
        program = self.start()
        program.step()
        server = self.serve()
        answer = self.get(server, "/debug/pprof/wall")
        self.assertEqual((answer.status, answer.headers["X-Go-Pprof"]), (404, "1"))
        self.assertIn("set %d wall=on" % program.pid, answer.text)
        ran = self.run_tool("set", "--tables", self.tables, str(program.pid), "wall=on")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.get(server, "/debug/pprof/wall").status, 200)
        profile = self.get(server, "/debug/pprof/wall?seconds=1").profile
        self.assertEqual((profile.types, profile.default_type), (["wall/nanoseconds"], "wall"))
        # The only thread waits for its next line. Its states are those of the time between the two snapshots.
        self.assertGreater(sum(one.values[0] for one in profile.samples if one.labels["state"] == "io"), 0)
        self.assertLess(profile.sum("wall"), profile.duration_nanos * 1.1)
        text = self.get(server, "/debug/pprof/wall?debug=1").text
        total = int(re.match(r"wall profile: (\d+) nanoseconds\n", text).group(1))
        self.assertEqual(sum(int(ns) for ns in re.findall(r"(?m)^(\d+) @", text)), total)
        self.assertEqual(re.findall(r"(?m)^\d+ \d+ @", text), [], "one number for each sample")

    def test_map_has_what_libc_has_mapped(self):
        self.start().step()
        profile = self.get(self.serve(), "/debug/pprof/map").profile
        self.assertGreaterEqual(profile.sum("inuse_space", leaf="[glibc heap]"), 4096)

    def test_a_program_that_is_stopped_is_read_as_any_other(self):
        program = self.start()
        program.step()
        os.kill(program.pid, signal.SIGSTOP)
        try:
            self.assertEqual(self.get(self.serve(), "/debug/pprof/heap").profile.sum("alloc_objects", leaf="step_allocates"), PER_STEP)
        finally:
            os.kill(program.pid, signal.SIGCONT)

    def test_seconds_is_what_happened_meanwhile(self):
        program = self.start()
        program.step(2)
        server = self.serve()
        before = program.steps
        answers = {}

        def ask(kind):
            answers[kind] = self.get(server, "/debug/pprof/%s?seconds=1" % kind).profile

        asking = [threading.Thread(target=ask, args=(kind,)) for kind in KINDS]
        for thread in asking:
            thread.start()
        while any(thread.is_alive() for thread in asking):  # steps all the time: some lie between the two snapshots
            program.step()
        steps = program.steps - before
        heap = answers["heap"].sum("alloc_objects", leaf="step_allocates")
        # A snapshot may fall into a step.
        self.assertTrue(0 < heap <= steps * PER_STEP, heap)
        self.assertTrue(0 < answers["allocs"].sum("alloc_space", leaf="step_allocates") <= steps * PER_STEP * 1000)
        self.assertTrue(0 < answers["block"].sum("contentions", leaf="step_waits") <= steps)
        self.assertTrue(0 < answers["mutex"].sum("contentions", leaf="step_holds") <= steps)
        for profile in answers.values():
            self.assertTrue(profile.samples and all(any(sample.values) for sample in profile.samples))
            self.assertEqual(profile.comment("pid"), str(program.pid))
            self.assertFalse([comment for comment in profile.comments if comment.startswith("total ")])

    def test_profile_is_the_cpu_time_of_these_seconds(self):
        self.burn()
        server = self.serve()
        profile = self.get(server, "/debug/pprof/profile?seconds=1").profile
        self.assertEqual(profile.types, ["samples/count", "cpu/nanoseconds"])
        self.assertEqual((profile.period_type, profile.period, profile.default_type), ("cpu/nanoseconds", 1_000_000, "cpu"))
        burnt = profile.sum("cpu", having="BurnCpu")
        # One thread burns. A sample stands for up to 4 ms, and the snapshots are at most some more apart than a second.
        self.assertGreater(burnt, 0)
        self.assertLess(burnt, profile.duration_nanos * 1.1)
        series = {one["kind"]: one for one in report_of(self.get(server, "/p/%s/live" % profile.comment("pid")))["series"]}
        self.assertEqual([name for name, _ in series["cpu"]["metrics"]], ["samples", "cpu"])
        self.assertGreater(series["cpu"]["snapshots"][0]["totals"][1], burnt)
        for path in ("cpu", "delta_cpu", "cpu?debug=1"):
            answer = self.get(server, "/debug/pprof/" + path)
            self.assertEqual((path, answer.status), (path, 200))

    def test_seconds_of_an_idle_process_is_empty_and_whole(self):
        self.start().step()
        profile = self.get(self.serve(), "/debug/pprof/heap?seconds=1").profile
        self.assertEqual(profile.samples, [])
        self.assertEqual(profile.types, ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"])

    def test_a_program_that_ends_meanwhile_gives_its_last_state(self):
        program = self.start()
        server = self.serve()
        answer = {}
        asking = threading.Thread(target=lambda: answer.update(got=self.get(server, "/debug/pprof/heap?seconds=2")))
        asking.start()
        eventually(lambda: waits_in_a_request(server.process.pid), "the server waits")
        program.step()
        program.end()
        asking.join(PATIENCE)
        self.assertEqual(answer["got"].status, 200)
        self.assertEqual(answer["got"].profile.sum("alloc_objects", leaf="step_allocates"), PER_STEP)

    def test_delta_profiles_are_what_came_since_the_last_time(self):
        program = self.start()
        program.step(2)
        server = self.serve()
        for steps in (2, 3, 0):
            heap = self.get(server, "/debug/pprof/delta_heap")
            self.assertEqual(heap.headers["Content-Disposition"], 'attachment; filename="heap.pprof.gz"')
            self.assertEqual(heap.profile.sum("alloc_objects", leaf="step_allocates"), steps * PER_STEP)
            self.assertEqual(heap.profile.sum("inuse_objects", leaf="step_allocates"), program.steps * 10)  # as it is
            self.assertEqual(self.get(server, "/debug/pprof/delta_block").profile.sum("contentions", leaf="step_waits"), steps)
            self.assertEqual(self.get(server, "/debug/pprof/delta_mutex").profile.sum("contentions", leaf="step_holds"), steps)
            if steps != 0:
                program.step(3 if steps == 2 else 0)

    def test_errors_are_those_of_go(self):
        program = self.start()
        program.step()
        server = self.serve()
        for path, status, text in (
            ("/debug/pprof/goroutine", 404, "Unknown profile\n"),
            ("/debug/pprof/trace", 404, "Unknown profile: execution traces are those of Go's runtime\n"),
            ("/debug/pprof/profile", 500, "CPU samples are off: holdfast set %d cpu=100\n" % program.pid),
            ("/debug/pprof/heap?seconds=0", 400, 'invalid value for "seconds" - must be a positive integer\n'),
            ("/debug/pprof/heap?seconds=-5", 400, 'invalid value for "seconds" - must be a positive integer\n'),
            ("/debug/pprof/heap?seconds=1e3", 400, 'invalid value for "seconds" - must be a positive integer\n'),
            ("/debug/pprof/heap?seconds=1&debug=1", 400, "seconds and debug params are incompatible\n"),
        ):
            answer = self.get(server, path)
            self.assertEqual((answer.status, answer.text), (status, text), path)
            self.assertEqual(answer.headers["X-Go-Pprof"], "1")
            self.assertEqual(answer.headers["Content-Type"], "text/plain; charset=utf-8")
        self.assertEqual(self.get(server, "/nothing").text, "404 page not found\n")
        posted = self.get(server, "/debug/pprof/heap", method="POST", body=b"x")
        self.assertEqual((posted.status, posted.headers["Allow"]), (405, "GET, HEAD"))
        moved = self.get(server, "/debug/pprof")
        self.assertEqual((moved.status, moved.headers["Location"]), (301, "/debug/pprof/"))
        head = self.get(server, "/debug/pprof/heap", method="HEAD")
        self.assertEqual((head.status, head.body), (200, b""))

    def test_cmdline_and_symbol(self):
        program = self.start()
        program.step()
        server = self.serve()
        self.assertEqual(self.get(server, "/debug/pprof/cmdline").text, program.program)
        block = self.get(server, "/debug/pprof/block").profile
        address = next(sample.addresses[0] for sample in block.samples if sample.stack[0] == "step_waits")
        expected = "num_symbols: 1\n0x%x step_waits\n" % address
        self.assertEqual(self.get(server, "/debug/pprof/symbol?0x%x" % address).text, expected)
        posted = self.get(server, "/debug/pprof/symbol", method="POST", body=b"0x%x+0x%x+17+junk" % (address, address))
        self.assertEqual(posted.text, expected + "0x%x step_waits\n" % address)
        self.assertEqual(self.get(server, "/debug/pprof/symbol").text, "num_symbols: 1\n")

    def test_delta_goes_on_where_a_server_before_was(self):
        program = self.start()
        program.step(2)
        increase = lambda server, kind: self.get(server, "/debug/pprof/delta_" + kind).profile
        first = self.serve()
        self.assertEqual(increase(first, "heap").sum("alloc_objects", leaf="step_allocates"), 2 * PER_STEP)
        self.assertEqual(increase(first, "block").sum("contentions", leaf="step_waits"), 2)
        first.stop(signal.SIGKILL)
        program.step()
        second = self.serve()
        self.assertEqual(increase(second, "heap").sum("alloc_objects", leaf="step_allocates"), PER_STEP)
        self.assertEqual(increase(second, "block").sum("contentions", leaf="step_waits"), 1)
        self.assertEqual(increase(second, "block").samples, [])
        self.assertEqual(increase(second, "mutex").sum("contentions", leaf="step_holds"), 3)  # nobody asked before

    def test_text_is_what_pprof_reads(self):
        self.start().step(2)
        server = self.serve()
        for kind, function in KINDS.items():
            answer = self.get(server, "/debug/pprof/%s?debug=1" % kind)
            self.assertEqual(answer.headers["Content-Type"], "text/plain; charset=utf-8")
            self.assertIn("\t%s\t" % function, answer.text)
        heap = self.get(server, "/debug/pprof/heap?debug=1").text
        self.assertRegex(heap, r"(?m)^heap profile: \d+: \d+ \[\d+: \d+\] @ heap/2$")
        self.assertRegex(heap, r"(?m)^20: 20000 \[200: 200000\] @ 0x")
        path = os.path.join(self.folder, "heap.txt")
        with open(path, "w") as file:
            file.write(heap)
        for go in pprofs():
            raw = self.pprof(go, "-raw", path)
            self.assertRegex(raw, r"(?m)^ +200 +200000 +20 +20000: ")  # nothing scaled

    def test_text_of_every_kind_is_what_pprof_reads(self):
        self.start().step(2)
        server = self.serve()
        for kind in ("block", "mutex", "map", "threads"):
            path = os.path.join(self.folder, kind + ".txt")
            with open(path, "w") as file:
                file.write(self.get(server, "/debug/pprof/%s?debug=1" % kind).text)
            for go in pprofs()[:1]:
                raw = self.pprof(go, "-raw", path)
                self.assertIn("Samples:\n", raw)
                if kind in ("block", "mutex"):
                    self.assertRegex(raw, r"(?m)^ +2 +[1-9]\d*: ")

    def pprof(self, go, *arguments):
        environment = clean_environment()
        environment.update(GOFLAGS="", GOTOOLCHAIN="local", PPROF_TMPDIR=self.folder)
        ran = subprocess.run([go, "tool", "pprof", *arguments], capture_output=True, text=True, env=environment, timeout=5 * PATIENCE)  # the newest builds it first
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    @unittest.skipUnless(pprofs(), "go is not installed")
    def test_go_tool_pprof_takes_every_kind(self):
        program = self.start()
        program.step(2)
        server = self.serve()
        for go in pprofs():
            for kind, function in KINDS.items():
                top = self.pprof(go, "-top", "http://%s/debug/pprof/%s" % (server.address, kind))
                self.assertRegex(top, r"(?m) %s$" % function)
        stop = threading.Event()

        def work():
            while not stop.is_set():
                program.step()

        worker = threading.Thread(target=work)
        worker.start()
        try:
            for go in pprofs():
                for kind, function in KINDS.items():
                    top = self.pprof(go, "-top", "-seconds=1", "http://%s/debug/pprof/%s" % (server.address, kind))
                    self.assertRegex(top, r"(?m) %s$" % function)
                    self.assertIn("Duration: ", top)
        finally:
            stop.set()
            worker.join(PATIENCE)


def system_calls(pid):
    """What each thread of a process is in: the words of /proc/PID/task/*/syscall; [] for one that has just ended."""
    for path in glob.glob("/proc/%d/task/*/syscall" % pid):
        try:
            with open(path) as file:
                yield file.read().split()
        except OSError:
            yield []


def waits_in_a_request(pid):
    """A thread of the server waits for a client to go: a poll of two descriptors that has an end."""
    for words in system_calls(pid):
        if words[:1] == ["7"] and int(words[2], 16) == 2 and int(words[3], 16) & 0xFFFFFFFF != 0xFFFFFFFF:
            return True
    return False


class Processes(FleetTest):
    """One server, several processes."""

    def test_each_has_its_own_path(self):
        first, second = self.start("first"), self.start("second")
        first.step(1)
        second.step(2)
        server = self.serve()
        for program in (first, second):
            expected = program.steps * PER_STEP
            for path in ("/p/%d/debug/pprof/heap" % program.pid, "/debug/pprof/heap?pid=%d" % program.pid,
                         "/debug/pprof/heap?program=" + os.path.basename(program.program)):
                heap = self.get(server, path).profile
                self.assertEqual(heap.sum("alloc_objects", leaf="step_allocates"), expected, path)
        several = self.get(server, "/debug/pprof/heap")
        self.assertEqual(several.status, 400)
        self.assertEqual(several.headers["X-Go-Pprof"], "1")
        for program in (first, second):
            self.assertIn("\n%d %s" % (program.pid, os.path.basename(program.program)), several.text)
        self.assertEqual(self.get(server, "/debug/pprof/heap?program=third").status, 404)
        self.assertEqual(self.get(server, "/debug/pprof/heap?pid=x").status, 400)
        self.assertEqual(self.get(server, "/p/1/debug/pprof/heap").status, 404)
        page = self.get(server, "/")
        self.assertIn("/p/%d/debug/pprof/" % first.pid, page.text)
        self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])

    def test_only_those_that_were_named(self):
        first, second = self.start("first"), self.start("second", out=self.folder + "/other")
        first.step()
        second.step()
        for arguments in ([str(first.pid)], [self.out]):
            server = self.serve(*arguments)
            self.assertEqual(self.get(server, "/debug/pprof/cmdline").text, first.program)
            self.assertEqual(self.get(server, "/p/%d/debug/pprof/heap" % second.pid).status, 404)
            server.stop()

    def test_a_program_may_come_and_go(self):
        server = self.serve()
        self.assertEqual(self.get(server, "/debug/pprof/heap").text, "no process of this user is profiled\n")
        program = self.start()
        program.step()
        self.assertEqual(self.get(server, "/debug/pprof/heap").status, 200)
        program.end()
        self.assertEqual(self.get(server, "/debug/pprof/heap").status, 404)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_another_users_programs_are_never_served(self):
        os.chmod(self.tables, 0o1777)
        os.chmod(self.folder, 0o777)
        theirs = self.start("theirs", user=65534)
        theirs.step()
        server = self.serve()
        self.assertEqual(self.get(server, "/p/%d/debug/pprof/heap" % theirs.pid).status, 404)
        self.assertEqual(self.get(server, "/debug/pprof/heap?pid=%d" % theirs.pid).status, 404)
        for path in ("/p/%d", "/p/%d/", "/p/%d/live", "/p/%d/live?since=1"):
            self.assertEqual(self.get(server, path % theirs.pid).status, 404, path)
        self.assertNotIn("theirs", self.get(server, "/").text + self.get(server, "/metrics").text + self.get(server, "/targets").text)

    def test_nothing_is_read_while_nobody_asks(self):
        program = self.start()
        program.step()
        server = self.serve()
        self.assertEqual(self.get(server, "/debug/pprof/heap").status, 200)
        poll, futex, sigtimedwait = "7", "202", "128"

        def all_wait():
            calls = list(system_calls(server.process.pid))
            ends = [words for words in calls if words[:1] == [poll] and int(words[3], 16) & 0xFFFFFFFF != 0xFFFFFFFF]
            return not ends and all(words[:1] in ([poll], [futex], [sigtimedwait]) for words in calls)

        eventually(all_wait, "every thread of the server waits, none for a time to pass")
        held = [os.readlink(path) for path in glob.glob("/proc/%d/fd/*" % server.process.pid)]
        self.assertFalse([name for name in held if name.endswith(".table")], held)


def report_of(answer):
    """The JSON at the head of what a live page is fed with."""
    body = answer.body
    assert body[:4] == b"HFR1", body[:20]
    return json.loads(body[8 : 8 + int.from_bytes(body[4:8], "little")])


def bytes_read_by(process):
    """From any file, as the kernel counts it. What inotify tells of a folder may be another's look: `holdfast ls` reads the tables of all."""
    with open("/proc/%d/io" % process.pid) as io:
        return int(re.search(r"^rchar: (\d+)$", io.read(), re.MULTILINE).group(1))


class Live(FleetTest):
    """The live page and what feeds it; tests/web/live_test.mjs looks at it in a browser."""

    def test_the_page_and_its_feed_may_do_what_they_need_and_nothing_else(self):
        program = self.start()
        program.step(2)
        server = self.serve()
        for path in ("/", "/p/%d/" % program.pid):
            page = self.get(server, path)
            self.assertEqual(page.status, 200)
            self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
            self.assertEqual(page.headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(page.headers["Cache-Control"], "no-store")
            self.assertEqual(page.headers["Cross-Origin-Resource-Policy"], "same-origin")
            policy = dict(part.strip().split(" ", 1) for part in page.headers["Content-Security-Policy"].split(";"))
            self.assertEqual(policy["default-src"], "'none'")
            self.assertEqual(policy["connect-src"], "'self'")
            self.assertRegex(policy["script-src"], r"^'sha256-[^ ]+' 'sha256-[^ ]+'$")
            self.assertRegex(policy["style-src"], r"^'sha256-[^ ]+' 'sha256-[^ ]+'$")
            self.assertEqual((policy["base-uri"], policy["form-action"], policy["frame-ancestors"]), ("'none'", "'none'", "'none'"))
            self.assertIn('data-live="/p/%d/live"' % program.pid, page.text)
            self.assertNotIn("@@", page.text)
        moved = self.get(server, "/p/%d" % program.pid)
        self.assertEqual((moved.status, moved.headers["Location"]), (301, "/p/%d/" % program.pid))
        feed = self.get(server, "/p/%d/live" % program.pid)
        self.assertEqual(feed.headers["Content-Type"], "application/octet-stream")
        self.assertEqual(feed.headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(feed.headers["Cache-Control"], "no-store")
        self.assertEqual(len(feed.headers.get_all("Cross-Origin-Resource-Policy")), 1)
        self.assertIsNone(feed.headers["Access-Control-Allow-Origin"])
        self.assertGreaterEqual(int(feed.headers["Holdfast-Pace"]), 1000)

    def test_the_feed_says_what_the_profiles_say(self):
        program = self.start()
        program.step(3)
        server = self.serve()
        report = report_of(self.get(server, "/p/%d/live" % program.pid))
        heap = self.get(server, "/debug/pprof/heap").profile
        series = {one["kind"]: one for one in report["series"]}
        self.assertEqual(sorted(series), ["block", "heap", "map", "mutex", "threads"])
        names = [name for name, _ in series["heap"]["metrics"]]
        for name, total in zip(names, series["heap"]["snapshots"][0]["totals"]):
            self.assertEqual(total, heap.sum(name), name)
        self.assertEqual(series["block"]["snapshots"][0]["totals"][0], self.get(server, "/debug/pprof/block").profile.sum("contentions"))
        self.assertEqual(series["heap"]["pid"], str(program.pid))
        self.assertEqual(report["sources"], [])  # they may be for this user's eyes only

    def test_what_has_not_changed_is_not_sent_again(self):
        program = self.start()
        program.step()
        server = self.serve()
        path = "/p/%d/live" % program.pid
        first = self.get(server, path)
        version = first.headers["Holdfast-Version"]
        again = self.get(server, path + "?since=" + version)
        self.assertEqual((again.status, again.body, again.headers["Holdfast-Version"]), (204, b"", version))
        self.assertEqual(self.get(server, path + "?since=other").body, first.body)  # within a pace all get the same
        program.step()
        changed = eventually(lambda: [answer for answer in [self.get(server, path + "?since=" + version)] if answer.status == 200], "it changes")[0]
        self.assertNotEqual(changed.headers["Holdfast-Version"], version)

    def test_nothing_is_read_while_nobody_looks(self):
        program, other = self.start(), self.start(out=self.folder + "/other")
        program.step()
        looked = tempfile.mkdtemp(prefix="holdfast-fleet-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, looked, True)
        watched = Stepper(self, self.out + ".watched", looked)
        watched.step()
        server = self.tool("serve", "--listen", "127.0.0.1:0", "--tables", looked)
        server.address = server.wait_for("listening on ").split("://")[-1]
        self.assertEqual(self.get(server, "/p/%d/live" % watched.pid).status, 200)
        before = bytes_read_by(server.process)
        self.assertEqual(self.get(server, "/p/%d/live" % watched.pid).status, 200)
        read = bytes_read_by(server.process)
        woken = 100  # its threads wake each other by 8 bytes where a connection ends
        self.assertGreater(read - before, woken)  # a look would be seen
        # Two seconds, as another server counts them: a page would have asked twice. Others may look.
        self.assertIn(self.run_tool("ls").returncode, (0, 3))  # 3: among the tables of all programs some may be of no use
        self.assertEqual(self.get(self.serve(), "/p/%d/debug/pprof/heap?seconds=2" % program.pid).status, 200)
        self.assertLess(bytes_read_by(server.process) - read, woken)
        held = [os.readlink(path) for path in glob.glob("/proc/%d/fd/*" % server.process.pid)]
        self.assertFalse([name for name in held if name.endswith(".table")], held)

    def test_only_to_be_read_and_only_by_who_may(self):
        program = self.start()
        program.step()
        server = self.serve()
        for path in ("/p/%d/" % program.pid, "/p/%d/live" % program.pid):
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                self.assertEqual(self.get(server, path, method=method).status, 405, (method, path))
            head = self.get(server, path, method="HEAD")
            self.assertEqual((head.status, head.body), (200, b""))
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"},
                            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}):
                self.assertEqual(self.get(server, path, headers=headers).status, 403, (headers, path))
            self.assertEqual(self.get(server, path, headers={"Host": "localhost", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}).status, 200)
        for path in ("/p/0/", "/p/-1/live", "/p/99999999999999999999/live", "/p/x/live", "/p/1/live", "/p/%d/live/x" % program.pid,
                     "/p/%d/lives" % program.pid, "/p//live"):
            self.assertEqual(self.get(server, path).status, 404, path)
        for since in ("x" * 20000, "%00", "%", "&&&=", "..%2f..%2f"):
            self.assertEqual(self.get(server, "/p/%d/live?since=%s" % (program.pid, since)).status, 200, since[:20])

    def test_a_name_that_is_markup_stays_text(self):
        program = self.start("<img src=x onerror=alert(1)>")
        program.step()
        server = self.serve()
        for text in (self.get(server, "/").text, self.get(server, "/p/%d/" % program.pid).text):
            self.assertNotIn("<img", text)
        self.start("second").step()
        text = self.get(server, "/").text
        self.assertNotIn("<img", text)
        self.assertIn("&lt;img", text)

    def test_a_program_that_is_stopped_is_looked_at_as_any_other(self):
        program = self.start()
        program.step(2)
        os.kill(program.pid, signal.SIGSTOP)
        try:
            server = self.serve()
            self.assertEqual(self.get(server, "/p/%d/" % program.pid).status, 200)
            report = report_of(self.get(server, "/p/%d/live" % program.pid))
            self.assertIn("heap", [one["kind"] for one in report["series"]])
        finally:
            os.kill(program.pid, signal.SIGCONT)


class Numbers(FleetTest):
    """/metrics and /targets."""

    def test_metrics_are_what_the_profiles_say(self):
        program = self.start()
        program.step(3)
        server = self.serve()
        heap = self.get(server, "/debug/pprof/heap").profile
        labels = 'program="live_steps",pid="%d"' % program.pid
        text = self.get(server, "/metrics")
        self.assertEqual(text.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn("holdfast_heap_inuse_bytes{%s} %d\n" % (labels, heap.sum("inuse_space")), text.text)
        self.assertIn("holdfast_heap_allocated_bytes_total{%s} %d\n" % (labels, heap.sum("alloc_space")), text.text)
        self.assertIn('holdfast_lock_waits_total{%s,kind="mutex"} 3\n' % labels, text.text)
        self.assertIn("holdfast_exporter_up{%s} 0\n" % labels, text.text)
        open_metrics = self.get(server, "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        self.assertEqual(open_metrics.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(open_metrics.text.endswith("# EOF\n"))
        self.assertIn("# TYPE holdfast_heap_allocated_bytes counter\n", open_metrics.text)
        self.assertEqual(self.get(server, "/p/%d/metrics" % program.pid).status, 200)
        # A few lines a process, whatever it does.
        self.assertLess(len([line for line in text.text.splitlines() if labels in line]), 20)

    def test_targets_name_every_process(self):
        first = self.start("first", env={"OTEL_SERVICE_NAME": "shop", "POD_NAME": "shop-1", "POD_NAMESPACE": "prod"})
        second = self.start("second")
        first.step()
        second.step()
        server = self.serve()
        targets = json.loads(self.get(server, "/targets").text)
        self.assertEqual([target["targets"] for target in targets], [[server.address]] * 2)
        labels = {target["labels"]["pid"]: target["labels"] for target in targets}
        one = labels[str(first.pid)]
        self.assertEqual((one["program"], one["service_name"], one["pod"], one["namespace"]), ("first", "shop", "shop-1", "prod"))
        self.assertEqual(labels[str(second.pid)]["service_name"], "second")
        lines = self.get(server, one["__metrics_path__"])
        self.assertEqual(lines.status, 200)
        # A label on both sides would come out as exported_program.
        names = {name for line in lines.text.splitlines() if line[0] != "#" for name in re.findall(r'(\w+)="', line)}
        self.assertEqual(names & one.keys(), set())
        self.assertIn("holdfast_heap_inuse_bytes{} ", lines.text)
        self.assertEqual(self.get(server, one["__profile_path_prefix__"] + "/debug/pprof/allocs").status, 200)

    @unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed")
    def test_prometheus_scrapes_both(self):
        program = self.start()
        program.step(3)
        server = self.serve()
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w") as file:
            file.write(
                "global: {scrape_interval: 1s}\n"
                "scrape_configs:\n"
                "  - {job_name: all, static_configs: [{targets: ['%s']}]}\n"
                "  - {job_name: each, http_sd_configs: [{url: 'http://%s/targets', refresh_interval: 1s}]}\n"
                % (server.address, server.address)
            )
        with open(os.path.join(self.folder, "prometheus.log"), "w") as log:
            port = free_port()
            prometheus = subprocess.Popen(
                ["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + self.folder + "/tsdb",
                 "--web.listen-address=127.0.0.1:%d" % port], stderr=log, stdout=log)
        self.addCleanup(prometheus.wait)
        self.addCleanup(prometheus.kill)

        class There:
            address = "127.0.0.1:%d" % port

        def value(job):
            try:
                answer = self.get(There, "/api/v1/query?query=holdfast_heap_inuse_bytes%%7Bjob=%%22%s%%22%%7D" % job)
            except OSError:
                return None
            result = json.loads(answer.text)["data"]["result"] if answer.status == 200 else []
            return result[0] if result else None

        heap = self.get(server, "/debug/pprof/heap").profile
        for job in ("all", "each"):
            got = eventually(lambda: value(job), "prometheus has scraped " + job)
            self.assertEqual(float(got["value"][1]), heap.sum("inuse_space"))
            self.assertEqual(got["metric"]["program"], "live_steps")
            self.assertEqual([name for name in got["metric"] if name.startswith("exported_")], [])


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    unittest.main()
