"""Stores that are hostile or broken, and keys with any bytes: verdicts stay sane, nothing is injected, nothing of others is overwritten, and when the store is
sound again so is everything."""
import json
import os
import re

import pytest

from fleet import PATIENT, until
from stores import Impostor, StoreError, spawn

POLICY = """\
version: 1
defaults: {on_store_failure: local, coordination: shared}
endpoints: {open: {match: [open]}, closed: {match: [closed]}, window: {match: [window]}, log: {match: [log]}, counter: {match: [counter]}, leaky: {match: [leaky]}, leased: {match: [leased]}}
limits:
  - {name: budget, rate: 100/h}
  - {name: open, endpoint: open, rate: 100/h, on_store_failure: open}
  - {name: closed, endpoint: closed, rate: 100/h, on_store_failure: closed}
  - {name: window, endpoint: window, algorithm: fixed_window, rate: 100/h}
  - {name: log, endpoint: log, algorithm: sliding_window_log, rate: 100/h}
  - {name: counter, endpoint: counter, algorithm: sliding_window_counter, rate: 100/h}
  - {name: leaky, endpoint: leaky, algorithm: leaky_bucket, rate: 100/h}
  - {name: leased, endpoint: leased, rate: 100/h, coordination: leased, lease: {block: 5, ttl: 1s}}
"""
SCOPES = (None, "open", "closed", "window", "log", "counter", "leaky", "leased")


def scope(name):
    return {"scope": name} if name else {}


def buckets(redis):
    return sorted(k for k in redis.keys() if b"{fleet}" not in k)


def sane(verdict):
    assert isinstance(verdict["allowed"], bool) and verdict["source"] in ("local", "shared", "degraded")
    assert -1 <= verdict["remaining"] <= verdict["limit"]
    assert verdict["allowed"] == (verdict["retryAfterMs"] == 0)
    return verdict


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_wrong_types_under_our_keys(fleet, say, module):
    """Lists, hashes, sets, streams and another limiter's strings where a bucket was: counted, never overwritten, decided by the failure mode."""
    redis = fleet.redis(module=module)
    one = fleet.daemon(POLICY, redis.url, *PATIENT).wait_shared("probe")
    for name in SCOPES:
        before = buckets(redis)
        assert sane(one.verdict("k", **scope(name)))["allowed"]
        key = next(iter(set(buckets(redis)) - set(before)))
        whole = re.match(rb"(.*\{.*\}:[^:]*)", key).group(1)
        for foreign in (["RPUSH", whole, "x"], ["HSET", whole, "tokens", "5"], ["SADD", whole, "x"], ["ZADD", whole, "1", "x"], ["XADD", whole, "*", "a", "b"],
                        ["SET", whole, "5"], ["SET", whole, b"\xff" * 40], ["SET", whole, ""], ["SET", whole, "1691234567:99"], ["SET", whole, b"\0" * 12]):
            redis.do("DEL", whole)
            redis.do(*foreign)
            dump = redis.do("DUMP", whole)
            ttl = redis.do("PTTL", whole)
            verdict = sane(one.verdict("k", **scope(name)))
            told = f"{name} with {foreign[0]} {foreign[2]!r}: {verdict}"
            assert verdict["source"] in ("degraded", "local"), told
            assert verdict["allowed"] is (name != "closed"), told
            assert redis.do("DUMP", whole) == dump and redis.do("PTTL", whole) == ttl, f"overwritten: {told}"
        redis.do("DEL", whole)
    assert one.process.poll() is None
    until(lambda: one.breaker() == 0, "a foreign value is no failure of the store")
    foreign = one.sum("sluice_store_foreign_total")
    say(f"{foreign:.0f} foreign values were counted")
    assert foreign >= (len(SCOPES) - 1) * 10  # leased tokens are spent without asking
    one.wait_shared("probe")


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_wrong_types_under_the_fleets_own_names(fleet, module):
    """The list of members and the secret are someone else's: shared limits follow their failure modes, and nothing is overwritten."""
    redis = fleet.redis(module=module)
    one = fleet.daemon(POLICY, redis.url, *PATIENT).wait_shared()
    secret = next(k for k in redis.keys() if k.endswith(b":secret"))
    members = secret.replace(b":secret", b":instances")
    redis.do("DEL", secret, members)
    redis.do("RPUSH", secret, "x")
    redis.do("SET", members, "y")
    until(lambda: one.log.count("not ours") or one.log.count("foreign") or re.search("instances|secret", one.log), lambda: f"it is told of:\n{one.log}")
    assert redis.do("TYPE", secret) == b"list" and redis.do("TYPE", members) == b"string"
    assert sane(one.verdict("k"))["allowed"]
    redis.do("DEL", secret, members)
    until(lambda: redis.do("TYPE", secret) == b"string", "the secret comes back")
    one.wait_shared()


