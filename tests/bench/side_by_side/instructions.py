"""Instructions of whole programs by callgrind: the same on a loaded machine and a quiet one."""

import os
import re
import signal
import socket
import subprocess

from works import Failed, environment, wait_for

VALGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]


def collected(path):
    with open(path, errors="replace") as log:
        found = re.findall(r"Collected : (\d+)", log.read())
    if not found:
        raise Failed("callgrind counted nothing")
    return int(found[-1])


def count(configuration, folder, command, more):
    # Without an exporter, whose end the program would wait for.
    surroundings = environment(configuration, folder, {**more, "HOLDFAST_EXPORTER": "no", "HOLDFAST_SEED": "1", "HOLDFAST_TABLES": folder}.items())
    log = os.path.join(folder, "log")
    with open(log, "wb") as out:
        done = subprocess.run(VALGRIND + command, env=surroundings, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder)
    if done.returncode != 0:
        raise Failed(f"{command[0]} under callgrind ended with {done.returncode}")
    return collected(log)


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


def count_redis(configuration, folder, turns):
    """The same requests in the same batches, each batch answered before the next: the server does the same each time, but
    for its timers, which are set to once a second."""
    path = os.path.join(folder, "s")
    surroundings = environment(configuration, folder, {"HOLDFAST_EXPORTER": "no", "HOLDFAST_SEED": "1", "HOLDFAST_TABLES": folder}.items())
    log = os.path.join(folder, "log")
    with open(log, "wb") as out:
        server = subprocess.Popen(VALGRIND + ["/usr/bin/redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                                              "--hz", "1", "--dynamic-hz", "no"],
                                  env=surroundings, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, start_new_session=True)
    try:
        wait_for(path, server)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.settimeout(60)
            for request in redis_requests(turns):
                connection.sendall(request)
                wanted, got = request.count(b"*"), b""
                # SET answers a line, GET a length and a line, LPUSH and HSET a number.
                wanted = request.count(b"SET\r\n") - request.count(b"HSET\r\n") + 2 * request.count(b"GET\r\n") + request.count(b"LPUSH\r\n") + request.count(b"HSET\r\n")
                while got.count(b"\r\n") < wanted:
                    more = connection.recv(1 << 20)
                    if not more:
                        raise Failed("redis-server closed the connection")
                    got += more
            connection.sendall(b"SHUTDOWN NOSAVE\r\n")
        server.wait(timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    return collected(log)
