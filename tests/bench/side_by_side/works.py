"""What is run: small patterns (tests/bench/micro.cc) and whole programs. A run gives a dictionary of measures:
ns (per operation), together_over_alone (how many times more beside a second thread), seconds, cpu (seconds),
throughput (operations a second), memory (peak resident KiB), bytes (written)."""

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time


class Failed(Exception):
    pass


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names)


def environment(configuration, folder, more=()):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HOLDFAST_", "LD_PRELOAD", "MALLOC_", "HEAP"))}
    return {**kept, **dict(more), **configuration.environment_in(folder)}


def run_program(configuration, folder, command, more=()):
    """A program from start to end: its own time and memory, and those of the children it waited for."""
    begin = time.monotonic()
    with open(os.path.join(folder, ".log"), "w+b") as log:
        process = subprocess.Popen(configuration.prefix_in(folder) + command, env=environment(configuration, folder, more),
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        log.seek(0)
        output = log.read().decode(errors="replace")
    if process.returncode != 0:
        raise Failed(f"{command[0]} ended with {process.returncode}: {output[-300:].strip()}")
    os.remove(os.path.join(folder, ".log"))
    return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss, "output": output}


class Work:
    """name; main: the measure that its rows show first."""

    def __init__(self, name, main):
        self.name, self.main = name, main


class Micro(Work):
    def __init__(self, build, name, pattern, seconds):
        super().__init__(name, "ns")
        self.command = [os.path.join(build, "tests/bench/micro"), pattern, str(seconds)]

    def run(self, configuration, folder):
        got = run_program(configuration, folder, self.command, {"HOLDFAST_MAX_MEMORY": "256MiB"}.items())
        # heaptrack talks before and after.
        figures = [line.split() for line in got["output"].splitlines() if line.replace(".", "").replace(" ", "").isdigit()]
        if not figures:
            raise Failed(f"micro said nothing: {got['output'][-200:]}")
        ns, _, *together_over_alone = map(float, figures[-1])
        return {"ns": ns, "memory": got["memory"], **({"together_over_alone": together_over_alone[0]} if together_over_alone else {})}


class Program(Work):
    """A program that runs from start to end. `command` as for callgrind, too."""

    def __init__(self, name, command, more=()):
        super().__init__(name, "cpu")
        self.command, self.more = command, dict(more)

    def run(self, configuration, folder):
        got = run_program(configuration, folder, self.command, self.more.items())
        got.pop("output")
        return {**got, "bytes": folder_bytes(folder)}


