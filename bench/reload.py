#!/usr/bin/python3
"""What a reload costs the requests that are decided meanwhile: p99.9 with reloads of a large policy, less p99.9 without; the bound is 1 ms.

    bench/reload.py [--bin build/bin] [--limits 10000] [--rounds 25] [--seconds 2] [--every 0.7] [--share 0.25] [--json] [--enforce]

One daemon with one worker, all of it on one processor, so that a reload competes with the worker for it, under an open loop at a quarter of what it can answer. Windows with and without reloads take turns in one run; in those with them
another policy of so many limits is renamed over the file every 0.7 s, so that each takes the long way: noticed, read, compiled, put in force, the old one
freed. Every tenth of a percent of the requests counts, so a stall of a millisecond in each second is seen. A window in which fewer policies came into force
than were written does not count: the run fails. `--trigger hangup` and `--trigger admin` ask by SIGHUP and POST /v1/reload instead.

What else the machine does only ever makes a window worse, and rarely all of them: the difference is that of the lower quartiles of both kinds of windows."""
import argparse
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOUND_US = 1000
TWO_CORES = (os.cpu_count() or 1) > 1


def pinned(core, argv):
    return (["taskset", "-c", str(core)] if TWO_CORES else []) + argv


def text_of(limits, version):
    """A policy whose limits all differ from those of the version before."""
    lines = [f"  - {{name: limit-{i}, key: key-{i}, rate: {1000000 + version}/s, burst: 1000000}}\n" for i in range(limits)]
    return "version: 1\nlimits:\n" + "".join(lines)


class Daemon:
    def __init__(self, args, folder):
        self.path = os.path.join(folder, "policy.yaml")
        self.version = 0
        self.texts = [text_of(args.limits, version) for version in range(2)]
        self.write()
        argv = [os.path.join(args.bin, "sluiced"), "--policy", self.path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"]
        self.process = subprocess.Popen(pinned(0, argv), stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            for name in ("listening", "admin"):
                found = re.search(name + r" on ([0-9.:]+)", line)
                if found:
                    setattr(self, name, found.group(1))
            if "ready: " in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def write(self):
        with open(self.path + ".new", "w") as f:
            f.write(self.texts[self.version % 2])
        os.rename(self.path + ".new", self.path)
        self.version += 1

    def reloads(self):
        connection = http.client.HTTPConnection(*self.admin.split(":"), timeout=30)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(float(re.search(r'^sluice_policy_version (\S+)$', text, re.M).group(1)))

    def reload(self, trigger):
        self.write()
        if trigger == "hangup":
            self.process.send_signal(signal.SIGHUP)
        elif trigger == "admin":
            connection = http.client.HTTPConnection(*self.admin.split(":"), timeout=30)
            connection.request("POST", "/v1/reload")
            if connection.getresponse().status != 200:
                sys.exit("bench: a reload was refused")
            connection.close()

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stderr.close()


def load(args, daemon, mode, seconds, rate=0):
    argv = [os.path.join(args.bin, "sluice"), "bench", "http", f"http://{daemon.listening}/check", "--body", '{"key":"key-{n}"}', "--keys", "10000",
            "--mode", mode, "--duration", f"{int(seconds * 1000)}ms", "--warm-up", "300ms", "--pid", str(daemon.process.pid), "--json"]
    argv += ["--rate", str(int(rate))] if rate else []
    run = subprocess.run(pinned(1, argv), stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return json.loads(run.stdout)["runs"][0]


class Reloads:
    """Another policy every so many seconds, for as long as it is entered."""

    def __init__(self, daemon, every_s, trigger):
        self.daemon, self.every_s, self.trigger, self.written = daemon, every_s, trigger, 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.stopping.wait(self.every_s):
            self.daemon.reload(self.trigger)
            self.written += 1

    def __enter__(self):
        self.before = self.daemon.reloads()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        end = time.monotonic() + 30
        while self.daemon.reloads() - self.before < self.written:
            if time.monotonic() > end:
                sys.exit(f"bench: {self.written} policies were written, {self.daemon.reloads() - self.before} came into force")
            time.sleep(0.05)


def window(args, daemon, rate, reloads):
    if not reloads:
        return load(args, daemon, "open", args.seconds, rate)
    with Reloads(daemon, args.every, args.trigger) as running:
        found = load(args, daemon, "open", args.seconds, rate)
    found["reloads"] = running.written
    return found


def measure(args):
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(args, folder)
        try:
            full = load(args, daemon, "closed", 2)["answersPerSecond"]
            rate = full * args.share
            rounds = []
            for i in range(args.rounds):
                pair = {}
                for reloads in ((False, True) if i % 2 else (True, False)):  # which comes first takes turns too
                    pair["with" if reloads else "without"] = window(args, daemon, rate, reloads)
                rounds.append(pair)
                if not args.json:
                    print(f"  round {i + 1}: p99.9 without {us(pair['without']):7.0f} us, with {us(pair['with']):7.0f} us ({pair['with']['reloads']} reloads); "
                          f"longest {us(pair['without'], 'max'):.0f} and {us(pair['with'], 'max'):.0f} us", file=sys.stderr, flush=True)
        finally:
            daemon.end()
    found = {kind: [us(pair[kind]) for pair in rounds] for kind in ("without", "with")}
    quiet = {kind: statistics.quantiles(values, n=4)[0] for kind, values in found.items()}
    return {"limits": args.limits, "rate": rate, "reloads": sum(pair["with"]["reloads"] for pair in rounds), "withoutUs": quiet["without"],
            "withUs": quiet["with"], "differenceUs": quiet["with"] - quiet["without"], "boundUs": BOUND_US,
            "medianDifferenceUs": statistics.median(found["with"]) - statistics.median(found["without"]), "windowsUs": found}


def us(run, what="p999"):
    return run["latencyNs"][what] / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(TOP, "build/bin"))
    parser.add_argument("--limits", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--every", type=float, default=0.7)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--trigger", choices=("file", "hangup", "admin"), default="file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--enforce", action="store_true")
    args = parser.parse_args()
    found = measure(args)
    if args.json:
        print(json.dumps(found))
    else:
        print(f"p99.9 at {found['rate']:,.0f}/s: {found['withoutUs']:.0f} us without reloads, {found['withUs']:.0f} us with one of {found['limits']:,} limits every "
              f"{args.every:g} s; the difference is {found['differenceUs']:.0f} us (of the lower quartiles of {args.rounds} windows each; of their medians {found['medianDifferenceUs']:.0f} us), "
              f"the bound {BOUND_US} us")
    return 1 if args.enforce and found["differenceUs"] > BOUND_US else 0


sys.exit(main())
