"""Tiers of keys that stand in the store (`tiers.keys_store`): daemons, the command line, and what happens to the hash."""
import json
import os
import subprocess

import pytest
from fleet import PATIENT, outside, until
from stores import BUILD, Cluster

POLICY = """\
version: 1
identity: {order: [api_key, address], headers: {api_key: X-Api-Key}}
tiers: {default: free, anonymous: anonymous, keys: {k_table: silver}, keys_store: true}
defaults: {on_store_failure: local}
limits:
  - {name: free, tier: free, rate: 100/h, coordination: shared}
  - {name: gold, tier: gold, rate: 1000/h, coordination: shared}
  - {name: silver, tier: silver, rate: 500/h, coordination: local}
  - {name: anonymous, tier: anonymous, rate: 10/h, coordination: local}
"""


def sluice(*words, ok=True):
    done = subprocess.run([os.path.join(BUILD, "bin/sluice"), *words], capture_output=True, text=True, timeout=60, env=outside.clean_environment())
    assert not ok or done.returncode == 0, (words, done.stdout, done.stderr)
    return done


def limit(daemon, key, **more):
    return daemon.verdict(key, cost=0, **more)["policy"]


def wait_limit(daemon, key, wanted, **more):
    until(lambda: limit(daemon, key, **more) == wanted, lambda: f"{key} meets {limit(daemon, key, **more)}, not {wanted}:\n{daemon.log}")


def lookups(daemon, result):
    return daemon.sum("sluice_keys_lookups_total", result=result)


def auth(daemon, key):
    status, headers, _ = outside.call(daemon.http, "GET", "/auth", None, {"X-Api-Key": key})
    return status, headers["ratelimit-limit"]


def test_a_key_is_unknown_once_and_has_its_tier_from_then_on(fleet):
    redis = fleet.redis()
    one, other = fleet.fleet(2, POLICY, redis.url, *PATIENT)
    sluice("keys", "set", "acme", "gold", "--store", redis.url)
    for daemon in (one, other):
        assert limit(daemon, "acme") == "free"
        until(lambda d=daemon: lookups(d, "hit") == 1, "the key was looked up")
        assert limit(daemon, "acme") == "gold"
        assert auth(daemon, "acme") == (200, "1000")
        assert limit(daemon, "k_table") == "silver" and limit(daemon, "acme", tier="silver") == "silver"
        assert limit(daemon, "192.0.2.1", keyType="address") == "anonymous"
    assert limit(one, "nobody") == "free"
    until(lambda: lookups(one, "miss") == 3, "the others are not there")
    assert one.sum("sluice_keys_cached") == 4
    status, body = one.ask(one.http, "POST", "/check", json.dumps([{"key": k, "cost": 0} for k in ("nobody", "acme", "nobody", "k_table", "acme")]))
    assert status == 200 and [v["policy"] for v in json.loads(body)] == ["free", "gold", "free", "silver", "gold"]
    assert lookups(one, "dropped") == lookups(one, "error") == 0


def test_an_outage_takes_no_tier_away(fleet):
    redis = fleet.redis()
    (daemon,) = fleet.fleet(1, POLICY, redis.url)
    sluice("keys", "set", "acme", "gold", "--store", redis.url)
    wait_limit(daemon, "acme", "gold")
    redis.kill()
    for i in range(50):
        assert limit(daemon, "acme") == "gold" and limit(daemon, f"new{i}") == "free"
    until(lambda: lookups(daemon, "error") >= 1, "look-ups fail")
    assert "gold" in daemon.verdict("acme")["policy"]


def test_another_type_and_a_tier_that_nobody_knows(fleet):
    redis = fleet.redis()
    (daemon,) = fleet.fleet(1, POLICY, redis.url, *PATIENT)
    sluice("keys", "set", "secret-key", "platinum", "--store", redis.url)
    assert limit(daemon, "secret-key") == "free"
    until(lambda: lookups(daemon, "unknown_tier") == 1, "the tier is not the policy's")
    until(lambda: "`platinum`" in daemon.log, "the log says so")
    assert limit(daemon, "secret-key") == "free" and "secret-key" not in daemon.log
    redis.do("DEL", "sluice:{keys}")
    redis.do("SET", "sluice:{keys}", "mine")
    assert limit(daemon, "acme") == "free"
    until(lambda: "WRONGTYPE" in daemon.log, "the log says so")
    assert redis.do("GET", "sluice:{keys}") == b"mine"
    assert daemon.sum("sluice_breaker_state") == 0
    assert daemon.verdict("acme")["source"] == "shared", "decisions do not suffer"


