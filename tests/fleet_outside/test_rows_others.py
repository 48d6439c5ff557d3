"""The other rows: a key that is 40 % of the load, failovers that lose state, a bad policy, clocks that leap, and a proxy's header that is not what the policy
thinks. What the operator sees, what keeps working, and how it ends."""
import os
import re
import struct
import subprocess
import time

import pytest

from fleet import CLOCK_SHIFT, PATIENT, outside, until
from stores import Cluster, Sentinels

SIMPLE = """\
version: 1
defaults: {{on_store_failure: {mode}, coordination: shared}}
endpoints: {{flow: {{match: [flow]}}}}
limits:
  - {{name: budget, rate: 1000/h}}
  - {{name: flow, endpoint: flow, rate: 500/s, burst: 500}}
"""


# ---- 3: one hot key


def test_row_3_a_key_that_is_40_percent_of_the_load(fleet, say):
    """Twice its limit is asked of it, and its burst is gone. It turns to leases by itself: the store sees at most 2 % of its decisions, and no more than the
    limit and 2 % of the burst is admitted."""
    n, rate, burst = 4, 1000, 10000  # 2,500 tokens of burst for each of four daemons
    main, hot = fleet.redis(module=True), fleet.redis(module=True)
    policy = f"""\
version: 1
defaults: {{on_store_failure: closed}}
limits:
  - {{name: hot, key: hot, rate: {rate}/s, burst: {burst}, coordination: auto}}
  - {{name: rest, rate: 1000000/s, coordination: shared}}
dedicated:
  - {{keys: [hot], store: "{hot.url}"}}
"""
    members = fleet.fleet(n, policy, main.url, *PATIENT)
    assert members[0].verdict("hot", cost=burst)["allowed"]
    load = fleet.load(members, 5000, 6, "40 hot 1", "60 rest 1000")
    begun = load.at(3)
    calls = hot.calls()
    ended = load.at(5.5)
    calls = hot.calls() - calls
    requests = load.wait()
    mine = requests.of(mix=0)
    steady = mine.between(begun, ended)
    say(f"{requests.summary()}; {calls} store operations for {len(steady)} decisions on the hot key: {calls / len(steady) * 100:.2f} %")
    assert calls <= 0.02 * len(steady)
    beyond, _, _ = mine.most_beyond(rate)
    assert beyond <= burst * 0.02 + 1, f"{beyond} beyond rate x t"
    assert len(steady.allowed) >= 0.95 * rate * (ended - begun), "starved"
    assert len(requests.of(mix=1).allowed) == len(requests.of(mix=1))
    assert sum(one.sum("sluice_leases_active") for one in members) >= 1
    until(lambda: sum(one.sum("sluice_leases_active") for one in members) == 0, "the leases end when the key cools")
    left = members[0].verdict("hot", cost=0)
    assert left["source"] == "shared"


# ---- 4: failover


def budget(fleet, members, key, seconds, at=None, then=None, rate=400):
    """A load on one key with a budget of 1,000 an hour; `then` is done at a time of it."""
    load = fleet.load(members, rate, seconds, f"1 {key} 1")
    if then:
        load.at(at)
        then()
    return load.wait()


