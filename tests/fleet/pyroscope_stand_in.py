"""A server that checks what Pyroscope checks of what is pushed, and keeps what it takes. Shares no code with what sends.

    server = StandIn(test)                 an address on loopback
    server.total("memory", "alloc_space", leaf="step_allocates", service_name="shop")
    server.fail = reply(503)               each request until it is None again; also slow(…), reset()
    server.refuses = lambda series: …      of a request those series, as Pyroscope 2 does with its own errors: the others are kept

OTLP's profiles it takes, too, as the profiling SIG's profcheck would: otlp_profiles.py.
The rules are those of its sources (validation, distributor, pprof, 2.2): mandatory labels, their number, names and lengths; the
window of time; sizes uncompressed; samples; ids, strings, UTF-8. Like it, it drops numeric labels, zero and negative samples.
Times of a series must not go back, as ingesters of 1.0 have it, also within a request: they handle its profiles in turn.
"""
import gzip
import http.server
import json
import re
import ssl
import struct
import socket
import threading
import time
import urllib.parse

import otlp_profiles
from pprof_reader import Profile, grouped

MIB = 1 << 20
LAST_FIELD_AT_INGEST = 14  # of pprof's Profile; 1.0 reads there no more than it knows


class Invalid(Exception):
    """400, with Connect's code."""


class Kept:
    def __init__(self, family, labels, profile, profile_id):
        self.family, self.labels, self.profile, self.id = family, labels, profile, profile_id


def check_labels(labels):
    names = [name for name, _ in labels]
    if len(names) > 30:
        raise Invalid("profile series has %d label names; limit 30" % len(names))
    if len(set(names)) != len(names):
        raise Invalid("duplicate label name")
    values = dict(labels)
    if not values.get("__name__"):
        raise Invalid("invalid metric name")
    if not values.get("service_name"):
        raise Invalid("service name is not provided")
    for name, value in labels:
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.]*", name) or len(name) > 1024:
            raise Invalid("invalid label name %r" % name)
        if len(value.encode()) > 2048:
            raise Invalid("label value too long: %r" % name)


def check_profile(raw, max_samples):
    data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    if len(data) > 4 * MIB:
        raise Invalid("uncompressed profile payload size exceeds limit of 4 MiB")
    try:
        profile = Profile(data, gzipped=False)
    except (AssertionError, ValueError, KeyError, IndexError) as error:
        raise Invalid("malformed profile: %r" % error)
    now = time.time_ns()
    if profile.time_nanos and not now - 3600 * 10**9 < profile.time_nanos < now + 600 * 10**9:
        raise Invalid("profile is outside of ingestion window")
    if not profile.types or any("-" in kind for kind in profile.types):
        raise Invalid("sample types %r" % profile.types)
    if len(profile.samples) > max_samples:
        raise Invalid("exceeds the samples count limit (%d)" % len(profile.samples))
    for sample in profile.samples:
        sample.labels = {key: value for key, value in sample.labels.items() if isinstance(value, str)}
        if len(sample.labels) > 100:
            raise Invalid("exceeds the sample labels limit")
    profile.samples = [one for one in profile.samples if any(one.values) and min(one.values) >= 0]
    return profile


def connect_error(code, message):
    return json.dumps({"code": code, "message": message}).encode()


def reply(status, text=b"", headers={}):
    """Answers so, and keeps nothing."""
    return lambda handler: handler.answer(status, text, headers)


def reset():
    """Reads the request, and resets the connection."""

    def act(handler):
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.connection.close()

    return act


