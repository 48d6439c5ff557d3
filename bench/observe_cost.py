#!/usr/bin/python3
"""What counting and following the hottest keys costs: a decision in the library (bound: 1.10 of one without) and a POST /check (1.03).

    bench/observe_cost.py [--build build] [--rounds 9] [--seconds 2] [--json] [--enforce]

Two builds of the same code take turns: the one that ships, with its counters, its sampled durations, its tap and the hottest keys followed, its daemon asked
for /metrics and /v1/top once a second; and one whose limiter does none of it (bench/uncounted.h, built by the target `benches`). CPU time a decision, on one
core; the daemon's is that of all its threads. Each figure is the median of the rounds' ratios."""
import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TWO_CORES = (os.cpu_count() or 1) > 1
LIBRARY_BOUND, CHECK_BOUND = 1.10, 1.03
# What ships beside what does nothing: subjects of `sluice bench core`.
SUBJECTS = {"a hot key, allowed": ("hotFollowed", "hot"), "a hot key, rejected": ("rejectedFollowed", "rejected"), "keys in turn, ten limits": ("tenLimitsFollowed", "tenLimits")}
POLICY = "version: 1\ndefaults: {on_store_failure: local}\nlimits:\n  - {name: wide, rate: 1000000000/s, burst: 1000000000}\n"


def pinned(core, argv):
    return (["taskset", "-c", str(core)] if TWO_CORES else []) + argv


def run_json(argv):
    return json.loads(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=600).stdout)


def core(program):
    return run_json(pinned(0, [program, "bench", "core", "--json", "--keys", "100000", "--rounds", "3", "--ms", "60"]))["subjects"]


def library(args):
    ratios = {name: [] for name in SUBJECTS}
    for _ in range(args.rounds):
        ships, plain = core(args.command), core(args.command_uncounted)
        for name, (seen, alone) in SUBJECTS.items():
            ratios[name].append(ships[seen]["ns"] / plain[alone]["ns"])
    return ratios


class Daemon:
    def __init__(self, program, folder, name):
        path = os.path.join(folder, name + ".yaml")
        with open(path, "w") as f:
            f.write(POLICY)
        argv = [program, "--policy", path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"]
        self.process = subprocess.Popen(pinned(0, argv), stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            for listener in ("listening", "admin"):
                found = re.search(listener + r" on ([0-9.:]+)", line)
                if found:
                    setattr(self, listener, found.group(1))
            if "ready: " in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def cpu_us(self, args):
        """CPU time of an answer, closed loop."""
        run = run_json(pinned(1, [args.command, "bench", "http", f"http://{self.listening}/check", "--body", '{"key":"acct_{n}","scope":"api:search"}', "--keys",
                                  "1000", "--duration", f"{int(args.seconds * 1000)}ms", "--warm-up", "200ms", "--pid", str(self.process.pid), "--json"]))["runs"][0]
        return run["serverCpuNsPerAnswer"] / 1000

    def scrape(self, stopping):
        while not stopping.wait(1):
            for path in ("/metrics", "/v1/top"):
                connection = http.client.HTTPConnection(*self.admin.split(":"), timeout=30)
                connection.request("GET", path)
                connection.getresponse().read()
                connection.close()

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stderr.close()


def check(args):
    with tempfile.TemporaryDirectory() as folder:
        ships, plain = Daemon(args.daemon, folder, "ships"), Daemon(args.daemon_uncounted, folder, "plain")
        stopping = threading.Event()
        scraper = threading.Thread(target=ships.scrape, args=(stopping,))
        scraper.start()
        try:
            rows = []
            for i in range(args.rounds):
                pair = [ships.cpu_us(args), plain.cpu_us(args)] if i % 2 else [plain.cpu_us(args), ships.cpu_us(args)][::-1]
                rows.append(pair)
        finally:
            stopping.set()
            scraper.join()
            ships.end()
            plain.end()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--enforce", action="store_true")
    args = parser.parse_args()
    args.command, args.daemon = (os.path.join(args.build, "bin", name) for name in ("sluice", "sluiced"))
    args.command_uncounted, args.daemon_uncounted = (os.path.join(args.build, "bench", f"bench_{name}_uncounted") for name in ("sluice_command", "sluiced"))
    of_library, of_check = library(args), check(args)
    rows = [(f"decision in the library, {name}", statistics.median(ratios), LIBRARY_BOUND) for name, ratios in of_library.items()]
    rows.append(("POST /check, CPU of sluiced", statistics.median(ships / plain for ships, plain in of_check), CHECK_BOUND))
    if args.json:
        print(json.dumps({"rows": [dict(zip(("what", "ratio", "bound"), row)) for row in rows], "library": of_library, "checkCpuUs": of_check}))
    else:
        for what, ratio, bound in rows:
            print(f"{what:48} {ratio:6.3f} of one that is not counted; the bound is {bound}")
    return 1 if args.enforce and any(ratio > bound for _, ratio, bound in rows) else 0


sys.exit(main())
