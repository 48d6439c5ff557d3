"""The load and the faults of the rows "store unreachable" and "store slow": for the tests, and for bench/fleet_rows.py."""
import re

N = 2
RATE = 5000
DEADLINE_S = 0.010
LOCAL_RATE, LOCAL_BURST = 1000, 1000
POLICY = f"""\
version: 1
endpoints: {{open: {{match: [open]}}, closed: {{match: [closed]}}, local: {{match: [local]}}}}
limits:
  - {{name: open, endpoint: open, rate: 1000000/s, coordination: shared, on_store_failure: open}}
  - {{name: closed, endpoint: closed, rate: 1000000/s, coordination: shared, on_store_failure: closed}}
  - {{name: local, endpoint: local, rate: {LOCAL_RATE}/s, burst: {LOCAL_BURST}, coordination: shared, on_store_failure: local}}
  - {{name: probe, rate: 1000000/s, coordination: shared, on_store_failure: closed}}
"""
OPEN, CLOSED, LOCAL = range(3)
MIXES = ["40 open 1000 open", "30 closed 1000 closed", "30 local 1 local"]


def run(fleet, members, fault, seconds=6.0, fault_at=1.5, heal_at=3.5, watch=lambda: None):
    """A load with a fault in it; the requests, when the fault was there, when it was gone, and when all daemons were back on the store."""
    load = fleet.load(members, RATE, seconds, *MIXES, connections=64)
    load.at(fault_at)
    fault.fault()
    begun = load.at(0)
    watch()
    load.at(heal_at)
    ended = load.at(0)
    fault.heal()
    for one in members:
        one.wait_shared()
    back = load.at(0)
    return load.wait(), begun, ended, back


class Fault:
    """A store, and how it is lost and found: fault(), heal(), and the daemons' address of it. A kind is one of KINDS, or "slow by N ms"."""

    KINDS = ("killed", "refused", "stopped", "dropped")

    def __init__(self, fleet, kind):
        self.redis = fleet.redis(module=True)
        self.proxy = fleet.proxy(self.redis.port)
        self.url = self.redis.url if kind in ("killed", "stopped") else self.proxy.url
        self.heal = lambda: self.proxy.set("pass")
        if kind == "killed":
            self.fault, self.heal = self.redis.kill, self.redis.start
        elif kind == "stopped":
            self.fault, self.heal = self.redis.freeze, self.redis.thaw
        elif kind == "refused":
            self.fault = lambda: self.proxy.set("refuse")
        elif kind == "dropped":
            self.fault = lambda: self.proxy.set("drop")
        else:
            delay_ms = int(re.fullmatch(r"slow by (\d+) ms", kind).group(1))
            self.fault = lambda: self.proxy.set(f"delay {delay_ms * 1000}")