GARBAGE = {
    "nothing of the protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an array of four billion": b"*4294967295\r\n",
    "a map of 2^63 - 1": b"%9223372036854775807\r\n",
    "a bulk of 4 GB": b"$4294967296\r\n",
    "nested arrays": b"*1\r\n" * 2000,
    "a negative length": b"$-5\r\n",
    "a colon for a length": b"$0:\r\n",
    "zeros": b"\0" * 4096,
    "replies nobody asked for": b"+OK\r\n" * 1000,
    "half a reply": b"*3\r\n$5\r\nhel",
    "an endless line": b"+" + b"x" * 100000,
    "errors": b"-ERR " + b"e" * 3000 + b"\r\n",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_b132_a_store_that_answers_garbage(fleet, what):
    """The connection is dropped, memory is not given away, limits follow their failure modes."""
    impostor = Impostor(GARBAGE[what])
    fleet.callback(impostor.kill)
    one = fleet.daemon(POLICY, f"redis://127.0.0.1:{impostor.port}", "--table-keys", "1000")
    until(lambda: impostor.accepted >= 1, "it dials")
    one.verdict("k", scope="open")
    before = resident(one)
    for name in SCOPES * 20:
        verdict = sane(one.verdict("k", **scope(name)))
        assert verdict["source"] == "degraded" and verdict["allowed"] is (name != "closed"), verdict
    assert one.process.poll() is None
    assert resident(one) - before < 8 << 20
    assert len(one.log) < 20000, "a log line is not traffic"


def resident(daemon):
    with open(f"/proc/{daemon.process.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_garbage_in_mid_stream(fleet, say):
    """A sound store whose replies break off in the middle, again and again, under load: every request is answered once."""
    redis = fleet.redis(module=True)
    proxy = fleet.proxy(redis.port)
    one = fleet.daemon(POLICY, proxy.url).wait_shared()
    load = fleet.load(one, 2000, 4, "1 k 500 open")
    for i in range(12):
        load.at(0.3 + i * 0.25)
        proxy.set(f"cut {17 * i + 1}")
    requests = load.wait()
    say(requests.summary())
    assert len(requests.of(answered=True)) == len(requests) == len(requests.allowed)
    one.wait_shared()


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_b112_noscript_under_load(fleet, say, module):
    """SCRIPT FLUSH, and the module unloaded: no client sees an error, and the limit stays exact."""
    redis = fleet.redis(module=module)
    one = fleet.daemon(POLICY, redis.url, *PATIENT).wait_shared()
    load = fleet.load(one, 1000, 2, "1 k 1", "1 other 5000")
    for i in range(10):
        load.at(0.2 + i * 0.15)
        redis.do("SCRIPT", "FLUSH")
        if module and i == 5:
            redis.do("MODULE", "UNLOAD", "sluice")
    requests = load.wait()
    say(requests.summary())
    assert len(requests.of(answered=True)) == len(requests) and not requests.of(source="degraded")
    assert len(requests.of(mix=0).allowed) == 100


def test_b124_the_store_is_full(fleet, say):
    """maxmemory, noeviction: OOM is a failure like another, with a name of its own; buckets follow their failure modes."""
    redis = fleet.redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
    one = fleet.daemon(POLICY, redis.url).wait_shared()
    with pytest.raises(StoreError, match="OOM"):
        for i in range(10000):
            redis.do("SET", f"filler{i}", "x" * 1000)
    for i in range(30):
        assert sane(one.verdict(f"new{i}", scope="open"))["allowed"]
        verdict = sane(one.verdict(f"new{i}", scope="closed"))
        assert verdict["allowed"] or verdict["reason"] == "store_unavailable"
    redis.do("CONFIG", "SET", "maxmemory", "1mb")
    assert one.verdict("late", scope="open")["source"] == "degraded"
    say(f"{one.sum('sluice_store_operations_total', result='oom'):.0f} calls were answered OOM")
    assert one.sum("sluice_store_operations_total", result="oom") > 0
    assert one.sum("sluice_shared_unavailable_total") > 0
    redis.do("CONFIG", "SET", "maxmemory", "0")
    one.wait_shared()


def test_a_store_that_is_loading(fleet):
    """LOADING after a restart: decided by the failure modes, and taken as soon as it is through."""
    redis = fleet.redis("--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024", module=True)
    one = fleet.daemon(POLICY, redis.url).wait_shared()
    for i in range(4000):
        redis.connection.send("SET", f"filler{i}", "x" * 1000)
    for _ in range(4000):
        redis.connection.read()
    redis.do("CONFIG", "SET", "save", "900 1")
    redis.do("SAVE")
    redis.connection.close()
    redis.process.kill()
    redis.process.wait()
    redis.options = (*redis.options, "--dbfilename", "dump.rdb")
    redis.process = spawn(redis.command_line(), redis.log_path)
    until(lambda: one.verdict("k", scope="open")["source"] == "degraded", "the loss is noticed")
    verdict = sane(one.verdict("k", scope="closed"))
    assert verdict["reason"] == "store_unavailable"
    one.wait_shared()
    redis.connection = redis.connect()


def test_a_replica_that_only_reads(fleet):
    """A store that is someone's replica refuses to write: its name is in the metrics, and the daemon goes on by failure modes."""
    master, replica = fleet.redis(), fleet.redis()
    replica.do("REPLICAOF", "127.0.0.1", master.port)
    one = fleet.daemon(POLICY, replica.url)
    until(lambda: (one.sum("sluice_store_operations_total", result="readonly") or 0) > 0, lambda: f"READONLY is counted: {one.metrics()}")
    assert sane(one.verdict("k", scope="open"))["source"] == "degraded"
    assert not sane(one.verdict("k", scope="closed"))["allowed"]
    replica.do("REPLICAOF", "NO", "ONE")
    one.wait_shared()


KEYS = ["a:b", "{a}", "}{", "a}b{c", "{", "{}", "a b", "%s%n", "\\x00", "\"quoted\"", "'", "*", "?", "[", "ключ", "鍵", "😀", "k" * 512, "$6\\r\\nFLUSHALL", "EVAL", "../..",
        "a\u0080b", "\ufeff", "a\u2028b"]


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_keys_with_any_bytes(fleet, module):
    """Each is a bucket of its own, under a name without a byte of it; control characters are refused."""
    redis = fleet.redis(module=module)
    one = fleet.daemon(POLICY, redis.url, *PATIENT).wait_shared()
    redis.do("SET", "victim", "untouched")
    n = len(buckets(redis))
    for i, key in enumerate(KEYS):
        assert sane(one.verdict(key, cost=7))["remaining"] == 93, key
        assert len(buckets(redis)) == n + i + 1, f"{key!r} shares a bucket, or makes several"
    for key in KEYS:
        assert one.verdict(key, cost=0)["remaining"] == 93, key
    for name in buckets(redis):
        assert name == b"victim" or re.fullmatch(rb"[A-Za-z0-9_.:-]+:\{[A-Za-z0-9_-]+\}:[A-Za-z0-9_-]+(:[a-z0-9]+)?", name), name
    assert redis.do("GET", "victim") == b"untouched"
    for key in ("a\r\nFLUSHALL\r\n", "a\0b", "\x7f", ""):
        status, body = one.ask(one.http, "POST", "/check", json.dumps({"key": key}))
        assert status == 400, (key, body)
    assert len(buckets(redis)) == n + len(KEYS)


def test_other_fleets_on_the_same_store(fleet):
    """Two namespaces: two limits; one of them again: the same."""
    redis = fleet.redis(module=True)
    a = fleet.daemon(POLICY, redis.url, *PATIENT, "--namespace", "a").wait_shared()
    b = fleet.daemon(POLICY, redis.url, *PATIENT, "--namespace", "b").wait_shared()
    again = fleet.daemon(POLICY, redis.url, *PATIENT, "--namespace", "a").wait_shared()
    a.verdict("k", cost=60)
    assert b.verdict("k", cost=0)["remaining"] == 100
    assert again.verdict("k", cost=0)["remaining"] == 40
