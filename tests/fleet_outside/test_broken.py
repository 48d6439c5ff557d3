"""Stores that are there and do not decide: nothing fails that a connection or a breaker would notice, so it must be told of by itself."""
import json
import re

import pytest

from fleet import PATIENT, until
from stores import Cluster, StoreError

POLICY = """\
version: 1
limits:
  - {name: budget, rate: 100/h, coordination: shared, on_store_failure: closed}
"""
ALARM = 'sluice_alarm{kind="store_unavailable"}'


def ask_until(one, condition, what, key="k"):
    """Keeps asking, as a service would; the last verdict."""
    verdicts = []

    def look():
        verdicts.append(one.verdict(key))
        return condition()

    until(look, lambda: f"{what}:\n{one.log}\n{verdicts[-1]}", step_s=0.02)
    return verdicts[-1]


def test_a_store_without_evalsha(fleet):
    """The heartbeat goes through, every decision is refused: one line, the alarm, and the end of both when it is mended."""
    redis = fleet.redis("--rename-command", "EVALSHA", "")
    one = fleet.daemon(POLICY, redis.url, *PATIENT)
    verdict = ask_until(one, lambda: one.metrics()[ALARM] == 1, "the alarm is raised")
    assert (verdict["source"], verdict["reason"]) == ("degraded", "store_unavailable")
    assert len(re.findall("it refuses decisions .error.: ERR unknown command 'EVALSHA'", one.log)) == 1, one.log
    redis.kill()
    redis.options = ()
    redis.start()
    one.wait_shared()
    until(lambda: one.metrics()[ALARM] == 0, "the alarm ends")


def test_one_server_of_a_cluster(fleet):
    """It answers for its own slots, also for the heartbeat's, and sends everyone else away."""
    cluster = fleet.store(Cluster)

    def owns_the_fleets_slot(node):
        try:
            node.do("GET", "sluice:{fleet}:secret")
        except StoreError:
            return False
        return True

    node = next(n for n in cluster.masters() if owns_the_fleets_slot(n))
    one = fleet.daemon(POLICY, node.url, *PATIENT)
    keys = (f"k{i}" for i in range(10**6))

    def is_told():
        one.verdict(next(keys))
        return re.search(r"server of a Cluster .* redis\+cluster://", one.log)

    until(is_told, lambda: f"it is told:\n{one.log}")


def test_a_full_store_is_an_alarm(fleet):
    """OOM leaves the breaker closed, as requests that cost nothing still pass."""
    redis = fleet.redis(module=True)
    one = fleet.daemon(POLICY, redis.url, *PATIENT).wait_shared()
    redis.do("CONFIG", "SET", "maxmemory", "1")
    ask_until(one, lambda: one.metrics()[ALARM] == 1, "the alarm is raised")
    assert re.search(r"it refuses decisions \(oom\): OOM", one.log), one.log
    assert one.breaker() == 0
    redis.do("CONFIG", "SET", "maxmemory", "0")
    assert ask_until(one, lambda: one.metrics()[ALARM] == 0, "the alarm ends")["source"] in ("shared", "local")


def test_one_foreign_log_is_no_alarm(fleet):
    """A key whose entries the script cannot make sense of fails alone."""
    redis = fleet.redis()
    one = fleet.daemon(POLICY.replace("name: budget", "name: budget, algorithm: sliding_window_log"), redis.url, *PATIENT).wait_shared()
    one.verdict("k")
    key = next(k for k in redis.keys() if b"{fleet}" not in k)
    redis.do("ZADD", key, "1e18", "foreign")
    for i in range(50):
        assert one.verdict("k")["source"] == "degraded"
        assert one.verdict(f"other{i}")["source"] == "shared"
    assert one.metrics()[ALARM] == 0 and one.breaker() == 0


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_foreign_entries_within_a_log(fleet, module):
    """Where the wait is looked for. The script failed, and with it every decision of that call, on whatever key."""
    redis = fleet.redis(module=module)
    one = fleet.daemon(POLICY.replace("name: budget, rate: 100/h", "name: budget, algorithm: sliding_window_log, rate: 10/h"), redis.url, *PATIENT)
    one.wait_shared()
    for _ in range(10):
        one.verdict("k")
    key = next(k for k in redis.keys() if b"{fleet}" not in k)
    entries = redis.do("ZRANGE", key, "0", "-1", "WITHSCORES")
    for i in (4, 5, 6):
        redis.do("ZREM", key, entries[2 * i])
        redis.do("ZADD", key, entries[2 * i + 1], f"foreign{i}")
    status, body = one.ask(one.http, "POST", "/check", json.dumps([{"key": "other"}, {"key": "k", "cost": 8}, {"key": "another"}]))
    assert status == 200
    verdicts = json.loads(body)
    assert [v["source"] for v in verdicts] == ["shared"] * 3
    assert [v["allowed"] for v in verdicts] == [True, False, True] and 0 < verdicts[1]["retryAfterMs"] <= 3600000


@pytest.mark.parametrize("scheme, option", [("redis", "password_file"), ("rediss", "ca")])
def test_a_dedicated_store_that_cannot_be_used_yet(fleet, tmp_path, scheme, option):
    """A file of its address is missing: it is told, and tried again. Before, its keys were degraded until a restart, and nobody was told."""
    redis, dedicated = fleet.redis(), fleet.redis()
    dedicated.do("CONFIG", "SET", "requirepass", "secret")
    missing = tmp_path / "missing"
    one = fleet.daemon(POLICY + f'dedicated: [{{keys: [whale], store: "{scheme}://127.0.0.1:{dedicated.port}?{option}={missing}"}}]\n', redis.url, *PATIENT)
    one.wait_shared()
    ask_until(one, lambda: re.search(f"{dedicated.port}: it cannot be used.*{missing}", one.log), "it is told", "whale")
    assert one.verdict("whale")["source"] == "degraded"
    if option == "password_file":
        missing.write_text("secret\n")
        one.wait_shared("whale")


def test_more_dedicated_stores_than_have_a_place(fleet):
    """Over the reloads of a life: the sixteenth is told of."""
    redis, dedicated = fleet.redis(), fleet.redis()

    def policy(db):
        return POLICY.replace("100/h", f"{100 + db}/h") + f'dedicated: [{{keys: [whale], store: "{dedicated.url}/{db}"}}]\n'

    one = fleet.daemon(policy(0), redis.url, *PATIENT).wait_shared("whale")
    for db in range(1, 16):
        with open(one.policy, "w") as f:
            f.write(policy(db))
        until(lambda: one.verdict("whale", cost=0)["limit"] == 100 + db, "the policy is taken")
        if db < 15:
            one.wait_shared("whale")
    ask_until(one, lambda: re.search("another dedicated store than the 15", one.log), "it is told", "whale")
    assert one.verdict("whale")["source"] == "degraded" and one.verdict("k")["source"] == "shared"
