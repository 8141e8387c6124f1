"""`holdfast serve`: who is let in, and what a client cannot do to it."""
import base64
import os
import random
import select
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import threading
import unittest

from fleet import PATIENCE, FleetTest, eventually

MOST_CONNECTIONS = 64
MOST_WAITING = 32
HEAP = "/debug/pprof/heap"


class Admission(FleetTest):
    def setUp(self):
        super().setUp()
        self.start().step()

    def token_file(self, text="0123456789abcdef0123456789abcdef\n", mode=0o600):
        path = os.path.join(self.folder, "token")
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_a_name_that_was_pointed_here_is_refused(self):
        server = self.serve()
        port = server.address.split(":")[1]
        for host, status in (("evil.example", 403), ("evil.example:" + port, 403), ("localhost.evil.example", 403),
                             ("127.0.0.1.evil.example", 403), ("localhost:" + port, 200), ("LOCALHOST", 200),
                             ("[::1]:" + port, 200), ("10.1.2.3", 200)):
            self.assertEqual(self.get(server, HEAP, headers={"Host": host}).status, status, host)
        named = self.serve("--host", "profiles.example")
        self.assertEqual(self.get(named, HEAP, headers={"Host": "profiles.example"}).status, 200)
        self.assertEqual(self.get(named, HEAP, headers={"Host": "evil.example"}).status, 403)

    def test_pages_of_other_origins_read_nothing(self):
        server = self.serve()
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://127.0.0.1:1"}, 403),
            ({"Origin": "http://" + server.address}, 200),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Sec-Fetch-Site": "none"}, 200),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ):
            answer = self.get(server, HEAP, headers=headers)
            self.assertEqual(answer.status, status, headers)
            self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
            self.assertEqual(answer.headers["Cross-Origin-Resource-Policy"], "same-origin")

    def test_a_token_is_asked_for(self):
        server = self.serve("--token-file", self.token_file())
        token = "0123456789abcdef0123456789abcdef"
        basic = lambda text: "Basic " + base64.b64encode(text.encode()).decode()
        for authorization, status in ((None, 401), ("Bearer " + token, 200), ("bearer " + token, 200),
                                      ("Bearer " + token[:-1], 401), ("Bearer " + token + "x", 401), ("Bearer ", 401),
                                      (basic("any:" + token), 200), (basic("any:x"), 401), (basic(token), 401),
                                      ("Basic %%%", 401), ("Digest x", 401)):
            headers = {} if authorization is None else {"Authorization": authorization}
            for path in (HEAP, "/", "/metrics", "/targets", "/p/1/", "/p/1/live", "/nothing"):
                if status == 200 and path in ("/p/1/", "/p/1/live", "/nothing"):
                    continue
                self.assertEqual(self.get(server, path, headers=headers).status, status, (authorization, path))
        self.assertIn("Bearer", self.get(server, HEAP).headers["WWW-Authenticate"])

    def test_beyond_this_machine_a_token_is_needed(self):
        refused = self.run_tool("serve", "--listen", "0.0.0.0:0")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--token-file", refused.stderr)
        readable = self.run_tool("serve", "--token-file", self.token_file(mode=0o644))
        self.assertEqual(readable.returncode, 3)
        self.assertIn("chmod 600", readable.stderr)
        short = self.run_tool("serve", "--token-file", self.token_file("abc\n"))
        self.assertEqual(short.returncode, 2)
        self.assertIn("not a token", short.stderr)
        missing = self.run_tool("serve", "--token-file", self.folder + "/missing")
        self.assertEqual(missing.returncode, 3)
        server = self.serve("--token-file", self.token_file(), listen="0.0.0.0:0")
        self.assertTrue(server.address.startswith("0.0.0.0:"))

    def test_bad_addresses_are_named(self):
        for address, code, text in (("nonsense", 2, "not an address"), ("127.0.0.1:99999", 2, "not an address"),
                                    ("unix:", 2, "not a valid path"), ("unix:/nowhere/x", 3, "cannot listen")):
            refused = self.run_tool("serve", "--listen", address)
            self.assertIn(text, refused.stderr)
            self.assertEqual(refused.returncode, code, refused.stderr)
        server = self.serve()
        taken = self.run_tool("serve", "--listen", server.address)
        self.assertEqual(taken.returncode, 3)
        self.assertIn("already in use", taken.stderr)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tls(self):
        certificate, key = self.folder + "/cert.pem", self.folder + "/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key,
                        "-out", certificate], check=True, capture_output=True)
        server = self.serve("--cert", certificate, "--key", key)
        self.assertIn("listening on https://", server.said[0])
        host, port = server.address.split(":")
        context = ssl.create_default_context(cafile=certificate)
        with socket.create_connection((host, int(port)), PATIENCE) as plain, context.wrap_socket(plain, server_hostname="localhost") as wrapped:
            wrapped.sendall(b"GET /debug/pprof/cmdline HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            got = b""
            while chunk := wrapped.recv(4096):
                got += chunk
        self.assertTrue(got.startswith(b"HTTP/1.1 200 OK"), got)
        wrong = self.run_tool("serve", "--listen", "127.0.0.1:0", "--cert", certificate, "--key", certificate)
        self.assertEqual(wrong.returncode, 3)
        self.assertIn("private key", wrong.stderr)

    def test_a_unix_socket_is_for_this_user(self):
        path = self.folder + "/socket"
        server = self.serve(listen="unix:" + path)
        self.assertEqual(server.said[0], "listening on unix:" + path)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(self.get(server, HEAP).status, 200)
        second = self.run_tool("serve", "--listen", "unix:" + path)
        self.assertEqual(second.returncode, 3)
        self.assertEqual(self.get(server, HEAP).status, 200)
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(path))
        # One that was killed leaves its socket behind: the next takes its place. No other file is replaced.
        killed = self.serve(listen="unix:" + path)
        killed.stop(9)
        self.assertTrue(os.path.exists(path))
        self.assertEqual(self.get(self.serve(listen="unix:" + path), HEAP).status, 200)
        with open(path + ".file", "w") as file:
            file.write("mine")
        self.assertEqual(self.run_tool("serve", "--listen", "unix:" + path + ".file").returncode, 3)
        with open(path + ".file") as file:
            self.assertEqual(file.read(), "mine")

    def test_it_ends_when_asked_to_also_while_somebody_waits(self):
        server = self.serve()
        client = self.connect(server)
        client.sendall(b"GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(server.stop(), 0)
        client.close()

    def test_it_ends_when_asked_to_also_while_it_searches_for_holders(self):
        program = self.start()
        program.map_zeros()
        server = self.serve()
        before = self.cpu_of_ended_children()
        self.assertEqual(self.get(server, "/p/%d/holders" % program.pid, method="POST").status, 202)
        self.assertEqual(server.stop(signal.SIGINT), 0)
        # To read 64 GiB takes more than 5 s of CPU. Without huge pages there is less to read.
        self.assertLess(self.cpu_of_ended_children() - before, 2)

    # ---- Bounds ----

    def connect(self, server):
        host, port = server.address.split(":")
        client = socket.create_connection((host, int(port)), PATIENCE)
        client.settimeout(PATIENCE)
        self.addCleanup(client.close)
        return client

    def send_raw(self, server, data):
        """What comes back until the server closes."""
        client = self.connect(server)
        got = b""
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while chunk := client.recv(65536):
                got += chunk
        except TimeoutError:
            raise
        except OSError:  # the server may close at any moment, also between two of these calls
            pass
        client.close()
        return got

    def test_huge_requests_are_refused(self):
        server = self.serve()
        for request in (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
                        b"POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
                        b"POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n" + b"1+" * 1_500_000,
                        b"POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                        + b"ffff\r\n" + b"1" * 0xFFFF + b"\r\n" + b"ffff\r\n" + b"1" * 0xFFFF + b"\r\n" * 1):
            got = self.send_raw(server, request)
            self.assertFalse(got.startswith(b"HTTP/1.1 200"), (request[:60], got[:200]))
            self.assertEqual(self.get(server, HEAP).status, 200)
        words = b"+".join([b"0x1234"] * 100_000)  # below the bound
        self.assertEqual(self.get(server, "/debug/pprof/symbol", method="POST", body=words).status, 200)

    def test_malformed_requests_are_refused(self):
        server = self.serve()
        for request in (b"\r\n\r\n\r\n", b"\0" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"):
            got = self.send_raw(server, request)
            self.assertFalse(got.startswith(b"HTTP/1.1 200"), (request, got[:200]))
        self.assertEqual(self.get(server, HEAP).status, 200)

    def test_no_bytes_end_it(self):
        """Requests with parts cut, doubled and changed at random."""
        server = self.serve()
        made_by = random.Random(16)
        whole = b"GET /p/1/debug/pprof/heap?seconds=x&debug=1&pid=%31 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic eDp5\r\n\r\n"
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(made_by.randrange(1, 12)):
                at = made_by.randrange(len(data))
                what = made_by.randrange(4)
                if what == 0:
                    data[at] = made_by.randrange(256)
                elif what == 1:
                    del data[at : at + made_by.randrange(1, 20)]
                elif what == 2:
                    data[at:at] = data[made_by.randrange(len(data)) :][: made_by.randrange(1, 40)]
                else:
                    data[at:at] = bytes(made_by.randrange(256) for _ in range(made_by.randrange(1, 8)))
                if not data:
                    data = bytearray(b"G")
            self.send_raw(server, bytes(data))
        self.assertIsNone(server.process.poll())
        self.assertEqual(self.get(server, HEAP).status, 200)

    def test_slow_clients_are_let_go(self):
        server = self.serve()
        # More than it takes at once, none of which says anything, and one that sends a byte now and then.
        idle = [self.connect(server) for _ in range(MOST_CONNECTIONS + 10)]
        dripping = idle[0]
        stop = threading.Event()

        def drip():
            while not stop.wait(0.5):
                try:
                    dripping.sendall(b"x")
                except OSError:
                    return

        dripper = threading.Thread(target=drip)
        dripper.start()
        try:
            def answered():
                try:
                    return self.get(server, HEAP).status == 200
                except OSError:
                    return False

            eventually(answered, "a request is answered once the others were let go")
            for client in idle:
                try:
                    while client.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
        finally:
            stop.set()
            dripper.join(PATIENCE)

    def test_a_client_that_goes_frees_its_place(self):
        server = self.serve()
        for _ in range(3):
            waiting = [self.connect(server) for _ in range(MOST_CONNECTIONS // 2)]
            for client in waiting:
                client.sendall(b"GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for client in waiting:
                client.close()
        eventually(lambda: self.threads(server) <= 4, "no thread waits for a client that has gone")
        self.assertEqual(self.get(server, HEAP).status, 200)

    def test_who_waits_long_locks_nobody_out(self):
        server = self.serve()
        waiting = [self.connect(server) for _ in range(MOST_CONNECTIONS)]
        for client in waiting:
            client.sendall(b"GET /debug/pprof/heap?seconds=1000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        poller = select.poll()
        for client in waiting:
            poller.register(client, select.POLLIN)
        refused = set()
        eventually(lambda: refused.update(fd for fd, _ in poller.poll(100)) or len(refused) == MOST_CONNECTIONS - MOST_WAITING, "some are refused")
        for client in waiting:
            if client.fileno() in refused:
                head = client.makefile("rb").read()  # to its end: the connection is closed
                self.assertTrue(head.startswith(b"HTTP/1.1 503 "), head)
                self.assertIn(b"\r\nRetry-After: 10\r\n", head)
        self.assertEqual(self.get(server, HEAP).status, 200)
        self.assertEqual(self.get(server, "/metrics").status, 200)
        self.assertEqual(self.get(server, HEAP + "?seconds=1").status, 503)
        self.assertEqual(len(refused), MOST_CONNECTIONS - MOST_WAITING)

    @staticmethod
    def threads(server):
        return len(os.listdir("/proc/%d/task" % server.process.pid))


if __name__ == "__main__":
    unittest.main()