class StandIn:
    def __init__(self, test, port=0, tls=None, check_authorization=None, max_samples=16000, tenants=False, flushes=0, drops_copies=False):
        """`tenants`: whether they are needed, or which one is known. `flushes`: so many seconds apart; an answer waits for one.
        `drops_copies`: what was sent again, since 1.0 refused a request after it had kept some of it, counts once as it does there."""
        self.drops_copies = drops_copies
        self.fail, self.kept, self.refused, self.failures, self.asked = None, [], [], 0, []
        self.errors = []  # of its own: requests that it did not understand
        self.bodies, self.otlp_answer, self.otlp_orphans = [], b"", True
        self.lock = threading.Lock()
        self.last_times, self.refuses = {}, None
        self.under_way = self.most_under_way = 0
        self.check_authorization, self.max_samples, self.tenants = check_authorization, max_samples, tenants
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body=b"", headers={}):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.body = body = self.rfile.read(int(self.headers["Content-Length"]))
                if server.thread is None:  # stopped, but for connections that were open
                    return reset()(self)
                server.asked.append((self.path, self.headers))
                fail = server.fail
                if fail is not None:
                    with server.lock:
                        server.failures += 1
                    return fail(self)
                if server.check_authorization is not None and not server.check_authorization(self.headers.get("Authorization", "")):
                    return self.answer(401, connect_error("unauthenticated", "no credentials"))
                tenant = self.headers.get("X-Scope-OrgID")
                if server.tenants and (not tenant or server.tenants not in (True, tenant)):
                    return self.answer(401, connect_error("unauthenticated", "no org id"))
                with server.lock:
                    server.under_way += 1
                    server.most_under_way = max(server.most_under_way, server.under_way)
                try:
                    self.take(body)
                finally:
                    with server.lock:
                        server.under_way -= 1

            def take(self, body):
                try:
                    if self.path == "/push.v1.PusherService/Push":
                        if self.headers["Content-Type"] != "application/proto":
                            return self.answer(415)
                        if self.headers.get("Content-Encoding", "identity") == "gzip":
                            body = gzip.decompress(body)
                        errors = server.take_push(body)
                        if flushes:
                            time.sleep(flushes - time.monotonic() % flushes)
                        if errors:
                            text = ("%d errors: " % len(errors) if len(errors) > 1 else "") + "; ".join(errors)
                            return self.answer(500, connect_error("unknown", text), {"Content-Type": "application/json"})
                        return self.answer(200, b"", {"Content-Type": "application/proto"})
                    if self.path == "/v1development/profiles":
                        if self.headers["Content-Type"] != "application/x-protobuf":
                            return self.answer(415)
                        if self.headers.get("Content-Encoding", "identity") == "gzip":
                            body = gzip.decompress(body)
                        server.take_otlp(body)
                        return self.answer(200, server.otlp_answer, {"Content-Type": "application/x-protobuf"})
                    if self.path.startswith("/ingest?"):
                        server.take_ingest(urllib.parse.urlsplit(self.path).query, self.headers["Content-Type"], body)
                        return self.answer(200)
                    return self.answer(404, b"404 page not found\n")
                except Invalid as error:
                    with server.lock:
                        server.refused.append(str(error))
                    return self.answer(400, connect_error("invalid_argument", str(error)))
                except ConnectionError:
                    raise
                except Exception as error:
                    with server.lock:
                        server.errors.append(repr(error))
                    return self.answer(500, repr(error).encode())

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # of connections that a test cut
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = "%s://127.0.0.1:%d" % ("https" if tls else "http", self.port)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        test.addCleanup(self.stop)

    def stop(self):
        thread, self.thread = self.thread, None
        if thread is not None:
            self.server.shutdown()
            thread.join()
            self.server.server_close()

    def take_push(self, body):
        try:
            message = grouped(body)
        except (IndexError, ValueError) as error:
            raise Invalid("cannot parse: %r" % error)
        if not message.get(1):
            raise Invalid("no profiles received")
        errors = []
        for index, series in enumerate(message[1]):
            series = grouped(series)
            labels = []
            for pair in series.get(1, []):
                pair = grouped(pair)
                labels.append((pair.get(1, [b""])[0].decode(), pair.get(2, [b""])[0].decode()))
            check_labels(labels)
            if len(series.get(2, [])) != 1:
                raise Invalid("a series with several profiles: %r" % labels)
            if self.refuses is not None and self.refuses(dict(labels)):
                errors.append("push series with index %d and id %s failed: no segment writer" % (index, grouped(series[2][0])[2][0].decode()))
                continue
            if dict(labels).get("__delta__") != "false":  # Pyroscope 1 takes it, and subtracts the largest before
                raise Invalid("alloc_* would be taken for totals since the start")
            for sample in series.get(2, []):
                sample = grouped(sample)
                profile = check_profile(sample[1][0], self.max_samples)
                for one in profile.samples:  # a series of its own
                    check_labels(sorted({**one.labels, **dict(labels)}.items()))
                labels_by_name = {name: value for name, value in labels if name != "__delta__"}
                self.check_order(labels_by_name, profile)
                with self.lock:
                    self.kept.append(Kept(labels_by_name.pop("__name__"), labels_by_name, profile, sample.get(2, [b""])[0].decode()))

        return errors

    def check_order(self, labels, profile, time_nanos=None):
        """`time_nanos`: as /ingest has it."""
        key, time_nanos = tuple(sorted(labels.items())), time_nanos or profile.time_nanos
        with self.lock:
            if time_nanos < self.last_times.get(key, 0):
                text = lambda nanos: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(nanos // 10**9)) + (".%09d" % (nanos % 10**9)).rstrip("0").rstrip(".") + " +0000 UTC"
                series = "{%s}" % ", ".join('%s="%s"' % pair for pair in key)
                raise Invalid("profile for series %s out of order (received %s last %s)" % (series, text(time_nanos), text(self.last_times[key])))
            self.last_times[key] = time_nanos

    def take_otlp(self, body):
        with self.lock:
            self.bodies.append(body)
        try:
            found = otlp_profiles.checked(body, self.otlp_orphans)
        except (otlp_profiles.Wrong, IndexError, ValueError, KeyError) as error:
            raise Invalid("malformed profiles: %r" % error)
        if self.otlp_answer:
            return
        with self.lock:
            for family, attributes, profile, profile_id in found:
                labels = {otlp_profiles.LABELS.get(name, name): str(value) for name, value in attributes.items()}
                self.kept.append(Kept(family, labels, profile, profile_id))

    def take_ingest(self, query, content_type, body):
        fields = urllib.parse.parse_qs(query, strict_parsing=True)
        if "format" in fields:
            raise Invalid("format= on a multipart request")
        if int(fields["from"][0]) > int(fields["until"][0]):
            raise Invalid("from is after until")
        name = re.fullmatch(r"([^{]+)\{(.*)\}", fields["name"][0])
        labels = dict(pair.split("=", 1) for pair in name.group(2).split(",") if pair)
        labels["service_name"] = name.group(1)
        parts = {}
        for part in body.split(b"--" + content_type.split("boundary=")[1].encode())[1:-1]:
            head, content = part[2:-2].split(b"\r\n\r\n", 1)
            parts[re.search(rb'name="([^"]*)"', head).group(1).decode()] = content
        types = json.loads(parts["sample_type_config"])
        if max(grouped(gzip.decompress(parts["profile"]))) > LAST_FIELD_AT_INGEST:
            raise Invalid("proto: unknown field")
        profile = check_profile(parts["profile"], self.max_samples)
        columns = [kind.split("/")[0] for kind in profile.types]
        if set(columns) != set(types) or any(one.get("cumulative") for one in types.values()):
            raise Invalid("sample types %r of a profile of %r" % (types, columns))
        names = [types[kind].get("display-name", kind) for kind in columns]
        known = {"alloc_": "memory", "inuse_": "memory", "mutex_": "mutex", "block_": "block"}
        family = next((known[part] for name in names for part in known if part in name), names[-1])
        self.check_order({"__name__": family, **labels}, profile, int(fields["from"][0]))
        with self.lock:
            self.kept.append(Kept(family, labels, profile, ""))

    def of(self, family, **labels):
        with self.lock:
            return [one for one in self.kept if one.family == family and all(one.labels.get(k) == v for k, v in labels.items())]

    def total(self, family, column, leaf=None, **labels):
        found = self.of(family, **labels)
        if self.drops_copies:
            found = {(tuple(sorted(one.labels.items())), one.profile.time_nanos): one for one in found}.values()
        return sum(one.profile.sum(column, leaf=leaf) for one in found)

    def newest(self, family, column, leaf=None, **labels):
        """Of what is in use: as the last profile has it."""
        found = self.of(family, **labels)
        return max(found, key=lambda one: one.profile.time_nanos).profile.sum(column, leaf=leaf) if found else None
