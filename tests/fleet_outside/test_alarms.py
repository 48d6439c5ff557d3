"""Alarms that need a store: one that is slow but not slow enough for the breaker, and one whose clock is another than ours."""
import os
import struct

from fleet import CLOCK_SHIFT, until

POLICY = """\
version: 1
defaults: {on_store_failure: local, coordination: shared}
limits:
  - {name: all, rate: 1000000/s}
"""


def raised(one, kind):
    return one.sum("sluice_alarm", kind=kind) == 1


def test_a_store_that_is_slow_now_and_then(fleet):
    """A third of the deadline is slow to nobody; three quarters of it are, to some calls in a hundred, while the breaker looks at half of them."""
    redis = fleet.redis(module=True)
    proxy = fleet.proxy(redis.port)
    one = fleet.daemon(POLICY, proxy.url, "--timeout", "100ms").wait_shared()
    load = fleet.load(one, 200, 12, "1 k 1")
    load.at(2)
    proxy.set("delay 70000")
    load.at(2.2)
    proxy.set("delay 0")
    until(lambda: raised(one, "store_slow"), lambda: f"an alarm tells: {one.log}")
    assert one.sum("sluice_breaker_state") == 0
    load.wait()
    assert "alarm store_slow: " in one.log and "calls in ten seconds; docs/runbook.md" in one.log


def test_decisions_over_their_budget(fleet):
    """The store is 5 ms away: far from its deadline, and beyond what was promised to callers."""
    redis = fleet.redis(module=True)
    proxy = fleet.proxy(redis.port)
    proxy.set("delay 5000")
    one = fleet.daemon(POLICY, proxy.url, "--timeout", "100ms", "--latency-budget", "2ms").wait_shared()
    load = fleet.load(one, 1000, 60, "1 k 1")  # until there are enough that were measured
    until(lambda: raised(one, "decision_slow"), lambda: f"an alarm tells: {one.log}", deadline_s=60, step_s=0.2)
    load.kill()
    assert "alarm decision_slow: " in one.log and "the budget is 2 ms; docs/runbook.md" in one.log


def test_clocks_an_hour_apart(fleet):
    path = os.path.join(fleet.folder, fleet.name("clock"))
    with open(path, "wb") as f:
        f.write(struct.pack("=q", 0))
    one = fleet.daemon(POLICY, fleet.redis(module=True).url,
                       env={"LD_PRELOAD": CLOCK_SHIFT, "CLOCK_SHIFT_FILE": path, "ASAN_OPTIONS": "verify_asan_link_order=0"}).wait_shared()
    assert not raised(one, "clocks_apart")
    with open(path, "r+b") as f:
        f.write(struct.pack("=q", -3600))
    until(lambda: raised(one, "clocks_apart"), lambda: f"an alarm tells: {one.log}")
    assert "ours is 3600." in one.log or "ours is 3599." in one.log
    assert "s behind; docs/runbook.md" in one.log