def test_a_flood_of_invented_keys(fleet):
    redis = fleet.redis()
    daemon = fleet.daemon(POLICY.replace("coordination: shared", "coordination: local"), redis.url, *PATIENT)
    sluice("keys", "set", "acme", "gold", "--store", redis.url)
    wait_limit(daemon, "acme", "gold")
    for batch in range(30):
        status, _ = daemon.ask(daemon.http, "POST", "/check", json.dumps([{"key": f"f{batch}-{i}", "cost": 0} for i in range(1000)]))
        assert status == 200
        assert limit(daemon, "acme") == "gold"
    until(lambda: lookups(daemon, "miss") + lookups(daemon, "dropped") >= 30000, "every key counts")
    assert daemon.sum("sluice_keys_cached") <= 65536


def test_in_a_cluster(fleet):
    cluster = fleet.store(Cluster)
    (daemon,) = fleet.fleet(1, POLICY, cluster.url, *PATIENT)
    sluice("keys", "set", "acme", "gold", "--store", cluster.url)
    wait_limit(daemon, "acme", "gold")
    assert sluice("keys", "get", "acme", "--store", cluster.url).stdout == "gold\n"


def test_the_command_line(fleet, tmp_path):
    redis = fleet.redis()
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    at = ("--store", redis.url)
    assert sluice("keys", "get", "acme", *at, ok=False).returncode == 1
    sluice("keys", "set", "acme", "gold", *at)
    assert json.loads(sluice("keys", "get", "acme", "--json", *at).stdout) == {"key": "acme", "tier": "gold"}
    told = sluice("policy", "explain", str(policy), "acme", *at).stdout
    assert "tier      gold (tiers.keys_store: the store has it for the key)" in told and "layer default: gold" in told
    tier = json.loads(sluice("policy", "explain", str(policy), "bob", "--json", *at).stdout)["tier"]
    assert tier["name"] == "free" and "nor in the store" in tier["from"]
    assert "asks nobody" in sluice("policy", "explain", str(policy), "acme").stdout
    sluice("keys", "set", "odd", "platinum", *at)
    assert "which the policy does not name" in sluice("policy", "explain", str(policy), "odd", *at).stdout
    assert "tiers.keys or" in sluice("policy", "explain", str(policy), "k_table", "--store", "redis://127.0.0.1:1").stdout
    sluice("keys", "remove", "acme", *at)
    assert sluice("keys", "remove", "acme", *at, ok=False).returncode == 1
    keys = tmp_path / "tiers.csv"
    keys.write_text("# as for a keys_file\n" + "".join(f"k{i},gold\n" for i in range(1234)) + '"a,b",free\n')
    assert sluice("keys", "import", str(keys), *at).stdout.startswith("1235 keys")
    assert redis.do("HLEN", "sluice:{keys}") == 1236 and redis.do("HGET", "sluice:{keys}", "a,b") == b"free"
    keys.write_text("k1,free\nk2\n")
    failed = sluice("keys", "import", str(keys), *at, ok=False)
    assert failed.returncode == 2 and f"{keys}:2:" in failed.stderr
    assert redis.do("HGET", "sluice:{keys}", "k1") == b"gold", "nothing was written"
    assert sluice("keys", "import", str(tmp_path / "none"), *at, ok=False).returncode == 2
    redis.do("DEL", "sluice:{keys}")
    redis.do("SET", "sluice:{keys}", "mine")
    assert "WRONGTYPE" in sluice("keys", "set", "acme", "gold", *at, ok=False).stderr
    redis.kill()
    assert sluice("policy", "explain", str(policy), "acme", *at, ok=False).returncode == 3


@pytest.mark.parametrize("words", [("", "gold"), ("acme", ""), ("a\nb", "gold"), ("k" * 513, "gold"), ("acme", "t" * 64)])
def test_words_that_are_no_keys_or_tiers(words):
    assert sluice("keys", "set", *words, "--store", "redis://127.0.0.1:1", ok=False).returncode == 2