@contextlib.contextmanager
def running(command, variables, folder, path):
    """A server, from its first answer on. Whoever asks for it tells it to end."""
    with open(os.path.join(folder, ".log"), "wb") as log:
        process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True)
    try:
        wait_for(path, process)
        yield process
        process.wait(timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Server(Work):
    """A server under a load of a fixed number of operations: its own CPU time, not the load's."""

    def __init__(self, name, program, load, process_id):
        super().__init__(name, "cpu")
        self.program, self.load, self.process_id = program, load, process_id

    def run(self, configuration, folder):
        path = os.path.join(folder, "s")
        with running(configuration.prefix_in(folder) + self.program(path), environment(configuration, folder), folder, path):
            pid = self.process_id(path, folder)
            before = cpu_seconds(pid)
            begin = time.monotonic()
            operations = self.load(path)
            seconds = time.monotonic() - begin
            measures = {"seconds": seconds, "cpu": cpu_seconds(pid) - before, "throughput": operations / seconds, "memory": peak_kib(pid)}
            os.kill(pid, signal.SIGTERM)
        for name in ("s", ".log", "pid"):
            if os.path.lexists(os.path.join(folder, name)):
                os.remove(os.path.join(folder, name))
        return {**measures, "bytes": folder_bytes(folder)}


def wait_for(path, process):
    for _ in range(1500):
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
                return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.02)
    raise Failed("the server does not answer")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def checked(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def redis(name, operations, pipeline, server="/usr/bin/redis-server"):
    def program(path):
        return [server, "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"]

    def load(path):
        checked(["redis-benchmark", "-s", path, "-t", "set,get,lpush,hset", "-n", str(operations), "-r", "100000", "-d", "200", "-c", "20",
                 "-P", str(pipeline), "-q"])
        return 4 * operations

    def process_id(path, folder):
        return int(next(line for line in checked(["redis-cli", "-s", path, "info", "server"]).split() if line.startswith("process_id:"))[11:])

    return Server(name, program, load, process_id)


def memcached(build, batches, connections=8):
    def program(path):
        return ["/usr/bin/memcached", "-u", "root" if os.getuid() == 0 else str(os.getuid()), "-s", path, "-m", "256", "-t", "4", "-P", os.path.join(os.path.dirname(path), "pid")]

    def load(path):
        return float(checked([os.path.join(build, "tests/bench/memcached_load"), path, str(connections), str(batches)]).split()[1])

    def process_id(path, folder):
        for _ in range(500):  # written a moment after the socket is there
            try:
                with open(os.path.join(folder, "pid")) as pid:
                    return int(pid.read())
            except (OSError, ValueError):
                time.sleep(0.02)
        raise Failed("memcached wrote no pid file")

    return Server("memcached", program, load, process_id)


# ---- What the programs chew on ----

def write_sql(path, rows):
    numbers = random.Random(1)
    with open(path, "w") as sql:
        sql.write("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, amount REAL, note TEXT);\nBEGIN;\n")
        for i in range(rows):
            sql.write(f"INSERT INTO t VALUES({i}, 'name{numbers.randrange(rows)}', {numbers.random():.6f}, '{'n' * numbers.randrange(10, 90)}');\n")
        sql.write("COMMIT;\nCREATE INDEX by_name ON t(name);\n")
        for i in range(rows // 5):
            sql.write(f"SELECT id, amount FROM t WHERE name = 'name{numbers.randrange(rows)}' ORDER BY amount;\n")
        for i in range(10):
            sql.write("SELECT substr(name, 1, 6) AS p, count(*), sum(amount), group_concat(id) FROM t GROUP BY p ORDER BY p;\n")
    return path


PYTHON = """
import json
words = {}
for i in range(%d):
    text = "key%%d" %% (i %% 5000)
    words.setdefault(text, []).append({"number": i, "text": text * 3, "pair": (i, str(i))})
    if i %% 50000 == 49999:
        json.loads(json.dumps(words))
        words = {}
"""

CXX = """#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>
"""


def write_cxx(path, functions):
    with open(path, "w") as source:
        source.write(CXX)
        for i in range(functions):
            source.write(f"""struct Item{i} {{ std::string name; std::vector<std::map<int, std::shared_ptr<Item{i}>>> parts; }};
std::string Show{i}(const Item{i}& item) {{
  std::unordered_map<std::string, std::variant<int, std::string>> seen;
  std::ostringstream out;
  for (const auto& part : item.parts)
    for (const auto& [key, value] : part) if (seen.emplace(value->name, key).second) out << key << value->name;
  return out.str();
}}
""")
    # Preprocessed, as the compiler proper is run without its driver (heaptrack does not follow it into children).
    subprocess.run(["g++", "-std=c++17", "-E", path, "-o", path + ".ii"], check=True)
    return path + ".ii"


def micro_works(build, quick):
    seconds = 0.1 if quick else 0.15
    patterns = [("malloc + free", "pair"), ("malloc + free, 2 threads", "pair.2"), ("new + delete", "new"),
                ("ring of 1,000", "ring.1000"), ("ring of 1,000, 2 threads", "ring.1000.2"),
                ("ring of 100,000", "ring.100000"), ("ring of 100,000, 2 threads", "ring.100000.2"),
                ("ring, 1k live samples", "live.1000"), ("ring, 100k live samples", "live.100000"), ("ring, 1M live samples", "live.1000000")]
    return [Micro(build, name, pattern, seconds * (2 if name.endswith("2 threads") else 1)) for name, pattern in patterns]


LIVE = ("ring, 1k live samples", [("ring, 100k live samples", 1.05), ("ring, 1M live samples", 1.1)])
# Of which it is also measured what the second thread does to the cost.
FLAT = ["malloc + free, 2 threads", "ring of 1,000, 2 threads", "ring of 100,000, 2 threads", "uncontended lock, 2 threads"]


def lock_works(build, quick):
    """Uncontended, contended, handed over."""
    seconds = 0.1 if quick else 0.2
    free = [Micro(build, "uncontended lock", "lock", seconds), Micro(build, "uncontended lock, 2 threads", "lock.2", 1.5 * seconds)]
    contended = [Micro(build, f"contended, {threads} threads, {hold:,} ns", f"contended.{hold}.{threads}", seconds)
                 for threads in (2, 4) for hold in (20, 200, 1000)]
    handed = [Micro(build, f"handed over after {hold:,} us", f"handoff.{hold}", 2 * seconds) for hold in (50, 1000)]
    return free, contended, handed


def program_works(build, inputs, quick):
    small = 3 if quick else 1
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True).stdout.strip()
    sql = write_sql(os.path.join(inputs, "script.sql"), 120_000 // small)
    cxx = write_cxx(os.path.join(inputs, "large.cc"), 9 // small)
    redis_operations = 200_000 // small
    return [
        Program("sqlite3", ["/usr/bin/sqlite3", ":memory:", "-cmd", ".output /dev/null", f".read {sql}"]),
        Program("python3", ["/usr/bin/python3", "-S", "-s", "-c", PYTHON % (300_000 // small)], {"PYTHONMALLOC": "malloc"}),
        Program("g++", [cc1plus, "-fpreprocessed", "-quiet", "-O1", "-std=c++17", cxx, "-o", "/dev/null"]),
        redis("redis", redis_operations // 8, 1),
        redis("redis, pipelined", redis_operations, 16),
        memcached(build, 1000 // small),
    ]


def allocating_works(build, quick):
    """Nothing but allocations: what every one of them costs where all are recorded."""
    small = 5 if quick else 1

    def work(name, program, *arguments, **variables):
        return Program(name, [os.path.join(build, "tests/programs", program), *map(str, arguments)], variables)

    return [
        work("a loop below 32 frames", "deep_loop", 10_000_000 // small),
        work("the same with new and delete", "deep_loop", 10_000_000 // small, "new"),
        work("maps and strings", "maps_and_strings", 1, 1_000_000 // small),
        work("maps and strings, 4 threads", "maps_and_strings", 4, 300_000 // small),
        work("random call trees", "random_trees", 1_000_000 // small),
        work("random call trees, none in [overflow]", "random_trees", 1_000_000 // small, HOLDFAST_MAX_MEMORY="1GiB"),
    ]


class Store(Server):
    """tests/bench/store_server.cc under memcached's load."""

    def __init__(self, name, server, load):
        def process_id(path, folder):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
                return struct.unpack("iii", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

        super().__init__(name, lambda path: [server, path], load, process_id)


# Each has its allocator linked in, so that no other one can be put before it, and perhaps profilers of its own. What
# their columns are called: one that samples, and one that hooks each call.
OWN, HOOKS = "allocator's own", "own hooks"


def bundled_redis(build):
    """Upstream's redis with its bundled jemalloc, which has jemalloc's profiler; None: it could not be built."""
    folder = os.path.join(build, "bench/redis")
    server = os.path.join(folder, "redis-server")
    if os.access(server, os.X_OK):
        return server
    os.makedirs(folder, exist_ok=True)
    # The machine's own sources, as sources of source packages.
    script = """set -e
        mkdir -p apt/parts apt/lists/partial
        cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >apt/sources.list
        for file in /etc/apt/sources.list.d/*.sources; do
          [ ! -r "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"apt/parts/${file##*/}"
        done
        options="-o Dir::Etc::sourcelist=$PWD/apt/sources.list -o Dir::Etc::sourceparts=$PWD/apt/parts -o Dir::State::lists=$PWD/apt/lists"
        apt-get $options update
        apt-get $options source --download-only redis
        rm -rf source
        # With Debian's patches it always calls the system's jemalloc.
        dpkg-source --skip-patches -x redis_*.dsc source
        make -C source/src -j2 MALLOC=jemalloc JEMALLOC_CONFIGURE_OPTS=--enable-prof BUILD_TLS=no redis-server
        cp source/src/redis-server ."""
    with open(os.path.join(folder, "build.log"), "wb") as log:
        built = subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode == 0
    return server if built and os.access(server, os.X_OK) else None


def write_rust(path, functions):
    with open(path, "w") as source:
        for i in range(functions):
            source.write(f"""#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item{i} {{ name: String, parts: Vec<std::collections::BTreeMap<u32, std::sync::Arc<Item{i}>>> }}
pub fn show{i}(item: &Item{i}) -> String {{
    item.parts.iter().flat_map(|part| part.iter()).map(|(key, value)| format!("{{key}} {{:?}}", value.name)).collect::<Vec<_>>().join(", ")
}}
""")
    return path


def linked_works(build, inputs, quick):
    """(work, environments of the allocator's own profilers by their columns); and why others are missing."""
    small, works, remarks = 3 if quick else 1, [], []
    if server := bundled_redis(build):
        works.append((redis("redis, bundled jemalloc", 200_000 // small, 16, server),
                      {OWN: {"JE_MALLOC_CONF": "prof:true,lg_prof_sample:19,prof_final:true,prof_prefix:{dir}/jeprof"}}))
    else:
        remarks.append(f"redis with its bundled jemalloc could not be built: {build}/bench/redis/build.log.")
    if rustc := shutil.which("rustc"):
        root = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
        source = write_rust(os.path.join(inputs, "large.rs"), 60 // small)
        # Not /dev/null: rustc renames a file to this name.
        works.append((Program("rustc", [os.path.join(root, "bin/rustc"), "--crate-type", "lib", "--emit", "metadata", "-o", source + ".rmeta", source]), {}))
        remarks.append("rustc's jemalloc is built without its profiler.")
    server = os.path.join(build, "tests/bench/store_server")
    if os.access(server, os.X_OK):
        batches = 1000 // small
        load = lambda path: float(checked([os.path.join(build, "tests/bench/memcached_load"), path, "8", str(batches)]).split()[1])
        works.append((Store("C++ server, static tcmalloc", server, load),
                      {OWN: {"TCMALLOC_SAMPLE_PARAMETER": "524288"}, HOOKS: {"HEAPPROFILE": "{dir}/heap"}}))
    else:
        remarks.append("libtcmalloc.a is not installed: no C++ server with a static tcmalloc.")
    return works, remarks


LINKED = ["redis, bundled jemalloc", "rustc", "C++ server, static tcmalloc"]
PROGRAMS = ["sqlite3", "python3", "g++", "redis", "redis, pipelined", "memcached"]


@dataclasses.dataclass
class Names:
    programs: list
    linked: list  # with an allocator of their own
    allocating: list
    micro: list  # all patterns, in the order of the tables
    contended: list
    handed: list


def works_by_name(build, quick):
    micro, (free, contended, handed) = micro_works(build, quick), lock_works(build, quick)
    names = lambda works: [work.name for work in works]
    return Names(PROGRAMS, LINKED, names(allocating_works(build, quick)), names(micro + free + contended + handed), names(contended), names(handed))


def callgrind_commands(inputs, quick):
    """Programs small enough for callgrind, and large enough that their start does not count."""
    small = 2 if quick else 1
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True).stdout.strip()
    sql = write_sql(os.path.join(inputs, "small.sql"), 20_000 // small)
    cxx = write_cxx(os.path.join(inputs, "small.cc"), 2)
    return {
        "sqlite3": (["/usr/bin/sqlite3", ":memory:", "-cmd", ".output /dev/null", f".read {sql}"], {}),
        "python3": (["/usr/bin/python3", "-S", "-s", "-c", PYTHON % (50_000 // small)], {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"}),
        "g++": ([cc1plus, "-fpreprocessed", "-quiet", "-O0", "-std=c++17", cxx, "-o", "/dev/null"], {}),
        "redis": (None, {}),  # servers: see instructions.py
        "memcached": (None, {}),
    }


def needed_programs():
    return [name for name in ("redis-server", "redis-benchmark", "redis-cli", "memcached", "sqlite3", "g++", "valgrind") if shutil.which(name) is None]


assert sys.version_info >= (3, 9), "Python 3.9 or newer"
