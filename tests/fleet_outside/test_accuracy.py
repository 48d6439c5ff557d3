"""Eight daemons behind one limit admit that limit. What may be admitted beyond it is a formula for each coordination (docs/policy.md): held here in every span
of time, under load that is uniform, on one daemon alone, bursting from idle, and while daemons crash with leases in hand, leave and join. And nobody starves:
where twice the limit is asked for, the limit is admitted.

Failures of the store are not the subject: the deadline is long, and `on_store_failure: closed` would show one as a rejection for the wrong reason."""
import json

import pytest

from fleet import PATIENT, Requests, until, wait_count, wall_offset
from stores import MODULE, free_port

N = 8
RATE, BURST, BLOCK, INTERVAL_S = 200, 200, 5, 0.25
AUTO_RATE, AUTO_BURST = 400, 800  # a block of 2 for each of eight
OFFERED = 450  # a second, on each limit
POLICY = f"""\
version: 1
defaults: {{on_store_failure: closed}}
endpoints: {{{", ".join(f"{n}: {{match: [{n}]}}" for n in ("shared", "leased", "split", "synced", "auto", "local", "shared_window", "leased_window", "synced_window"))}}}
limits:
  - {{name: shared, endpoint: shared, rate: {RATE}/s, burst: {BURST}, coordination: shared}}
  - {{name: leased, endpoint: leased, rate: {RATE}/s, burst: {BURST}, coordination: leased, lease: {{block: {BLOCK}, ttl: 1s}}}}
  - {{name: split, endpoint: split, rate: {RATE}/s, burst: {BURST}, coordination: split, split: 4}}
  - {{name: synced, endpoint: synced, rate: {RATE}/s, burst: {BURST}, coordination: synced, sync: {{interval: 250ms}}}}
  - {{name: auto, endpoint: auto, rate: {AUTO_RATE}/s, burst: {AUTO_BURST}, coordination: auto}}
  - {{name: local, endpoint: local, rate: {RATE // N}/s, burst: {BURST // N}, coordination: local}}
  - {{name: shared-window, endpoint: shared_window, algorithm: fixed_window, rate: {RATE}/s, coordination: shared}}
  - {{name: leased-window, endpoint: leased_window, algorithm: fixed_window, rate: {RATE}/s, coordination: leased, lease: {{block: {BLOCK}, ttl: 1s}}}}
  - {{name: synced-window, endpoint: synced_window, algorithm: fixed_window, rate: {RATE}/s, coordination: synced, sync: {{interval: 250ms}}}}
  - {{name: hundred, rate: 100/h, coordination: shared}}
"""
#        scope: (rate, burst or None for a window, what a formula adds beyond, the formula, least share of the limit that is admitted)
SYNCED = RATE * INTERVAL_S + N - 1
LIMITS = {
    "shared": (RATE, BURST, 0, "burst + rate x t", 0.95),
    "leased": (RATE, BURST, N * BLOCK, f"burst + rate x t + {N} x {BLOCK}", 0.95),
    "split": (RATE, BURST, 0, "burst + rate x t", 0.90),
    "synced": (RATE, BURST, SYNCED, f"burst + rate x t + rate x {INTERVAL_S} s + {N - 1}", 0.90),
    "auto": (AUTO_RATE, AUTO_BURST, AUTO_BURST // 50, "burst + rate x t + 2 % of burst", 0.95),
    "shared_window": (RATE, None, 0, "COUNT a window", 0.95),
    "leased_window": (RATE, None, N * BLOCK, f"COUNT a window + {N} x {BLOCK}", 0.90),
    "synced_window": (RATE, None, SYNCED, f"COUNT a window + COUNT x {INTERVAL_S} s / PERIOD + {N - 1}", 0.85),
}
SLACK = 1  # an admission at the very end of a span


def mixes(key):
    """As much of each limit, and three times as much of `auto`, whose burst has to be drained."""
    return [f"{3 if scope == 'auto' else 1} {key} 1 {scope}" for scope in (*LIMITS, "local")]


def offer(fleet, targets, key, seconds, factor=1.0):
    return fleet.load(targets, OFFERED * (len(LIMITS) + 3) * factor, seconds, *mixes(key))


def judge(requests, say, joined=0, floor_from=1.5, floors=True, lower=0.0):
    """Every limit's admissions against its formula, in every span of time; and against the floor, from `floor_from` seconds on."""
    wrong, told = [], []
    offset = wall_offset()
    assert not [r for r in requests if r.answered and r.source == "degraded"], f"the store was slow: {requests.summary()}"
    for i, (scope, (rate, burst, extra, formula, floor)) in enumerate(LIMITS.items()):
        mine = requests.of(mix=i)
        if scope.startswith("synced"):
            extra += joined * RATE * INTERVAL_S
            formula += f" + {joined} shares" if joined else ""
        if burst is not None:
            beyond, begin, end = mine.most_beyond(rate)
            text = f"{scope}: {beyond:.1f} beyond rate x t in {end - begin:.2f} s; {formula}: at most {burst + extra:g}"
            if beyond > burst + extra + SLACK:
                wrong.append(text)
        else:
            certain = max((w[0] for w in mine.windows(1, offset)), default=0)
            text = f"{scope}: {certain} in a window; {formula}: at most {rate + extra:g}"
            if certain > rate + extra + SLACK:
                wrong.append(text)
        if floors:
            late = mine.since(mine[0].sent + floor_from)
            share = len(late.allowed) / (rate * late.seconds())
            if burst is None:
                whole = [w[1] for w in late.windows(1, offset) if w[2]]
                share = min(whole) / rate if whole else share
            text += f"; {share:.3f} of the limit admitted, at least {floor - lower:.2f}"
            if share < floor - lower:
                wrong.append(text)
        told.append(text)
    local = requests.of(mix=len(LIMITS))
    for target in sorted({r.target for r in local}):
        beyond, _, _ = local.of(target=target).most_beyond(RATE // N)
        # One that joins names its buckets anew when it hears the fleet's secret: those of its own table are whole again, once.
        bursts = 2 if joined and target >= N - joined else 1
        if beyond > bursts * (BURST // N) + SLACK:
            wrong.append(f"local: {beyond:.1f} beyond rate x t on daemon {target}; burst: {BURST // N}")
    told.append(f"local: {len(local.allowed)} admitted, at most {N} x (burst + rate x t)")
    say("\n    ".join([requests.summary(), *told]))
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def eight(common):
    return common.fleet(N, POLICY, common.redis(module=True).url, *PATIENT)


def test_uniform(common, eight, say):
    judge(offer(common, eight, "uniform", 4).wait(), say)


def test_all_on_one_daemon(common, eight, say):
    judge(offer(common, eight[:1], "one", 4).wait(), say)


def test_burst_from_idle(common, eight, say):
    """After a gentle flow that leaves leases everywhere, ten times the burst at once."""
    offer(common, eight, "burst", 0.5, factor=0.1).wait()
    requests = offer(common, eight, "burst", 0.5, factor=4).wait()
    judge(requests, say, floors=False)
    for i, (scope, (_, burst, _, _, floor)) in enumerate(LIMITS.items()):
        if burst is not None:
            admitted = len(requests.of(mix=i).allowed)
            assert admitted >= min(burst, len(requests.of(mix=i))) * (floor - 0.05), f"{scope}: only {admitted} of a burst of {burst}"


def test_b109_exactly_a_hundred_of_ten_thousand(common, eight, say):
    """Read, then write: with 256 requests in flight over eight daemons, more than the limit would pass."""
    requests = common.load(eight, 5000, 2, "1 hundred 1", connections=32).wait()
    say(requests.summary())
    assert len(requests) == 10000 == len(requests.of(answered=True))
    assert len(requests.allowed) == 100


def test_different_costs_and_keys_are_exact(common, eight, say):
    """Costs 1, 7 and 30 of one key: what is admitted never sums to more than the limit, and nothing that would fit is left over."""
    costs = [1, 7, 30]
    requests = common.load(eight, 3000, 1, *(f"1 costs 1 - {c}" for c in costs)).wait()
    spent = sum(costs[r.mix] for r in requests.allowed)
    say(f"{spent} of 100 spent in {len(requests.allowed)} requests")
    assert spent == 100


def test_mixed_script_and_module(fleet, say):
    """A module that is loaded under load serves the same bytes as the script did."""
    redis = fleet.redis(module=False)
    members = fleet.fleet(4, POLICY, redis.url, *PATIENT)
    load = fleet.load(members, 2000, 3, "1 rolled 1")
    load.at(0.02)
    redis.do("MODULE", "LOAD", MODULE)
    requests = load.wait()
    say(requests.summary())
    assert len(requests.of(answered=True)) == len(requests) and len(requests.allowed) == 100


def test_crash_with_leases_in_hand(fleet, say):
    """kill -9 of four of eight: what they held is lost, never admitted twice, and the others go on at the whole limit."""
    members = fleet.fleet(N, POLICY, fleet.redis(module=True).url, *PATIENT)
    load = offer(fleet, members, "crash", 5)
    load.at(2)
    for one in members[::2]:
        one.kill()
    requests = load.wait()
    lost = sum(not r.answered for r in requests)
    say(f"{lost} requests lost with the four")
    assert lost <= 4 * 16
    judge(requests, say, floor_from=2.5, lower=0.05)


def test_leave(fleet, say):
    """SIGTERM of four of eight: what they have leased goes back, and nothing is lost."""
    redis = fleet.redis(module=True)
    members = fleet.fleet(N, POLICY, redis.url, *PATIENT)
    load = offer(fleet, members, "leave", 5)
    load.at(2)
    for one in members[::2]:
        one.signal(15)
    requests = load.wait()
    assert [one.wait() for one in members[::2]] == [0] * 4
    judge(requests, say, floor_from=2.5)
    wait_count(members[1::2], 4)


def test_join(fleet, say):
    """Four more daemons come while the load runs."""
    redis = fleet.redis(module=True)
    policy = fleet.policy(POLICY)
    members = fleet.fleet(4, policy, redis.url, *PATIENT)
    ports = [free_port() for _ in range(4)]
    load = offer(fleet, members + [f"127.0.0.1:{p}" for p in ports], "join", 5)
    load.at(1.5)
    late = [fleet.daemon(policy, redis.url, *PATIENT, "--instances", "8", port=p, wait=False) for p in ports]
    for one in late:
        one.wait_ready().wait_shared()
    requests = load.wait()
    served = {r.target for r in requests if r.answered}
    assert served == set(range(8)), "those that came late take part"
    # A daemon that has not heard of the store yet says so: what it rejects as unavailable is no part of the limit.
    requests = Requests(r for r in requests if r.source != "degraded")
    judge(requests, say, joined=4, floor_from=2.5, lower=0.05)
    wait_count([*members, *late], 8)


def test_leases_are_given_back(fleet, say):
    """B144: a daemon leases, goes quiet, and another gets all of it: after its ttl, and at once when the first one leaves."""
    text = POLICY + "  - {name: slow, endpoint: slow, rate: 10/d, burst: 1000, coordination: leased, lease: {block: 100, ttl: 1s}}\n"
    text = text.replace("endpoints: {", "endpoints: {slow: {match: [slow]}, ")
    redis = fleet.redis(module=True)
    one, other = fleet.fleet(2, text, redis.url, *PATIENT)
    for way in ("ttl", "leave"):
        for _ in range(5):
            assert one.verdict(way, scope="slow")["allowed"]
        until(lambda: one.sum("sluice_leases_active") > 0, "it holds a lease")
        if way == "leave":
            assert one.stop() == 0
        until(lambda: other.verdict(way, cost=0, scope="slow")["remaining"] == 995, lambda: f"all is given back: {other.verdict(way, cost=0, scope='slow')}")
        spent = sum(other.verdict(way, scope="slow")["allowed"] for _ in range(1000))
        say(f"{way}: the other one got {spent} of 995")
        assert spent == 995


def test_all_buckets_expire(common, eight):
    """B48, B50, B55: whatever the coordination, every key that is left has a time to live, of a fitting size."""
    redis = common.servers[0]
    offer(common, eight, "ttl", 0.3).wait()
    keys = [k for k in redis.keys() if b"{fleet}" not in k]
    assert len(keys) > 10
    for key in keys:
        ttl = redis.do("PTTL", key)
        assert ttl == -2 or 0 < ttl <= 3_600_000, (key, ttl)


def test_state_is_told_alike_by_every_daemon(common, eight):
    """B145: limit, remaining and reset of one bucket, as two daemons tell them."""
    for i in range(10):
        eight[i % 2].verdict("told")
    told = [one.verdict("told", cost=0) for one in eight]
    assert {t["remaining"] for t in told} == {90} and {t["limit"] for t in told} == {100}, json.dumps(told)
    assert max(t["resetAfterMs"] for t in told) - min(t["resetAfterMs"] for t in told) < 36000
