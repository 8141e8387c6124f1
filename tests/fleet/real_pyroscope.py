"""A real Pyroscope, as scripts/servers builds it: in one process, or as several; and what its query API says. FLEET_SERVERS names
another folder of servers: a Pyroscope 2 there runs in one process only.

    server = Pyroscope(test)                                one process, all of its parts
    cluster = Cluster(test)                                 a distributor, three ingesters that each get everything, a querier
    server.ask(TYPE, '{service_name="shop"}', begin, end)   a Profile: what SelectMergeProfile gives; None where it has none
"""
import functools
import http.client
import os
import signal
import subprocess
import time

from fleet import PATIENCE, Server, eventually, servers_tool
from pprof_reader import Profile

# By kind of file: family, type, unit, and the type and unit of the period, as Pyroscope names them.
COUNTERS = {
    "heap": [("memory", "alloc_objects", "count", "space", "bytes"), ("memory", "alloc_space", "bytes", "space", "bytes")],
    "block": [("block", "contentions", "count", "contentions", "count"), ("block", "delay", "nanoseconds", "contentions", "count")],
    "mutex": [("mutex", "contentions", "count", "contentions", "count"), ("mutex", "delay", "nanoseconds", "contentions", "count")],
}
IN_USE = [("memory", "inuse_objects", "count", "space", "bytes"), ("memory", "inuse_space", "bytes", "space", "bytes")]


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


@functools.lru_cache
def is_version_2():
    """Profiles go to segment writers, and are answered when a segment is written."""
    ran = subprocess.run([servers_tool("pyroscope"), "-help-all"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return b"-segment-writer.segment-duration" in ran.stdout


class Pyroscope(Server):
    def __init__(self, test, target="all", name="pyroscope", options=(), ingesters=1):
        self.ingesters = ingesters
        if is_version_2() and target != "all":
            test.skipTest("Pyroscope 2 is run in one process")
        self.folder = os.path.join(test.folder, name)
        os.makedirs(self.folder, exist_ok=True)
        port, grpc, self.gossip = self.free_port(), self.free_port(), self.free_port()
        arguments = ["-target=" + target, "-server.http-listen-address=127.0.0.1", "-server.http-listen-port=%d" % port]
        arguments += ["-server.grpc-listen-address=127.0.0.1", "-server.grpc-listen-port=%d" % grpc]
        arguments += ["-memberlist.bind-addr=127.0.0.1", "-memberlist.advertise-addr=127.0.0.1", "-memberlist.bind-port=%d" % self.gossip]
        arguments += ["-memberlist.advertise-port=%d" % self.gossip]
        arguments += ["-pyroscopedb.data-path=" + self.folder, "-self-profiling.disable-push=true", "-log.level=warn"]
        arguments += ["-usage-stats.enabled=false", "-memberlist.nodename=" + name]
        arguments += ["-%s.ring.instance-addr=127.0.0.1" % ring for ring in ("distributor", "overrides-exporter", "query-scheduler")]
        arguments += ["-ingester.lifecycler.addr=127.0.0.1", "-ingester.lifecycler.ID=" + name, "-store-gateway.sharding-ring.instance-addr=127.0.0.1"]
        arguments += ["-ingester.lifecycler.port=%d" % port, "-distributor.ring.instance-port=%d" % port]
        arguments += ["-query-frontend.instance-addr=127.0.0.1", "-ingester.min-ready-duration=0s", *options]
        if is_version_2():
            raft, all_grpc = "127.0.0.1:%d" % self.free_port(), "127.0.0.1:%d" % grpc
            arguments += ["-architecture.storage=v2", "-write-path=segment-writer", "-config.show_banner=false"]
            arguments += ["-storage.backend=filesystem", "-storage.filesystem.dir=" + self.folder + "/shared"]
            arguments += ["-metastore.address=" + all_grpc, "-query-backend.address=" + all_grpc, "-metastore.min-ready-duration=0s"]
            arguments += ["-metastore.raft.%s=%s" % (what, raft) for what in ("server-id", "bind-address", "advertise-address")]
            arguments += ["-metastore.data-dir=" + self.folder + "/metastore", "-metastore.raft.dir=" + self.folder + "/raft"]
            arguments += ["-metastore.raft.snapshots-dir=" + self.folder + "/snapshots", "-compaction-worker.temp-dir=" + self.folder]
            arguments += ["-segment-writer.lifecycler.addr=127.0.0.1", "-segment-writer.min-ready-duration=0s"]
        super().__init__(test, [servers_tool("pyroscope"), *arguments], port)
        self.url = "http://127.0.0.1:%d" % port

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def post(self, path, body, content_type):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("POST", path, body=body, headers={"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ready(self):
        """It takes profiles, or would answer what it is asked: it knows the ingesters, which is not at once."""
        return self.get("/ready")[0] == 200 and (is_version_2() or self.get("/ring")[1].count("ACTIVE") >= self.ingesters)

    def begin(self):
        """Again, after kill() or end(), and until it takes profiles."""
        self.start()
        eventually(self.ready, "it is ready again")

    def end(self):
        """As an administrator ends it: it writes down what it has."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.process = None

    def ask(self, kind, selector, start_s, end_s):
        """The merged profile of one type; None where it has none, or cannot say now: an ingester was just killed."""
        body = field(1, ":".join(kind).encode()) + field(2, selector.encode()) + field(3, int(start_s * 1000)) + field(4, int(end_s * 1000))
        try:
            status, data = self.post("/querier.v1.QuerierService/SelectMergeProfile", body, "application/proto")
        except OSError:
            return None
        assert status in (200, 500, 503), data
        profile = Profile(data, gzipped=False) if data and status == 200 else None
        return profile if profile is not None and profile.samples else None

    def newest(self, kind, selector, start_s):
        """Of what is in use: the last profile alone."""
        low, high = int(start_s * 1000), int((time.time() + 60) * 1000)
        if self.ask(kind, selector, low / 1000, high / 1000) is None:
            return None
        end = high
        while high - low > 1:  # there is something from `low` on, nothing from `high` on
            middle = (low + high) // 2
            if self.ask(kind, selector, middle / 1000, end / 1000) is None:
                high = middle
            else:
                low = middle
        return self.ask(kind, selector, low / 1000, end / 1000)


class Cluster:
    def __init__(self, test):
        options = ["-distributor.replication-factor=3", "-ingester.heartbeat-period=500ms", "-ingester.heartbeat-timeout=3s"]
        # As several processes it wants to be told of a store for blocks; it goes there after an hour, and nobody answers.
        options += ["-storage.backend=s3", "-storage.s3.endpoint=127.0.0.1:%d" % Server.free_port(), "-storage.s3.bucket-name=none"]
        options += ["-storage.s3.access-key-id=none", "-storage.s3.secret-access-key=none", "-storage.s3.insecure=true", "-storage.s3.region=none"]
        self.ingesters = []
        for number in range(3):
            join = ["-memberlist.join=127.0.0.1:%d" % one.gossip for one in self.ingesters[:1]]
            self.ingesters.append(Pyroscope(test, "ingester", "ingester-%d" % number, options + join, ingesters=0))
        join = ["-memberlist.join=127.0.0.1:%d" % one.gossip for one in self.ingesters]
        self.distributor = Pyroscope(test, "distributor", "distributor", options + join, ingesters=3)
        self.querier = Pyroscope(test, "querier", "querier", options + join, ingesters=3)
        for one in (*self.ingesters, self.distributor, self.querier):
            eventually(one.ready, "it is ready")
        self.url, self.ask, self.newest = self.distributor.url, self.querier.ask, self.querier.newest
