#!/usr/bin/python3
"""How soon a policy that is pushed is in force everywhere: 8 daemons on a real redis-server, the bound is a second.

    bench/push.py [--bin build/bin] [--daemons 8] [--rounds 20] [--limits 100] [--json] [--enforce]

A round pushes a policy of so many limits with `sluice policy push` and notes when the pointer in the store moves; from then on it asks each daemon in turn
for a decision about a key whose limit tells the versions apart, until all have the new one. So a figure includes what the asking costs, and a daemon that is
asked last is not seen before its turn."""
import argparse
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOUND_MS = 1000


def policy(folder, rate, limits):
    path = os.path.join(folder, f"policy-{rate}.yaml")
    with open(path, "w") as f:
        f.write("version: 1\ndefaults: {on_store_failure: local}\nlimits:\n")
        f.write(f"  - {{name: told, key: told, rate: {rate}/h, coordination: local}}\n")
        for i in range(limits - 1):
            f.write(f"  - {{name: limit-{i}, key: key-{i}, rate: {i + 1}/m}}\n")
    return path


class Daemon:
    def __init__(self, args, path, store):
        argv = [os.path.join(args.bin, "sluiced"), "--policy", path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1",
                "--store", store]
        self.process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on ([0-9.:]+)", line)
            self.address = found.group(1) if found else getattr(self, "address", None)
            if "ready: " in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.connection = http.client.HTTPConnection(*self.address.split(":"), timeout=10)

    def limit(self):
        self.connection.request("POST", "/check", '{"key":"told","cost":0}')
        return json.loads(self.connection.getresponse().read())["limit"]

    def end(self):
        self.process.terminate()
        self.process.wait(30)


class Store:
    def __init__(self, folder):
        self.path = os.path.join(folder, "s")
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", folder],
                                        stdout=subprocess.DEVNULL)
        self.socket = socket.socket(socket.AF_UNIX)
        end = time.monotonic() + 20
        while True:
            try:
                self.socket.connect(self.path)
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def current(self):
        self.socket.sendall(b"GET sluice:{fleet}:policy:current\r\n")
        return self.socket.recv(4096)

    def end(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait(30)


def push(args, store, path, daemons, rate):
    """Milliseconds from the pointer's move to the last daemon's first decision under the new version."""
    before = store.current()
    pusher = subprocess.Popen([os.path.join(args.bin, "sluice"), "policy", "push", path, "--store", "redis+unix://" + store.path],
                              stdout=subprocess.DEVNULL)
    while store.current() == before:
        pass
    moved = time.monotonic()
    waiting = list(daemons)
    while waiting:
        waiting = [d for d in waiting if d.limit() != rate]
        if time.monotonic() - moved > 30:
            sys.exit(f"bench: {len(waiting)} daemons did not take version {rate} within 30 s")
    took = (time.monotonic() - moved) * 1000
    if pusher.wait(30):
        sys.exit("bench: the push failed")
    return took


def measure(args):
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        first = policy(folder, 1000, args.limits)
        daemons = [Daemon(args, first, "redis+unix://" + store.path) for _ in range(args.daemons)]
        try:
            took = [push(args, store, policy(folder, rate, args.limits), daemons, rate) for rate in range(1001, 1001 + args.rounds)]
        finally:
            for one in daemons:
                one.end()
            store.end()
    return {"daemons": args.daemons, "limits": args.limits, "ms": took, "medianMs": statistics.median(took), "longestMs": max(took), "boundMs": BOUND_MS}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(TOP, "build/bin"))
    parser.add_argument("--daemons", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--limits", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--enforce", action="store_true")
    args = parser.parse_args()
    found = measure(args)
    if args.json:
        print(json.dumps(found))
    else:
        print(f"a push of {found['limits']} limits is in force on {found['daemons']} daemons after {found['medianMs']:.0f} ms (median of {args.rounds}), "
              f"{found['longestMs']:.0f} ms at most; the bound is {BOUND_MS} ms")
    return 1 if args.enforce and found["longestMs"] > BOUND_MS else 0


sys.exit(main())