@pytest.mark.parametrize("lost", [False, True], ids=["state kept", "state lost"])
def test_row_4_sentinel_failover(fleet, say, lost):
    sentinels = fleet.store(Sentinels, module=True)
    members = fleet.fleet(2, SIMPLE.format(mode="closed"), sentinels.url, "--timeout", "500ms")
    secret_key = next(k for k in sentinels.master.keys() if k.endswith(b"{fleet}:secret"))
    secret = sentinels.master.do("GET", secret_key)
    requests = budget(fleet, members, "k", 1)
    spent = len(requests.allowed)
    assert 300 <= spent <= 400
    replica = sentinels.replicas[0]
    sentinels.master.do("WAIT", "1", "5000")
    sentinels.master.kill()
    until(lambda: replica.info("replication")["role"] == "master", "the replica is promoted")
    if lost:
        replica.do("FLUSHALL")
    until(lambda: all(one.source() == "shared" for one in members), "the daemons follow")
    until(lambda: replica.do("GET", secret_key) == secret, "the fleet's secret is there, the same as before")
    rest = budget(fleet, members, "k", 4)
    assert not rest.of(source="degraded"), rest.summary()
    total = spent + len(rest.allowed)
    say(f"{spent} before, {len(rest.allowed)} after: {total} of a budget of 1,000")
    if lost: # the store's state is a burst more, and nothing else
        assert 1000 <= len(rest.allowed) <= 1002 and total <= 2002
    else:
        assert 1000 <= total <= 1001  # a token comes back each 3.6 s
    assert sum(one.sum("sluice_store_failovers_total") for one in members) >= 2
    for one in members:
        until(lambda one=one: one.sum("sluice_alarm", kind="store_failover") == 1, lambda one=one: f"an alarm tells: {one.metrics()}")
        assert re.search(r"master", one.log), one.log


def test_row_4_cluster_node_killed(fleet, say):
    """Keys of the other nodes notice nothing; those of the killed one are decided by their failure mode until its replica has taken over."""
    cluster = fleet.store(Cluster, module=True)
    members = fleet.fleet(2, SIMPLE.format(mode="open"), cluster.url, "--timeout", "100ms")
    load = fleet.load(members, 2000, 9, "1 k 300", connections=32)
    load.at(1.5)
    victim = cluster.masters()[0]
    replica = cluster.replica_of(victim)
    victim.kill()
    begun = load.at(0)
    until(lambda: replica.info("replication")["role"] == "master", "the replica is promoted")
    promoted = load.at(0)
    requests = load.wait()
    assert len(requests.of(answered=True)) == len(requests)
    before, during, after = requests.between(0, begun), requests.between(begun, promoted), requests.since(promoted + 3)
    share = len(during.of(source="degraded")) / len(during)
    say(f"promoted after {promoted - begun:.2f} s, meanwhile {share * 100:.0f} % degraded; {requests.summary()}")
    assert len(before.of(source="degraded")) <= 0.1 * len(before)
    assert 0.1 < share < 0.6, "a third of the keys, not all of them"
    assert len(after) > 1000 and len(after.of(source="degraded")) <= 0.1 * len(after)
    assert len(requests.allowed) == len(requests), "`open`, and far below the limit"
    for one in members:
        until(lambda one=one: one.breaker() == 0, "every breaker is closed again")


