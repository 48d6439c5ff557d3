#!/usr/bin/python3
"""What one decision costs the store: CPU time of redis-server (user + system) per decision, by ways to decide.

    bench/store_cpu.py [--module build/modules/sluice_redis.so] [--runs 5] [--decisions 160000] [--json] [--enforce]

Every way decides the same stream: token buckets that all exist, half of the decisions rejected, 16 commands on their way at a time. `random` goes over
100,000 keys at random, `hot` over two. The textbook script writes at every call, as it is printed everywhere; beside it runs one that spares itself the
writing when it rejects. The ways take turns within each run, and each ratio is taken within its run, against the textbook script beside it; what is printed
is the median of the runs. With --enforce the status is 1 when a ratio is above its bound."""
import argparse
import hashlib
import json
import os
import random
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PIPELINE = 16
# Of the textbook script's CPU a decision, at most.
BOUNDS = {
    "random": {"script": 0.85, "script, 16 in one call": 0.50, "module": 0.30},
    "hot": {"script": 0.85, "script, 16 in one call": 0.50, "module": 0.25},
}

# The script that is in a hundred articles: a hash of tokens and time, refilled, written and given a time to live at every call.
TEXTBOOK_START = b"""
local capacity, rate, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local tokens, time = tonumber(bucket[1]) or capacity, tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - time) * rate)
local allowed = tokens >= cost
if allowed then
    tokens = tokens - cost
end
"""
TEXTBOOK_STORE = b"""
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'time', now)
redis.call('EXPIRE', KEYS[1], math.ceil(capacity / rate) * 2)
"""
TEXTBOOK_END = b"""
return {allowed and 1 or 0, math.floor(tokens)}
"""
TEXTBOOK = TEXTBOOK_START + TEXTBOOK_STORE + TEXTBOOK_END
SPARING = TEXTBOOK_START + b"if allowed then" + TEXTBOOK_STORE + b"end" + TEXTBOOK_END


def words(*items):
    parts = [item if isinstance(item, bytes) else str(item).encode() for item in items]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Limit:
    """COUNT per PERIOD us with one token in whole us, as the wire has it (src/store/sluice.lua)."""

    def __init__(self, token_us, burst):
        self.token_us, self.burst = token_us, burst

    def group(self, cost=1):
        bucket = struct.pack(">BBIQIIQI", 0x80, 7, 1, self.token_us * self.burst, 0, self.burst, self.token_us, 0)
        return struct.pack(">BBH", 0, 1, 1) + bucket + struct.pack(">HQII", 1, self.token_us * cost, 0, cost)


GENEROUS = Limit(10, 1_000_000)  # never short of tokens
SPENT = Limit(86_400_000_000, 1)  # 1/d, used up before the measurement


def limit_of(i):
    return SPENT if i % 2 else GENEROUS


def key(i):
    return b"sluice:{%s}:AAAAAAAAAAA" % hashlib.md5(b"%d" % i).hexdigest()[:22].encode()


class Server:
    def __init__(self, module):
        self.folder = tempfile.mkdtemp(prefix="sluice-bench-")
        path = os.path.join(self.folder, "socket")
        argv = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", self.folder]
        self.process = subprocess.Popen(argv + ["--loadmodule", os.path.abspath(module)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                break
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        else:
            raise SystemExit("redis-server does not answer")
        if self.process.poll() is not None:
            raise SystemExit("redis-server does not start (is it installed, and the module built?)")
        self.socket.settimeout(30)
        self.file = self.socket.makefile("rb", buffering=1 << 20)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise SystemExit(f"redis-server: {rest.decode()}")
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def do(self, *items):
        self.socket.sendall(words(*items))
        return self.reply()

    def stream(self, commands):
        """Keeps PIPELINE commands on their way; returns the CPU seconds the server took."""
        before = self.cpu()
        for i in range(0, len(commands), PIPELINE):
            some = commands[i : i + PIPELINE]
            self.socket.sendall(b"".join(some))
            for _ in some:
                self.reply()
        return self.cpu() - before

    def cpu(self):
        with open(f"/proc/{self.process.pid}/schedstat", encoding="ascii") as f:
            return int(f.read().split()[0]) / 1e9


def ways(server):
    with open(os.path.join(TOP, "src/store/sluice.lua"), "rb") as f:
        script = server.do("SCRIPT", "LOAD", f.read())

    def by_textbook(text):
        sha = server.do("SCRIPT", "LOAD", text)
        return lambda keys: [words("EVALSHA", sha, 1, b"t:" + key(i), limit_of(i).burst, 1e6 / limit_of(i).token_us, 1) for i in keys]

    def by_script(keys):
        return [words("EVALSHA", script, 1, key(i), b"\1\0" + limit_of(i).group()) for i in keys]

    def by_module(keys):
        return [words("SLUICE.DECIDE", 1, key(i), b"\1\0" + limit_of(i).group()) for i in keys]

    def in_sixteens(head):
        def commands(keys):
            out = []
            for at in range(0, len(keys), 16):
                some = keys[at : at + 16]
                out.append(words(*head, len(some), *[key(i) for i in some], b"\1\0" + b"".join(limit_of(i).group() for i in some)))
            return out

        return commands

    return {
        "textbook script": by_textbook(TEXTBOOK),
        "textbook, sparing": by_textbook(SPARING),
        "script": by_script,
        "script, 16 in one call": in_sixteens(["EVALSHA", script]),
        "module": by_module,
        "module, 16 in one call": in_sixteens(["SLUICE.DECIDE"]),
    }


def measure(server, decisions, runs, pick, keys):
    table = ways(server)
    server.do("FLUSHALL")
    every = sorted(set(keys))
    for name in ("textbook script", "module"):
        server.stream(table[name](every))
    result = {name: [] for name in table}
    for _ in range(runs):
        chosen = [pick() for _ in range(decisions)]
        for name in random.sample(list(table), len(table)):
            commands = table[name](chosen)
            result[name].append(server.stream(commands) / decisions * 1e6)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--module", default=os.path.join(TOP, "build/modules/sluice_redis.so"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--decisions", type=int, default=160_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--enforce", action="store_true")
    options = parser.parse_args()
    server = Server(options.module)
    report = {}
    try:
        report["random"] = measure(server, options.decisions, options.runs, lambda: random.randrange(options.keys), range(options.keys))
        report["hot"] = measure(server, options.decisions, options.runs, lambda: random.randrange(2), range(2))
    finally:
        server.close()
    out = {}
    for load, result in report.items():
        base = result["textbook script"]
        out[load] = {
            name: {"us": statistics.median(us), "ratio": statistics.median(x / y for x, y in zip(us, base)), "bound": BOUNDS[load].get(name)}
            for name, us in result.items()
        }
    missed = [name for rows in out.values() for name, row in rows.items() if row["bound"] and row["ratio"] > row["bound"]]
    if options.json:
        json.dump(out, sys.stdout, indent=1)
        print()
    else:
        print_report(out, options)
    return 1 if missed and options.enforce else 0


def print_report(out, options):
    print(f"redis-server CPU per decision, pipeline {PIPELINE}, half rejected, medians of {options.runs} runs of {options.decisions}")
    for load, rows in out.items():
        print(f"{load} ({options.keys if load == 'random' else 2} keys)")
        for name, row in rows.items():
            bound = f"  (bound {row['bound']:.2f})" if row["bound"] else ""
            print(f"  {name:24} {row['us']:6.2f} us  {row['ratio']:.2f} of the textbook script{bound}")


sys.exit(main())
