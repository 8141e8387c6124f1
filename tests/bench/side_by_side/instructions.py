"""Instructions of whole programs by callgrind: the same on a loaded machine and a quiet one."""

import contextlib
import glob
import os
import socket
import subprocess
import tempfile

import callgrind
from works import Failed, environment, running

# A processor executes `rep movsb`, by which glibc copies more than 2 KiB, as one instruction; callgrind counts one for each
# byte. So glibc is told, bare and preloaded, to copy with vector registers.
COPIES = "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"

# The least that a wrapper can be which samples allocations by bytes and looks at a lock before it is taken or let go:
# malloc: the thread's countdown, the subtraction, the branch, the jump. free, lock, unlock: a test, a branch, the jump.
LEAST = {"malloc": 4, "calloc": 4, "realloc": 4, "free": 3, "malloc_usable_size": 3, "pthread_mutex_lock": 3, "pthread_mutex_unlock": 3}


def valgrind(folder):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.%p"]


def collected(folder):
    """Of the process that executed most: a server may have started others. `library`: in libholdfast.so itself; `calls`:
    wrapper → calls of it."""
    counted = [callgrind.read(path) for path in glob.glob(folder + "/callgrind.*")]
    if not counted:
        raise Failed("callgrind counted nothing")
    most = max(counted, key=lambda one: one.total)
    return {"total": most.total, "library": most.library(), "calls": dict(most.calls)}


@contextlib.contextmanager
def surroundings(configuration, folder, more=()):
    """The environment. Tables lie in memory or there are none. Without an exporter, whose end the program would wait for."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as tables:
        yield environment(configuration, folder, {**dict(more), "GLIBC_TUNABLES": COPIES, "HOLDFAST_EXPORTER": "no", "HOLDFAST_SEED": "1",
                                                  "HOLDFAST_TABLES": tables}.items())
        if configuration.name == "default" and not os.listdir(tables):
            raise Failed("nothing was sampled")


def count(configuration, folder, command, more):
    with surroundings(configuration, folder, more) as variables, open(os.path.join(folder, "log"), "wb") as out:
        done = subprocess.run(valgrind(folder) + command, env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder)
    if done.returncode != 0:
        raise Failed(f"{command[0]} under callgrind ended with {done.returncode}")
    return collected(folder)


def least(counted):
    """Instructions that any such library adds to this program, samples left out."""
    return sum(counted["calls"].get(name, 0) * instructions for name, instructions in LEAST.items())


def redis_requests(turns):
    def command(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    batches = []
    for i in range(turns):
        key = b"key:%d" % (i * 7919 % 20000)
        batches.append(command(b"SET", key, b"v" * (20 + i % 300)) + command(b"GET", key) +
                       command(b"LPUSH", b"list:%d" % (i % 100), b"x" * (i % 200)) + command(b"HSET", b"hash:%d" % (i % 500), key, b"y" * (i % 100)))
    # 16 at a time, as a pipelining client does.
    return [b"".join(batches[i:i + 4]) for i in range(0, turns, 4)]


def answers_of(request):
    """How many lines: SET answers one, GET a length and a line, LPUSH and HSET a number."""
    return request.count(b"SET\r\n") + 2 * request.count(b"GET\r\n") + request.count(b"LPUSH\r\n")


def count_redis(configuration, folder, turns):
    """The same requests in the same batches, each batch answered before the next: the server does the same each time, but
    for its timers, which are set to once a second."""
    path = os.path.join(folder, "s")
    command = ["/usr/bin/redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--hz", "1", "--dynamic-hz", "no"]
    with surroundings(configuration, folder) as variables, running(valgrind(folder) + command, variables, folder, path), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.settimeout(60)
        for request in redis_requests(turns):
            connection.sendall(request)
            wanted, got = answers_of(request), b""
            while got.count(b"\r\n") < wanted:
                more = connection.recv(1 << 20)
                if not more:
                    raise Failed("redis-server closed the connection")
                got += more
        connection.sendall(b"SHUTDOWN NOSAVE\r\n")
    return collected(folder)


# memcached sets its limit of open files to its number of connections; valgrind, which keeps 12 files for itself, allows it
# to set no other than the one that is.
FILES, OF_VALGRIND = 1024, 12


def count_memcached(configuration, folder, work):
    """One connection; without its maintainers of memory, which wake up by the clock."""
    path = os.path.join(folder, "s")
    command = work.program(path) + ["-c", str(FILES - OF_VALGRIND), "-o", "no_lru_maintainer,no_lru_crawler"]
    with (surroundings(configuration, folder) as variables,
          running(["prlimit", f"--nofile={FILES}:{FILES}"] + valgrind(folder) + command, variables, folder, path) as process):
        work.load(path)
        process.terminate()
    return collected(folder)
