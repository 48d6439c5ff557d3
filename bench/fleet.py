#!/usr/bin/python3
"""What the shared tier must reach, measured with real daemons on a real redis-server: each figure beside its bound.

    bench/fleet.py [--bin build/bin] [--only hot,shared,rejections,flood] [--rounds 5] [--seconds 3] [--daemons 8] [--json] [--enforce]

hot         a key with 40 % of the load of 8 daemons, over its limit, under `auto`: operations that reach the store for it (renewals and returns too), and how
            far what is admitted in any 10 s is from the limit
shared      `shared` on uniform keys: CPU of sluiced per decision beside one on the embedded store, and what the store adds to p99 at a quarter of the maximum
rejections  a rejection by deny cache or pre-filter beside an accepted `shared` decision, apart from HTTP (bench/fleet_cost.c)
flood       ten rejections for each admission: does the store notice?

Both sides of a ratio take turns in one run; figures are medians. CPU is that of the named process (user and system). With --enforce the status is 1 when a
bound is not met."""
import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TWO_CORES = (os.cpu_count() or 1) > 1
HOT_RATE, HOT_BURST = 2000, 20000  # a second; 2,500 tokens of burst for each of 8 daemons
HOT_LOAD = 5000  # 40 % of the load, offered on the hot key
REST_LOAD = 7500
HOT_SETTLE_S, HOT_WINDOW_S = 12, 10
WIDE = "version: 1\nlimits:\n  - {name: wide, rate: 1000000/s, burst: 1000000000, coordination: shared, on_store_failure: closed}\n"
HOT = f"""\
version: 1
limits:
  - {{name: hot, key: hot, rate: {HOT_RATE}/s, burst: {HOT_BURST}, coordination: auto, on_store_failure: closed}}
  - {{name: rest, rate: 1000000/s, burst: 1000000000, coordination: shared, on_store_failure: closed}}
dedicated:
  - {{keys: [hot], store: "%s"}}
"""
FLOOD = """\
version: 1
endpoints:
  honest: {match: [honest]}
  flooded: {match: [flooded]}
limits:
  - {name: honest, endpoint: honest, rate: 1000000/s, burst: 1000000000, coordination: shared, on_store_failure: closed}
  - {name: flooded, endpoint: flooded, rate: 10/366d, burst: 10, coordination: shared, on_store_failure: closed}
"""


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def pinned(core, argv):
    return (["taskset", "-c", str(core)] if TWO_CORES else []) + argv


# ---- the store


class Redis:
    """A redis-server with the module, on a UNIX socket; `calls` and `bytes_in` are what reached it."""

    def __init__(self, args, folder, name):
        self.path = os.path.join(folder, name)
        self.url = f"redis+unix://{self.path}"
        program = shutil.which("redis-server") or sys.exit("bench: redis-server is not installed")
        argv = [program, "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no", "--dir", folder]
        argv += ["--loadmodule", os.path.abspath(args.module)]
        self.process = subprocess.Popen(pinned(0, argv), stdout=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(self.path)
                break
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"bench: redis-server does not start (is the module at {args.module}?)")
            time.sleep(0.02)
        self.file = self.socket.makefile("rb")

    def info(self, section):
        self.socket.sendall(f"INFO {section}\r\n".encode())
        length = int(self.file.readline()[1:])
        return self.file.read(length + 2).decode()

    def calls(self):
        """Decisions that were asked for, by module or script; one call may be for many buckets."""
        found = re.findall(r"cmdstat_(?:evalsha|eval|sluice\.decide):calls=(\d+)", self.info("commandstats"))
        return sum(int(n) for n in found)

    def bytes_in(self):
        return int(re.search(r"total_net_input_bytes:(\d+)", self.info("stats")).group(1))

    def close(self):
        self.file.close()
        self.socket.close()
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def redis(args, folder, name):
    server = Redis(args, folder, name)
    try:
        yield server
    finally:
        server.close()


# ---- the daemons


