"""Daemons on one store, a load on them, and what went between: what the tests of this folder are made of."""
import contextlib
import http.client
import importlib.util
import json
import os
import re
import struct
import subprocess
import time

from stores import BUILD, Redis, spawn, tail, until

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))


def _load_module(path):
    """A file of the other tests from outside: there are two conftest.py."""
    spec = importlib.util.spec_from_file_location("outside_" + os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


outside = _load_module(os.path.join(TOP, "tests/outside/conftest.py"))
make_certificate = _load_module(os.path.join(TOP, "tests/outside/http_util.py")).make_certificate
LOAD = os.path.join(BUILD, "tests/fleet_load")
PROXY = os.path.join(BUILD, "tests/fleet_proxy")
CLOCK_SHIFT = os.path.join(BUILD, "tests/clock_shift.so")
PATIENT = ("--timeout", "2s")  # where failures are not the subject, a busy machine must not look like one


class Daemon(outside.Daemon):
    """One sluiced with a worker, on free ports unless `port` says."""

    def __init__(self, policy_path, store, *flags, port=0, env=None, workers=1):
        argv = [outside.SLUICED, "--policy", policy_path, "--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0", "--workers", str(workers),
                "--store", store, *flags]
        super().__init__(["setpriv", "--pdeathsig", "KILL", "--", *argv], outside.clean_environment(**(env or {})))
        self.connections = {}

    def ask(self, address, method, path, body=None):
        """On a kept connection, unlike call(): (status, body)."""
        host, port = address.rsplit(":", 1)
        connection = self.connections.get(address)
        if connection is None:
            connection = self.connections[address] = http.client.HTTPConnection(host, int(port), timeout=20)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            del self.connections[address]
            connection.close()
            raise

    def verdict(self, key, cost=1, **more):
        status, body = self.ask(self.http, "POST", "/check", json.dumps({"key": key, "cost": cost, **more}))
        assert status == 200, (status, body)
        return json.loads(body)

    def source(self, key="probe", **more):
        return self.verdict(key, cost=0, **more)["source"]

    def wait_shared(self, key="probe", **more):
        until(lambda: self.source(key, **more) == "shared", lambda: f"the store answers:\n{self.log}")
        return self

    def metrics(self):
        """{"name{label=\"x\"}": value} of everything at /metrics."""
        status, text = self.ask(self.admin, "GET", "/metrics")
        assert status == 200
        found = re.findall(r"^([a-zA-Z_:][^ \n]*(?:\{.*\})?) (\S+)$", text.decode(), re.M)
        return {name: float(value) for name, value in found}

    def sum(self, name, **labels):
        """Of all series of a metric that have these labels; None when there is no such series."""
        found = [value for series, value in self.metrics().items() if series.split("{")[0] == name and
                 all(f'{k}="{v}"' in series for k, v in labels.items())]
        return sum(found) if found else None

    def breaker(self):
        """The worst of all shards: 0 closed, 1 half-open, 2 open."""
        states = [value for series, value in self.metrics().items() if series.startswith("sluice_breaker_state")]
        return max(states) if states else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def cut(self):
        for connection in self.connections.values():
            connection.close()
        super().cut()


class Proxy:
    """Between daemons and a store: proxy.set("delay 2000"), proxy.set("drop"); see proxy.c."""

    def __init__(self, port, log_path="/dev/null"):
        self.process = spawn([PROXY, f"127.0.0.1:{port}"], log_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.url = f"redis://127.0.0.1:{self.port}"

    def set(self, command):
        """(connections open, connections ever) once it is in force."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        assert words and words[0] == "ok", (command, words)
        return int(words[1]), int(words[2])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


# ---- a load


class Request:
    """What became of one: times in seconds of time.monotonic()."""

    __slots__ = ("sent", "done", "took", "waited", "allowed", "answered", "source", "reason", "retry_after_ms", "remaining", "target", "mix")

    SOURCES = {0: "local", 1: "shared", 2: "degraded"}
    REASONS = {0: "", 1: "rate_limited", 2: "cost_exceeds_limit", 3: "store_unavailable", 4: "blocked", 5: "unmatched", 255: ""}

    def __init__(self, fields):
        due, waited, took, self.retry_after_ms, self.remaining, self.target, self.mix, result, source, reason = fields
        self.sent = (due + waited) / 1e6
        self.took = took / 1e6
        self.waited = waited / 1e6
        self.done = self.sent + self.took
        self.allowed = result == 1
        self.answered = result < 2
        self.source = self.SOURCES.get(source, "")
        self.reason = self.REASONS.get(reason, "?")


class Requests(list):
    """Of one load, in the order due."""

    def of(self, **fields):
        return Requests(r for r in self if all(getattr(r, k) == v for k, v in fields.items()))

    def between(self, begin, end):
        """Those sent and answered within."""
        return Requests(r for r in self if r.sent >= begin and r.done <= end)

    def since(self, begin):
        return Requests(r for r in self if r.sent >= begin)

    @property
    def allowed(self):
        return Requests(r for r in self if r.allowed)

    def seconds(self):
        return max(r.done for r in self) - min(r.sent for r in self)

    def percentile(self, percent):
        took = sorted(r.took for r in self)
        return took[min(len(took) - 1, int(len(took) * percent / 100))] if took else 0.0

    def slowest(self):
        return max((r.took for r in self), default=0.0)

    def slower_than(self, seconds):
        return sum(r.took > seconds for r in self) / max(1, len(self))

    def per_100ms(self):
        """[(start, requests, admitted, degraded)] of each tenth of a second, by when they were sent."""
        if not self:
            return []
        begin = self[0].sent
        rows = {}
        for r in self:
            row = rows.setdefault(int((r.sent - begin) * 10), [0, 0, 0])
            row[0] += 1
            row[1] += r.allowed
            row[2] += r.source == "degraded"
        return [(i / 10, *row) for i, row in sorted(rows.items())]

    def most_beyond(self, rate):
        """(how many, begin, end): the largest, over all spans of time, of how many were admitted within it minus rate x its length. What a bucket's burst,
        and whatever is tolerated beyond it, bound. An admission lay somewhere between its sending and its answer, so a span is from one's sending to
        another's answer, and admissions that began before it are taken off, even those that ended after it: never too many are counted."""
        best = (0.0, 0.0, 0.0)
        sent = sorted(r.sent for r in self.allowed)
        lowest, begin, j = float("inf"), 0.0, 0
        for i, r in enumerate(sorted(self.allowed, key=lambda r: r.done)):
            while j < len(sent) and sent[j] <= r.sent:
                if j - rate * sent[j] < lowest:
                    lowest, begin = j - rate * sent[j], sent[j]
                j += 1
            best = max(best, (i + 1 - rate * r.done - lowest, begin, r.done))
        return best

    def windows(self, period_s, wall_offset):
        """[(certain, possible, whole)] of each window aligned to the Unix epoch: admissions that were certainly in it, that may have been, and whether the
        load lasted all of it."""
        admitted = self.allowed
        if not self:
            return []
        begin, end = min(r.sent for r in self) + wall_offset, max(r.done for r in self) + wall_offset
        out = []
        for w in range(int(begin / period_s), int(end / period_s) + 1):
            low, high = w * period_s - wall_offset, (w + 1) * period_s - wall_offset
            certain = sum(r.sent >= low and r.done < high for r in admitted)
            possible = sum(r.done >= low and r.sent < high for r in admitted)
            out.append((certain, possible, begin <= w * period_s and end >= (w + 1) * period_s))
        return out

    def summary(self):
        by_source = {s: len(self.of(source=s)) for s in ("local", "shared", "degraded")}
        lost = sum(not r.answered for r in self)
        return (f"{len(self)} requests, {len(self.allowed)} admitted, {lost} lost, {by_source}; ms p50 {self.percentile(50) * 1e3:.2f} "
                f"p99 {self.percentile(99) * 1e3:.2f} max {self.slowest() * 1e3:.2f}")


class Load:
    """A running load: wait() gives its Requests."""

    def __init__(self, path, targets, rate, seconds, mixes, connections=16):
        argv = [LOAD, "--rate", str(rate), "--seconds", str(seconds), "--connections", str(connections), "--out", path]
        for target in targets:
            argv += ["--target", target if isinstance(target, str) else target.http]
        for mix in mixes:
            argv += ["--mix", mix]
        self.path, self.seconds, self.rate = path, seconds, rate
        self.process = spawn(argv, path + ".log", stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("begun"), f"the load did not begin: {tail(path + '.log')}"
        self.begun = int(line.split()[1]) / 1e6
        self.totals = None

    def at(self, seconds):
        """Waits until the load is so old, and returns the time: the load's schedule is what paces a test, nothing is hoped for."""
        self.process.poll()
        left = self.begun + seconds - time.monotonic()
        if left > 0:
            time.sleep(left)
        return time.monotonic()

    def wait(self):
        out, _ = self.process.communicate(timeout=self.seconds + 60)
        assert self.process.returncode == 0, tail(self.path + ".log")
        self.totals = dict(zip(*[iter(out.split())] * 2))
        with open(self.path, "rb") as f:
            data = f.read()
        return Requests(Request(fields) for fields in struct.iter_unpack("<QIIii5B3x", data))

    def cpu_share(self):
        return int(self.totals["cpu_ms"]) / 1e3 / self.seconds

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


# ---- all of it


class Fleet(contextlib.ExitStack):
    """Everything a test starts, ended with it in the opposite order: fleet.redis(), fleet.daemon(policy, store), fleet.load(...)."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)
        self.n = 0
        self.daemons, self.servers = [], []

    def name(self, what):
        self.n += 1
        return f"{what}{self.n}"

    def store(self, make, *args, **more):
        """A store of a class of stores.py, which gets the folder."""
        server = make(os.path.join(self.folder, self.name("store")), *args, **more)
        self.callback(server.kill)
        self.servers += server.servers() if hasattr(server, "servers") else [server]
        return server

    def redis(self, *options, **more):
        server = Redis(self.folder, self.name("redis"), *options, **more)
        self.callback(server.kill)
        self.servers.append(server)
        return server

    def policy(self, text):
        path = os.path.join(self.folder, self.name("policy") + ".yaml")
        with open(path, "w") as f:
            f.write(text)
        return path

    def daemon(self, policy, store, *flags, wait=True, **more):
        path = policy if os.path.isabs(policy) else self.policy(policy)
        one = Daemon(path, store, *flags, **more)
        one.policy = path
        self.callback(one.cut)
        self.daemons.append(one)
        return one.wait_ready() if wait else one

    def fleet(self, n, policy, store, *flags, key="probe", **more):
        """n daemons that know of each other."""
        path = policy if os.path.isabs(policy) else self.policy(policy)
        members = [self.daemon(path, store, *flags, "--instances", str(n), wait=False, **more) for _ in range(n)]
        for one in members:
            one.wait_ready().wait_shared(key)
        wait_count(members, n)
        return members

    def proxy(self, port):
        one = Proxy(port)
        self.callback(one.kill)
        return one

    def load(self, targets, rate, seconds, *mixes, **more):
        one = Load(os.path.join(self.folder, self.name("load")), targets if isinstance(targets, list) else [targets], rate, seconds, mixes, **more)
        self.callback(one.kill)
        return one

    def logs(self):
        """What everybody said last, for a test that failed."""
        parts = [f"==== sluiced at {d.http}\n" + "\n".join(d.log.split("\n")[-40:]) for d in self.daemons]
        parts += [f"==== {s.name}\n{tail(s.log_path, 15)}" for s in self.servers]
        return "\n".join(parts)


def wait_count(members, n):
    """Until each of them counts n live instances."""
    for one in members:
        until(lambda: one.sum("sluice_instances") == n, lambda: f"{one.http} counts {n} instances, not {one.sum('sluice_instances')}")


def wall_offset():
    """Unix time minus time.monotonic()."""
    return time.time() - time.monotonic()


def sanitized():
    """The daemon is built with a sanitizer: an order of magnitude slower."""
    with open(outside.SLUICED, "rb") as f:
        data = f.read()
    return b"__asan_init" in data or b"__tsan_init" in data