def test_b120_slots_move_under_load(fleet, say):
    """Two thousand slots go from one master to another while 300 keys are decided: nobody is degraded, and each budget stays exact."""
    cluster = fleet.store(Cluster, module=True)
    policy = SIMPLE.format(mode="closed").replace("1000/h", "20/d")
    members = fleet.fleet(2, policy, cluster.url, *PATIENT)
    load = fleet.load(members, 2500, 5, "1 k 300", connections=32)
    load.at(0.5)
    source, target = cluster.masters()[:2]
    moving = subprocess.run(["redis-cli", "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-from", source.do("CLUSTER", "MYID").decode(), "--cluster-to",
                             target.do("CLUSTER", "MYID").decode(), "--cluster-slots", "2000", "--cluster-yes"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, timeout=60, check=False)
    moved = load.at(0) - load.begun
    requests = load.wait()
    say(f"moved by {moved:.1f} s of 5; {requests.summary()}")
    assert moving.returncode == 0
    assert len(requests.of(answered=True)) == len(requests) and not requests.of(source="degraded")
    assert len(requests.allowed) == 300 * 20


def test_b120_a_master_stands_still(fleet, say):
    """SIGSTOP: connections stay, nothing answers. Its slots are decided by their failure mode until its replica has taken over, the others are the store's."""
    cluster = fleet.store(Cluster, module=True)
    members = fleet.fleet(2, SIMPLE.format(mode="open"), cluster.url, "--timeout", "100ms")
    victim = cluster.masters()[0]
    replica = cluster.replica_of(victim)
    load = fleet.load(members, 2000, 8, "1 k 300", connections=128)
    load.at(1)
    victim.freeze()
    begun = load.at(0)
    until(lambda: replica.info("replication")["role"] == "master", "the replica is promoted")
    promoted = load.at(0)
    requests = load.wait()
    victim.thaw()
    during, after = requests.between(begun, promoted), requests.since(promoted + 2.5)
    share = len(during.of(source="degraded")) / len(during)
    say(f"promoted after {promoted - begun:.2f} s, meanwhile {share * 100:.0f} % degraded; {requests.summary()}")
    assert len(requests.of(answered=True)) == len(requests) == len(requests.allowed)
    assert 0.1 < share < 0.6
    assert len(after) > 1000 and len(after.of(source="degraded")) <= 0.1 * len(after)


def test_row_4_all_is_flushed(fleet, say):
    """FLUSHALL under load, secret and all: at most another burst, the same names, and no daemon needs a hand."""
    redis = fleet.redis(module=True)
    members = fleet.fleet(3, SIMPLE.format(mode="closed"), redis.url, *PATIENT)
    secret_key = next(k for k in redis.keys() if k.endswith(b"{fleet}:secret"))
    secret = redis.do("GET", secret_key)
    requests = budget(fleet, members, "k", 5, 2, lambda: redis.do("FLUSHALL"), rate=1000)
    say(f"{len(requests.allowed)} admitted of 1,000 before and 1,000 after")
    assert 1000 <= len(requests.allowed) <= 2002
    assert not requests.of(source="degraded")
    until(lambda: redis.do("GET", secret_key) == secret, "the secret is put back")
    until(lambda: redis.do("ZCARD", secret_key.replace(b"secret", b"instances")) == 3, "the members are back")


def test_b118_readonly_behind_one_address(fleet, say):
    """The master is made a replica without a connection being closed, and the address leads to the new one: READONLY is a reason to dial again."""
    old, new = fleet.redis(module=True), fleet.redis(module=True)
    new.do("REPLICAOF", "127.0.0.1", old.port)
    until(lambda: new.info("replication").get("master_link_status") == "up", "the replica follows")
    proxy = fleet.proxy(old.port)
    members = fleet.fleet(2, SIMPLE.format(mode="open"), proxy.url, "--timeout", "100ms")
    load = fleet.load(members, 1000, 5, "1 k 100")
    load.at(1)
    new.do("REPLICAOF", "NO", "ONE")
    proxy.set(f"to 127.0.0.1:{new.port}")
    old.do("REPLICAOF", "127.0.0.1", new.port)
    begun = load.at(0)
    requests = load.wait()
    bad = [r.sent - begun for r in requests.of(source="degraded")]
    say(f"degraded for {max(bad, default=0):.2f} s after the switch; {requests.summary()}")
    assert len(requests.allowed) == len(requests)
    late = requests.since(begun + 3)
    assert len(late.of(source="degraded")) <= 0.1 * len(late)
    assert [k for k in new.keys() if b"{fleet}" not in k]


# ---- 5: a bad policy


def push(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def test_row_5_a_bad_policy_is_pushed(fleet, say):
    """Under load, with errors of every kind: the limits in force stay in force, whole, and the operator is told."""
    redis = fleet.redis(module=True)
    good = SIMPLE.format(mode="closed")
    path = fleet.policy(good)
    members = fleet.fleet(2, path, redis.url, *PATIENT)
    bad = [good.replace("rate: 1000/h", "rate: 0/s"), good.replace("1000/h", "1000/fortnight"), good + "  - {name: budget, rate: 1/s}\n", "limits: [", "", "\0\1",
           good.replace("coordination: shared", "coordination: telepathy")]
    load = fleet.load(members, 1000, 5, "1 k 1", "1 other 100 flow")
    for i, text in enumerate(bad):
        load.at(0.3 + i * 0.5)
        push(path, text)
        for one in members:
            one.signal(1)
            until(lambda one=one, i=i: one.sum("sluice_policy_reloads_total", result="failed") >= i + 1 or one.log.count("stays in force") >= i + 1,
                  lambda one=one: f"the failure is counted: {one.log}")
    requests = load.wait()
    say(f"{len(bad)} bad policies; {requests.summary()}")
    assert 1000 <= len(requests.of(mix=0).allowed) <= 1002
    assert len(requests.of(mix=1).allowed) == len(requests.of(mix=1))
    assert {r.reason for r in requests if not r.allowed} == {"rate_limited"}
    for one in members:
        assert one.sum("sluice_policy_last_reload_failed") == 1
        assert one.verdict("k", cost=0)["limit"] == 1000
    push(path, good.replace("rate: 1000/h", "rate: 2000/h"))
    for one in members:
        one.signal(1)
        until(lambda one=one: one.verdict("k", cost=0)["limit"] == 2000, "the next good one is taken")
        until(lambda one=one: one.sum("sluice_policy_last_reload_failed") == 0, "and the metric says so")


# ---- 6: clocks


class Clock:
    """A wall clock that can be set: env for a program, shift(seconds)."""

    def __init__(self, fleet):
        self.path = os.path.join(fleet.folder, fleet.name("clock"))
        self.shift(0)
        self.env = {"LD_PRELOAD": CLOCK_SHIFT, "CLOCK_SHIFT_FILE": self.path, "ASAN_OPTIONS": "verify_asan_link_order=0"}

    def shift(self, seconds):
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as f:
            f.write(struct.pack("=q", seconds))


CLOCKS = """\
version: 1
defaults: {on_store_failure: closed}
endpoints: {shared: {match: [shared]}, local: {match: [local]}, window: {match: [window]}, leased: {match: [leased]}}
limits:
  - {name: shared, endpoint: shared, rate: 100/s, burst: 100, coordination: shared}
  - {name: local, endpoint: local, rate: 100/s, burst: 100, coordination: local}
  - {name: window, endpoint: window, algorithm: fixed_window, rate: 100/s, coordination: shared}
  - {name: leased, endpoint: leased, rate: 100/s, burst: 100, coordination: leased, lease: {block: 10, ttl: 1s}}
  - {name: probe, rate: 1000000/s, coordination: shared}
"""
SCOPES = ("shared", "local", "window", "leased")


def test_row_6_an_instances_clock_leaps(fleet, say):
    """Hours ahead, hours back: decisions take the store's time, and a local clock that nobody sets."""
    clock = Clock(fleet)
    redis = fleet.redis(module=True)
    path = fleet.policy(CLOCKS)
    leaper = fleet.daemon(path, redis.url, *PATIENT, "--instances", "2", env=clock.env).wait_shared()
    steady = fleet.daemon(path, redis.url, *PATIENT, "--instances", "2").wait_shared()
    clock.shift(7200)
    leaper.signal(1)
    until(lambda: leaper.sum("sluice_policy_last_reload_timestamp_seconds") > time.time() + 3600, "its wall clock is ahead")
    clock.shift(0)
    load = fleet.load([leaper, steady], 1600, 5, *(f"1 k 1 {scope}" for scope in SCOPES))
    for i, hours in enumerate((2, -3, 0, -1)):
        load.at(0.8 + i)
        clock.shift(hours * 3600)
    requests = load.wait()
    told = []
    assert len(requests.of(answered=True)) == len(requests) and not requests.of(source="degraded")
    for i, scope in enumerate(SCOPES):
        for mine in [requests.of(mix=i, target=t) for t in (0, 1)] if scope == "local" else [requests.of(mix=i)]:
            beyond, _, _ = mine.most_beyond(100)
            share = len(mine.since(requests[0].sent + 1.5).allowed) / (100 * 3.5)
            told.append(f"{scope}: {beyond:.0f} beyond rate x t, {share:.2f} of the rate")
            assert beyond <= {"shared": 101, "local": 101, "window": 201, "leased": 121}[scope], told[-1]
            assert share >= (0.7 if scope == "window" else 0.85), told[-1]  # three windows of three and a half seconds
    say("; ".join(told))
    until(lambda: leaper.sum("sluice_alarm", kind="clocks_apart") == 1, "an alarm tells of the clock")
    assert steady.sum("sluice_alarm", kind="clocks_apart") == 0
    wall = leaper.verdict("new", scope="shared")
    assert wall["allowed"] and wall["resetAfterMs"] <= 10


def test_row_6_b25_the_stores_clock_leaps_and_comes_back(fleet, say):
    """What it wrote meanwhile lies hours ahead: it is healed, nobody is locked out until then."""
    clock = Clock(fleet)
    redis = fleet.redis(module=True, env=dict(outside.clean_environment(), **clock.env))
    members = fleet.fleet(2, CLOCKS, redis.url, *PATIENT)
    load = fleet.load(members, 1200, 6, *(f"1 k 1 {scope}" for scope in ("shared", "window", "leased")))
    load.at(1.5)
    clock.shift(7200)
    assert int(redis.do("TIME")[0]) > time.time() + 3600, "its wall clock is ahead"
    load.at(3)
    clock.shift(0)
    back = load.at(0)
    requests = load.wait()
    assert len(requests.of(answered=True)) == len(requests)
    for i, scope in enumerate(("shared", "window", "leased")):
        mine = requests.of(mix=i)
        beyond, _, _ = mine.most_beyond(100)
        late = mine.since(back + 1)
        share = len(late.allowed) / (100 * late.seconds())
        say(f"{scope}: {beyond:.0f} beyond rate x t, {share:.2f} of the rate once the clock is back")
        assert share >= 0.8, f"{scope}: locked out"
        assert beyond <= 100 * 4 + 20, f"{scope}: {beyond}"


# ---- 7: a proxy's header


PROXY = """\
version: 1
identity:
  order: [address]
  trusted_proxies: [{trusted}]
  forwarded: x-forwarded-for
limits:
  - {{name: anonymous, key_type: address, rate: 50/h, coordination: shared, on_store_failure: local}}
"""


def requests_through_the_proxy(one):
    """A hundred clients' requests: how many were answered 200, and how many 429."""
    statuses = [outside.call(one.http, "GET", "/auth/x", None, {"X-Forwarded-For": f"192.0.2.{i}"})[0] for i in range(100)]
    return statuses.count(200), statuses.count(429)


def test_row_7_everyone_in_one_bucket(fleet, say):
    """The proxy is not in trusted_proxies: all clients are the proxy. Seen in the share of rejections among anonymous requests, and in whose they are."""
    one = fleet.daemon(PROXY.format(trusted=""), fleet.redis(module=True).url).wait_shared("192.0.2.200", keyType="address")
    assert requests_through_the_proxy(one) == (50, 50)
    assert one.sum("sluice_decisions_total", limit="anonymous", verdict="rejected") == 50
    assert one.sum("sluice_anonymous_decisions_total", verdict="rejected") == 50
    ratio = until(lambda: one.sum("sluice_anonymous_rejection_ratio"), lambda: f"the share is told: {one.metrics()}")
    say(f"sluice_anonymous_rejection_ratio {ratio}")
    assert 0.3 <= ratio <= 0.7

    one = fleet.daemon(PROXY.format(trusted="127.0.0.0/8"), fleet.redis(module=True).url).wait_shared("192.0.2.200", keyType="address")
    assert requests_through_the_proxy(one) == (100, 0)
    assert one.sum("sluice_anonymous_rejection_ratio") == 0


def test_row_7_nobody_is_limited(fleet):
    """No limit matches what the proxy sends: every request is counted as unmatched."""
    text = PROXY.format(trusted="127.0.0.0/8").replace("key_type: address", "key_type: user")
    one = fleet.daemon(text, fleet.redis(module=True).url)
    assert requests_through_the_proxy(one) == (100, 0)
    assert one.sum("sluice_unmatched_total") == 100