class Daemon:
    """One worker on free ports."""

    def __init__(self, args, policy, store, pin=True, flags=()):
        argv = [os.path.join(args.bin, "sluiced"), "--policy", policy, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1",
                "--store", store, *flags]
        env = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self.log_path = policy + f".{time.monotonic_ns()}.log"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(pinned(0, argv) if pin else argv, stderr=log, env=env)
        end = time.monotonic() + 20
        while "ready: " not in self.log():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"bench: sluiced did not start:\n{self.log()}")
            time.sleep(0.02)
        self.port = int(re.search(r"listening on 127\.0\.0\.1:(\d+)", self.log()).group(1))
        self.admin = int(re.search(r"admin on 127\.0\.0\.1:(\d+)", self.log()).group(1))
        self.connections = {}

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ask(self, port, method, path, body=None):
        connection = self.connections.setdefault(port, http.client.HTTPConnection("127.0.0.1", port, timeout=20))
        connection.request(method, path, body)
        return connection.getresponse().read().decode()

    def wait_shared(self, **request):
        """Until the store answers for this daemon."""
        end = time.monotonic() + 20
        while json.loads(self.ask(self.port, "POST", "/check", json.dumps({**request, "cost": 0})))["source"] != "shared":
            if time.monotonic() > end:
                sys.exit(f"bench: sluiced did not reach the store:\n{self.log()}")
            time.sleep(0.05)

    def decisions(self, limit):
        """{(verdict, source): count} of one limit."""
        counts = {}
        for line in self.ask(self.admin, "GET", "/metrics").splitlines():
            found = re.match(r"sluice_decisions_total\{(.*)\} (\S+)$", line)
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found.group(1))) if found else {}
            if labels.get("limit") == limit:
                at = labels["verdict"], labels["source"]
                counts[at] = counts.get(at, 0) + float(found.group(2))
        return counts

    def close(self):
        for connection in self.connections.values():
            connection.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def daemon(args, folder, policy_text, store, **more):
    path = os.path.join(folder, f"policy-{time.monotonic_ns()}.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(policy_text)
    started = Daemon(args, path, store, **more)
    try:
        yield started
    finally:
        started.close()


def load_argv(args, port, body, keys, *flags):
    return [os.path.join(args.bin, "sluice"), "bench", "http", f"http://127.0.0.1:{port}/check", "--body", json.dumps(body), "--keys", str(keys), "--json", *flags]


def load(args, one, body, keys, *flags):
    """One run of the load generator against a daemon; its figures."""
    argv = pinned(1, load_argv(args, one.port, body, keys, "--duration", f"{args.seconds}s", "--pid", str(one.process.pid), *flags))
    return json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=600).stdout)["runs"][0]


# ---- one hot key


def sample(daemons):
    """(when, admitted, decided, degraded) of the hot limit over all daemons."""
    admitted = decided = degraded = 0
    for one in daemons:
        for (verdict, source), n in one.decisions("hot").items():
            decided += n
            admitted += n if verdict == "allowed" else 0
            degraded += n if source == "degraded" else 0
    return time.monotonic(), admitted, decided, degraded


def windows(samples):
    """Admitted in each stretch of HOT_WINDOW_S between samples, over what the rate gives in it."""
    out = []
    for i, (begin, before, _, _) in enumerate(samples):
        later = [s for s in samples[i:] if s[0] - begin >= HOT_WINDOW_S]
        if later:
            out.append((later[0][1] - before) / (HOT_RATE * (later[0][0] - begin)))
    return out


def measure_hot(args):
    say(f"one key with 40 % of the load, {args.daemons} daemons, `auto`")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        main, hot = (stack.enter_context(redis(args, folder, name)) for name in ("main", "hot"))
        # The hot key has a store of its own, so that what reaches it can be counted there.
        daemons = [stack.enter_context(daemon(args, folder, HOT % hot.url, main.url, pin=False, flags=("--timeout", "100ms", "--instances", str(args.daemons))))
                   for _ in range(args.daemons)]
        for one in daemons:
            one.wait_shared(key="hot")
        measured = 2 * HOT_WINDOW_S
        flags = ["--mode", "open", "--warm-up", "0s", "--duration", f"{HOT_SETTLE_S + measured + 1}s"]
        generators = []
        for one in daemons:
            for body, keys, rate in (({"key": "hot"}, 1, HOT_LOAD), ({"key": "acct_{n}"}, 10000, REST_LOAD)):
                argv = load_argv(args, one.port, body, keys, *flags, "--rate", str(rate // args.daemons), "--connections", "8")
                generators.append(stack.enter_context(contextlib.closing(Generator(argv))))
        begun = time.monotonic()
        started = sample(daemons)
        while time.monotonic() < begun + HOT_SETTLE_S:  # the burst is spent, and the key leased
            time.sleep(0.25)
        first_calls = hot.calls()
        samples = [sample(daemons)]
        while time.monotonic() < begun + HOT_SETTLE_S + measured:
            time.sleep(0.2)
            samples.append(sample(daemons))
        calls = hot.calls() - first_calls
        for generator in generators:
            generator.wait()
    decided = samples[-1][2] - samples[0][2]
    ratios = windows(samples)
    from_start = (samples[-1][1] - started[1]) / (HOT_BURST + HOT_RATE * (samples[-1][0] - begun))
    return {"daemons": args.daemons, "rate": HOT_RATE, "burst": HOT_BURST, "offeredPerSecond": decided / (samples[-1][0] - samples[0][0]),
            "calls": calls, "decisions": decided, "operationsPerDecision": calls / decided, "admittedMost": max(ratios), "admittedLeast": min(ratios),
            "admittedFromStart": from_start, "degraded": samples[-1][3] - samples[0][3]}


class Generator:
    """A load generator in the background."""

    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)

    def wait(self):
        if self.process.wait(120) != 0:
            sys.exit("bench: a load generator failed")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


# ---- shared beside embedded


def measure_shared(args):
    say("`shared` beside the embedded store")
    body = {"key": "acct_{n}"}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(redis(args, folder, "store"))
        embedded = stack.enter_context(daemon(args, folder, WIDE, "memory:"))
        shared = stack.enter_context(daemon(args, folder, WIDE, store.url))
        shared.wait_shared(key="acct_0")
        runs = {"embedded": [], "shared": []}
        for _ in range(args.rounds):
            for name, one in (("embedded", embedded), ("shared", shared)):
                runs[name].append(load(args, one, body, 10000))
        quarter = statistics.median(run["answersPerSecond"] for run in runs["shared"]) / 4
        open_loop = ["--mode", "open", "--rate", str(int(quarter))]
        p99 = {"embedded": [], "shared": []}
        for _ in range(5):
            for name, one in (("embedded", embedded), ("shared", shared)):
                p99[name].append(load(args, one, body, 10000, *open_loop)["latencyNs"]["p99"] / 1000)
        degraded = sum(n for (_, source), n in shared.decisions("wide").items() if source == "degraded")
    cpu = {name: [run["serverCpuNsPerAnswer"] / 1000 for run in some] for name, some in runs.items()}
    return {"cpuUs": cpu, "ratio": statistics.median(s / e for s, e in zip(cpu["shared"], cpu["embedded"])),
            "answersPerSecond": {name: statistics.median(run["answersPerSecond"] for run in some) for name, some in runs.items()},
            "quarterPerSecond": quarter, "p99Us": p99, "p99AddedUs": statistics.median(s - e for s, e in zip(p99["shared"], p99["embedded"])),
            "degraded": degraded}


# ---- rejections


def measure_rejections(args):
    say("a rejection near beside an accepted `shared` decision")
    program = os.path.join(args.bin, "../bench/bench_fleet_cost")
    with tempfile.TemporaryDirectory() as folder, redis(args, folder, "store") as store:
        run = subprocess.run(pinned(0, [program, store.url, str(args.rounds)]), stdout=subprocess.PIPE, check=True, timeout=600)
    us = json.loads(run.stdout)
    ratios = {name: statistics.median(x / y for x, y in zip(us[name], us["accepted"])) for name in ("deny_cache", "pre_filter")}
    return {"us": us, "ratios": ratios}


def measure_flood(args):
    say("a flood of rejections, 10 to 1")
    honest = {"key": "acct_{n}", "scope": "honest"}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(redis(args, folder, "store"))
        one = stack.enter_context(daemon(args, folder, FLOOD, store.url, flags=("--timeout", "100ms")))
        one.wait_shared(key="acct_0", scope="honest")
        counts = {"calm": [], "flooded": []}
        for _ in range(args.rounds):
            for name in counts:
                with contextlib.ExitStack() as others:
                    if name == "flooded":
                        argv = load_argv(args, one.port, {"key": "bad_{n}", "scope": "flooded"}, 100, "--mode", "open", "--rate", "10000", "--warm-up", "0s",
                                         "--duration", f"{args.seconds + 3}s")
                        others.enter_context(contextlib.closing(Generator(pinned(1, argv))))
                        time.sleep(1)  # the bursts of the flooded keys are spent
                    calls, data = store.calls(), store.bytes_in()
                    run = load(args, one, honest, 1000, "--mode", "open", "--rate", "1000", "--warm-up", "0s")
                    counts[name].append(((store.calls() - calls) / run["answers"], (store.bytes_in() - data) / run["answers"]))
        rejected = sum(n for (verdict, _), n in one.decisions("flooded").items() if verdict == "rejected")
        admitted = sum(n for (verdict, _), n in one.decisions("honest").items() if verdict == "allowed")
    calls, data = ([statistics.median(row[i] for row in counts[name]) for name in ("calm", "flooded")] for i in (0, 1))
    return {"callsPerHonestRequest": calls, "bytesPerHonestRequest": data, "callsRatio": calls[1] / calls[0], "bytesRatio": data[1] / data[0],
            "rejected": rejected, "admitted": admitted}


# ---- report

MEASURES = {"hot": measure_hot, "shared": measure_shared, "rejections": measure_rejections, "flood": measure_flood}


def bounds(results):
    """[what, measured, bound, unit, how the two compare]"""
    rows = []
    if "hot" in results:
        hot = results["hot"]
        rows += [["hot key under auto: store operations a decision", hot["operationsPerDecision"], 0.02, "x", "<="],
                 ["hot key: most admitted in 10 s : limit", hot["admittedMost"], 1.02, "x", "<="],
                 ["hot key: least admitted in 10 s : limit", hot["admittedLeast"], 0.98, "x", ">="]]
    if "shared" in results:
        rows += [["shared : embedded store, daemon CPU a decision", results["shared"]["ratio"], 1.6, "x", "<="],
                 ["p99 added by the store at a quarter of the maximum", results["shared"]["p99AddedUs"], 1000, "us", "<="]]
    if "rejections" in results:
        ratios = results["rejections"]["ratios"]
        rows += [["rejection by deny cache : accepted shared decision", ratios["deny_cache"], 0.5, "x", "<="],
                 ["rejection by pre-filter : accepted shared decision", ratios["pre_filter"], 0.5, "x", "<="]]
    if "flood" in results:
        rows += [["flood 10:1 : none, calls of the store", results["flood"]["callsRatio"], 1.05, "x", "<="],
                 ["flood 10:1 : none, bytes to the store", results["flood"]["bytesRatio"], 1.05, "x", "<="]]
    return rows


def details(results):
    """Sentences on how the figures came about."""
    if "hot" in results:
        hot = results["hot"]
        yield (f"hot key: {hot['daemons']} daemons, {hot['rate']}/s, burst {hot['burst']:,}, {hot['offeredPerSecond']:,.0f}/s offered, "
               f"{hot['calls']:,} calls for {hot['decisions']:,.0f} decisions; from the start {hot['admittedFromStart']:.3f} of burst + rate; "
               f"{hot['degraded']:.0f} degraded")
    if "shared" in results:
        shared = results["shared"]
        cpu = {name: statistics.median(us) for name, us in shared["cpuUs"].items()}
        p99 = {name: statistics.median(us) for name, us in shared["p99Us"].items()}
        yield (f"shared {cpu['shared']:.2f} us, embedded {cpu['embedded']:.2f} us of daemon CPU an answer; {shared['answersPerSecond']['shared']:,.0f}/s and "
               f"{shared['answersPerSecond']['embedded']:,.0f}/s; p99 at {shared['quarterPerSecond']:,.0f}/s {p99['shared']:.0f} us and "
               f"{p99['embedded']:.0f} us; {shared['degraded']:.0f} degraded")
    if "rejections" in results:
        us = {name: statistics.median(some) for name, some in results["rejections"]["us"].items()}
        yield f"accepted {us['accepted']:.2f} us, deny cache {us['deny_cache']:.3f} us, pre-filter {us['pre_filter']:.3f} us of CPU, without HTTP"
    if "flood" in results:
        flood = results["flood"]
        yield (f"calls of the store an honest request: {flood['callsPerHonestRequest'][0]:.3f} calm, {flood['callsPerHonestRequest'][1]:.3f} flooded; "
               f"{flood['rejected']:,.0f} rejected, {flood['admitted']:,.0f} admitted")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(TOP, "build/bin"))
    parser.add_argument("--module", help="default: modules/sluice_redis.so beside --bin")
    parser.add_argument("--only", default=",".join(MEASURES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--daemons", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--enforce", action="store_true")
    args = parser.parse_args()
    args.module = args.module or os.path.join(args.bin, "../modules/sluice_redis.so")
    wanted = args.only.split(",")
    if set(wanted) - set(MEASURES):
        parser.error(f"--only takes {', '.join(MEASURES)}")
    results = {name: MEASURES[name](args) for name in wanted}
    rows = bounds(results)
    missed = [row for row in rows if not (row[1] <= row[2] if row[4] == "<=" else row[1] >= row[2])]
    if args.json:
        print(json.dumps({"rows": rows, "details": list(details(results)), "results": results}))
    else:
        for what, measured, bound, unit, sign in rows:
            print(f"{what:52} {measured:10.3f} {unit:3} {sign} {bound:g}")
        for line in details(results):
            print(f"  {line}")
    return 1 if missed and args.enforce else 0


sys.exit(main())
