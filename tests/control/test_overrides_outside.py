"""Overrides of single keys from outside: on every instance of a store, in time, over restarts and outages, through the admin listener and the command line."""
import datetime
import json
import os
import signal
import threading
import time

import pytest
from command import Command
from fleet import outside
from stores import Resp, until

POLICY = """\
version: 1
limits:
  - {name: all, rate: 100/h, on_store_failure: local}
  - {name: users, key_type: user, rate: 10/h, on_store_failure: local}
  - {name: door, layer: door, per: [], rate: 1000000/h, on_store_failure: local}
"""


def limit(daemon, key="k", **more):
    return daemon.verdict(key, cost=0, **more)["limit"]


def wait_limit(daemons, wanted, key="k"):
    for one in daemons:
        until(lambda: limit(one, key) == wanted, lambda: f"{one.http} has a limit of {limit(one, key)}, not {wanted}:\n{one.log}")


def overrides(daemon, method="GET", body=None, query="", headers=None):
    status, _, data = outside.call(daemon.admin, method, "/v1/overrides" + query, json.dumps(body) if body else None, headers or {})
    return status, json.loads(data)


def put(daemon, **body):
    status, answer = overrides(daemon, "PUT", body)
    assert status == 200, (status, answer)
    return answer


def at(seconds):
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Admin(Command):
    """`sluice` on one daemon."""

    def __init__(self, daemon):
        self.env = outside.clean_environment(SLUICE_ADMIN=f"http://{daemon.admin}")


@pytest.fixture
def path(fleet):
    return fleet.policy(POLICY)


@pytest.fixture
def two(fleet, redis, path):
    return [one.wait_shared() for one in fleet.fleet(2, path, redis.url)]


@pytest.fixture
def alone(fleet, path, tmp_path):
    """alone(*flags) -> a daemon without a store."""
    return lambda *flags: fleet.daemon(path, "memory:", *flags)


# ---- on a store


def test_an_override_reaches_every_instance(two, sluice):
    near, far = two
    assert [limit(d) for d in two] == [100, 100]
    answer = put(near, key="k", rate="9000/h", comment="migrates", author="ann")
    assert answer["keptIn"] == "store" and answer["old"] is None and answer["new"]["rate"] == "9000/h"
    assert limit(near) == 9000, "in force here when it is answered"
    wait_limit([far], 9000)
    assert limit(far, "other") == 100 and limit(far, "k", keyType="user") == 10
    for one in two:
        until(lambda: one.metrics()["sluice_overrides_revision"] == 1, "the revision is told")
        assert one.metrics()["sluice_overrides"] == 1 and one.metrics()["sluice_policy_version"] == 0
        status, listed = overrides(one)
        assert status == 200 and [o["state"] for o in listed["overrides"]] == ["active"]
    assert "audit: override of key k (api_key), limit any: none -> 9000/h, by ann, through 127.0.0.1" in near.log
    status, answer = overrides(far, "DELETE", query="?key=k&author=bob")
    assert status == 200 and answer["op"] == "remove"
    wait_limit(two, 100)
    assert "9000/h -> none, by bob" in far.log
    assert [e["op"] for e in overrides(near, query="?log=9")[1]["log"]] == ["remove", "set"]
    assert [e["op"] for e in overrides(near, query="?log=1")[1]["log"]] == ["remove"]


def test_the_command_line_changes_the_store(two, sluice):
    entry = sluice.json("override", "set", "k", "--rate", "7000/h", "--burst", "50", "--limit", "all", "--until", "1h", "--author", "ann")
    assert entry["new"]["burst"] == 50 and "note" in entry, "there is no version to hold it against"
    wait_limit(two, 50)
    shown = sluice.json("override", "list")["overrides"][0]
    assert (shown["key"], shown["limit"], shown["state"]) == ("k", "all", "unknown")
    assert "7000/h burst 50" in sluice("override", "list").stdout
    assert "none -> 7000/h burst 50" in sluice("override", "history").stdout
    sluice("override", "remove", "k", status=1)  # that would be the one without a limit
    sluice("override", "remove", "k", "--limit", "all", "--comment", "done")
    wait_limit(two, 100)
    assert [e["comment"] for e in sluice.json("override", "history", "--count", "1")["log"]] == ["done"]
    sluice("override", "remove", "k", "--limit", "all", status=1)


def test_the_store_s_policy_is_asked_before_an_override_is_set(two, sluice, path):
    sluice("policy", "push", path)
    run = sluice("override", "set", "k", "--rate", "5/h", "--limit", "none", status=1)
    assert "no limit `none`" in run.stderr and "nothing was changed" in run.stderr
    run = sluice("override", "set", "k", "--rate", "5/h", "--limit", "door", status=1)
    assert "does not separate by key" in run.stderr
    assert "note" not in sluice.json("override", "set", "k", "--rate", "5/h")
    wait_limit(two, 5)
    assert sluice.json("override", "list")["overrides"][0]["state"] == "active"
    told = sluice.json("policy", "explain", "@current", "k")
    assert [(o["limit"], o["rate"]) for o in told["overrides"]] == [("all", "5/h")] and told["buckets"][0]["effective"] == "5/h"
    assert "override  all: token_bucket 5/h per key, in place of token_bucket 100/h per key" in sluice("policy", "explain", "@current", "k").stdout
    assert sluice.json("policy", "explain", "@current", "other")["overrides"] == []


def test_an_override_ends_in_time_also_where_the_store_is_cut_off(fleet, redis, path):
    proxy = fleet.proxy(redis.port)
    near, far = fleet.daemon(path, redis.url).wait_shared(), fleet.daemon(path, proxy.url).wait_shared()
    put(near, key="k", rate="9000/h", until=at(4))
    put(near, key="stays", rate="500/h")
    wait_limit([near, far], 9000)
    wait_limit([near, far], 500, "stays")
    proxy.set("drop")
    until(lambda: far.source("k") == "degraded", "it is cut off")
    wait_limit([near], 100)
    until(lambda: all(o["key"] != "k" for o in overrides(far)[1]["overrides"]), "it has ended there too")
    assert [o["key"] for o in overrides(far)[1]["overrides"]] == ["stays"], "what has not ended stays"
    assert "1 override ended" in far.log and "1 override ended" in near.log
    put(near, key="late", rate="700/h")
    proxy.set("pass")
    wait_limit([far], 700, "late")
    assert [e["op"] for e in overrides(near, query="?log=3")[1]["log"]][:2] == ["set", "expire"], "dropped by the next change"


def test_an_instance_that_stood_still_catches_up(two):
    near, far = two
    put(near, key="k", rate="9000/h")
    wait_limit(two, 9000)
    os.kill(far.process.pid, signal.SIGSTOP)
    put(near, key="k", rate="8000/h")
    put(near, key="j", rate="blocked")
    os.kill(far.process.pid, signal.SIGCONT)
    wait_limit([far], 8000)
    until(lambda: far.verdict("j")["reason"] == "blocked", "the whole list is there")


def test_a_restart_without_the_store_has_what_has_not_ended(fleet, redis, path, tmp_path):
    state = str(tmp_path / "state")
    one = fleet.daemon(path, redis.url, "--state", state).wait_shared()
    put(one, key="k", rate="9000/h")
    put(one, key="soon", rate="9000/h", until=at(1))
    one.stop()
    redis.kill()
    time.sleep(1)  # until its end has passed, whatever the daemons do
    again = fleet.daemon(path, redis.url, "--state", state)
    assert "kept in" in again.log
    listed = overrides(again)[1]
    assert [o["key"] for o in listed["overrides"]] == ["k"]
    assert again.metrics()["sluice_overrides"] == 1
    status, answer = overrides(again, "PUT", {"key": "k", "rate": "1/h"})
    assert status == 503 and "detail" in answer, "a change needs the store"
    assert [o["rate"] for o in overrides(again)[1]["overrides"]] == ["9000/h"]


def test_a_store_that_lost_its_data_takes_nothing_away(two, redis):
    near, far = two
    put(near, key="k", rate="9000/h")
    wait_limit(two, 9000)
    Resp(redis.socket_path).call("DEL", *[f"sluice:{{fleet}}:overrides{rest}" for rest in ("", ":ends", ":revision", ":log")])
    until(lambda: "knows of no overrides any more" in far.log, "it is told")
    assert limit(far) == 9000
    put(near, key="j", rate="700/h")
    wait_limit([far], 700, "j")
    wait_limit([far], 100)


def test_a_policy_that_has_no_place_for_an_override_is_taken_all_the_same(fleet, two, sluice, path):
    near = two[0]
    put(near, key="k", rate="9000/h", limit="all")
    sluice("policy", "push", fleet.policy("version: 1\nlimits: [{name: new, rate: 300/h, on_store_failure: local}]\n"))
    wait_limit(two, 300)
    shown = overrides(near)[1]["overrides"][0]
    assert shown["state"] == "inactive" and "no limit `all`" in shown["why"] and near.metrics()["sluice_overrides"] == 0
    assert near.log.count("is inactive: the policy has no limit `all`") == 1
    sluice("policy", "push", path)
    wait_limit(two, 9000)
    assert overrides(near)[1]["overrides"][0]["state"] == "active"


def test_buckets_keep_their_state_under_an_override(two):
    near, far = two
    assert all(near.verdict("spender")["allowed"] for _ in range(50))
    put(near, key="spender", rate="200/h")
    wait_limit([far], 200, "spender")
    # A debt in time: 50 tokens at 100 an hour are 100 at 200.
    assert far.verdict("spender", cost=0)["remaining"] in (100, 101)
    buckets = json.loads(near.ask(near.admin, "GET", "/v1/buckets?key=spender")[1])["buckets"]
    assert [b["limit"] for b in buckets if b["name"] == "all"] == [200]
    near.ask(near.admin, "DELETE", "/v1/buckets?key=spender")
    left = json.loads(far.ask(far.admin, "GET", "/v1/buckets?key=spender")[1])["buckets"]
    assert not [b for b in left if b["name"] == "all"], "one that is whole is not listed"
    assert "audit: reset of the buckets of key spender (api_key)" in near.log


def test_there_are_not_too_many_and_a_store_that_refuses_is_no_conflict(two, redis, sluice):
    near = two[0]
    put(near, key="k", rate="9000/h")
    name = next(key for key in redis.keys() if key.decode().endswith(":overrides")).decode()
    redis.do("EVAL", "for i = 2, 10000 do redis.call('HSET', KEYS[1], 'x' .. i, '{}') end", "1", name)
    status, answer = overrides(near, "PUT", {"key": "j", "rate": "5/h"})
    assert status == 409 and "10000" in answer["detail"]
    assert "10000" in sluice("override", "set", "j", "--rate", "5/h", status=1).stderr
    assert overrides(near, "PUT", {"key": "k", "rate": "8000/h"})[0] == 200, "one that is there may be set anew"
    redis.do("CONFIG", "SET", "maxmemory", "1")
    status, answer = overrides(near, "PUT", {"key": "k", "rate": "7000/h"})
    assert status == 502 and "refuses" in answer["detail"]
    assert limit(near) == 8000


# ---- without a store


def test_without_a_store_the_state_folder_keeps_them(alone, tmp_path):
    state = str(tmp_path / "state")
    one = alone("--state", state)
    assert put(one, key="k", rate="9000/h", comment="stays")["keptIn"] == "state"
    assert limit(one) == 9000
    one.kill()
    again = alone("--state", state)
    assert limit(again) == 9000
    listed = overrides(again, query="?log=1")[1]
    assert listed["revision"] == 1 and [e["comment"] for e in listed["log"]] == ["stays"]
    assert put(again, key="j", rate="5/h")["revision"] == 2
    again.stop()
    with open(os.path.join(state, "overrides.json"), "w") as f:
        f.write('{"format":"sluice-overrides 1","over')
    broken = alone("--state", state)
    assert limit(broken) == 100 and "overrides that were kept cannot be used" in broken.log
    assert os.path.exists(os.path.join(state, "overrides.json.unreadable"))


def test_without_a_state_folder_the_answer_says_that_it_is_gone_at_a_restart(alone):
    one = alone()
    sluice = Admin(one)
    run = sluice("override", "set", "k", "--rate", "9000/h", "--until", at(3600))
    assert "gone at a restart" in run.stdout
    assert limit(one) == 9000
    assert "memory alone" in sluice("override", "list").stdout
    one.stop()
    assert limit(alone()) == 100


def test_an_override_ends_without_a_store(alone):
    one = alone()
    put(one, key="k", rate="9000/h", until=at(0.7))
    assert limit(one) == 9000
    wait_limit([one], 100)
    assert overrides(one)[1]["overrides"] == []


def test_a_reload_keeps_overrides_and_an_override_is_no_reload(alone, path):
    one = alone()
    version = one.metrics()["sluice_policy_version"]
    put(one, key="k", rate="9000/h")
    assert one.metrics()["sluice_policy_version"] == version
    with open(path, "w") as f:
        f.write(POLICY.replace("100/h", "300/h"))
    wait_limit([one], 300, "other")
    assert limit(one) == 9000
    with open(path, "w") as f:
        f.write("broken: [")
    until(lambda: one.sum("sluice_policy_reloads_total", result="failed") >= 1, "it was refused")
    put(one, key="j", rate="700/h")  # the file on the disk does not matter
    assert (limit(one), limit(one, "j"), limit(one, "other")) == (9000, 700, 300)


# ---- what is refused


def test_wrong_requests_name_the_field(alone):
    one = alone()
    for body, status, field, part in [
            ({"rate": "5/h"}, 400, "key", "key is missing"),
            ({"key": "k"}, 400, "rate", "rate is missing"),
            ({"key": "", "rate": "5/h"}, 400, "key", "1 ... 512 bytes"),
            ({"key": "k" * 513, "rate": "5/h"}, 400, "key", "1 ... 512 bytes"),
            ({"key": "a\nb", "rate": "5/h"}, 400, "key", "control characters"),
            ({"key": "k", "rate": "0/h"}, 400, "rate", "blocked"),
            ({"key": "k", "rate": "5/h", "burst": 0}, 400, "burst", "whole number"),
            ({"key": "k", "rate": "1/366d", "burst": 1000}, 400, "burst", "100 years"),
            ({"key": "k", "rate": "blocked", "burst": 5}, 400, "burst", "no burst"),
            ({"key": "k", "rate": "5/h", "until": "tomorrow"}, 400, "until", "2026-12-31T18:00:00Z"),
            ({"key": "k", "rate": "5/h", "until": "2020-01-01T00:00:00Z"}, 400, "until", "passed"),
            ({"key": "k", "rate": "5/h", "colour": 1}, 400, "colour", "unknown"),
            ({"key": "k", "rate": "5/h", "comment": "x" * 1025}, 400, "comment", "1024"),
            ({"key": "k", "rate": "5/h", "limit": "nope"}, 422, None, "no limit `nope`"),
            ({"key": "k", "rate": "5/h", "limit": "door"}, 422, None, "does not separate by key"),
            ({"key": "k", "rate": "5/h", "limit": "users"}, 422, None, "keys of type `user`"),
            ({"key": "me", "keyType": "address", "rate": "5/h"}, 422, None, "no IP address")]:
        got, answer = overrides(one, "PUT", body)
        assert got == status and answer.get("field") == field and part in answer["detail"], (body, got, answer)
    for raw in (b"", b"[]", b'{"key":"k","key":"k","rate":"5/h"}', b'{"key":"k","rate":"5/h"', b'{"key":"\xff","rate":"5/h"}'):
        assert outside.call(one.admin, "PUT", "/v1/overrides", raw, {})[0] == 400
    for query in ("", "?key=", "?key=a&key=b", "?limit=all", "?key=a&colour=1", "?key=%ff", "?key=a%00b"):
        assert overrides(one, "DELETE", query=query)[0] == 400, query
    assert overrides(one, "DELETE", query="?key=nobody")[0] == 404
    for query in ("?log=-1", "?log=1001", "?log=x", "?logs=1"):
        assert overrides(one, query=query)[0] == 400, query
    assert overrides(one)[1]["overrides"] == [] and overrides(one)[1]["revision"] == 0


def test_the_command_line_says_what_is_wrong(alone, tmp_path):
    one = alone()
    sluice = Admin(one)
    assert "--rate" in sluice("override", "set", "k", status=2).stderr
    assert "--rate" in sluice("override", "set", "k", "--rate", "5", status=2).stderr
    assert "--until" in sluice("override", "set", "k", "--rate", "5/h", "--until", "later", status=2).stderr
    assert "no limit `nope`" in sluice("override", "set", "k", "--rate", "5/h", "--limit", "nope", status=1).stderr
    sluice("override", "remove", "k", status=1)
    comment = "\u20ac" * 341  # 9 bytes each in a query, as of the key: 4.6 KB in all
    sluice("override", "set", "k" + "\u20ac" * 170, "--rate", "5/h", "--comment", comment)
    sluice("override", "remove", "k" + "\u20ac" * 170, "--comment", comment)
    assert [e["comment"] for e in sluice.json("override", "history")["log"]] == [comment, comment], "whole, not what fits into a buffer"
    sluice("override", "list", "--admin", "unix:" + str(tmp_path / "nobody"), status=3)
    sluice("override", "list", "--store", "redis+unix://" + str(tmp_path / "nobody"), status=3, env={"SLUICE_ADMIN": ""})


def test_a_token_that_may_only_read_lists_and_changes_nothing(alone):
    one = alone("--admin-token", "all", "--admin-read-token", "look")
    read, everything = {"Authorization": "Bearer look"}, {"Authorization": "Bearer all"}
    assert overrides(one)[0] == 401
    assert overrides(one, headers=read)[0] == 200
    assert overrides(one, "PUT", {"key": "k", "rate": "5/h"}, headers=read)[0] == 403
    assert overrides(one, "DELETE", query="?key=k", headers=read)[0] == 403
    assert overrides(one, "PUT", {"key": "k", "rate": "5/h"}, headers=everything)[0] == 200
    assert "through 127.0.0.1 with the admin token" in one.log and limit(one) == 5


# ---- under load


def test_reloads_and_overrides_under_load_lose_and_mix_up_nothing(alone, path):
    """One thread changes the policy, one the override of a key, one asks: every answer is one of those that are possible, for that key and for the others."""
    one = alone()
    stop = threading.Event()
    wrong = []

    def change_policy():
        i = 0
        while not stop.is_set():
            i += 1
            next_path = path + ".next"
            with open(next_path, "w") as f:
                f.write(POLICY.replace("100/h", ("100/h", "300/h")[i % 2]))
            os.replace(next_path, path)
            outside.call(one.admin, "POST", "/v1/reload", None, {})

    def change_override():
        i = 0
        while not stop.is_set():
            i += 1
            if i % 3:
                overrides(one, "PUT", {"key": "k", "rate": ("7/h", "8/h")[i % 2]})
            else:
                overrides(one, "DELETE", query="?key=k")

    threads = [threading.Thread(target=work) for work in (change_policy, change_override)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(1500):
            batch = json.loads(one.ask(one.http, "POST", "/check", json.dumps([{"key": key, "cost": 0} for key in ("k", "a", "k", "b")]))[1])
            limits = [verdict["limit"] for verdict in batch]
            if limits[0] not in (7, 8, 100, 300) or limits[0] != limits[2] or limits[1] not in (100, 300) or limits[1] != limits[3]:
                wrong.append(limits)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:5]
    assert one.sum("sluice_policy_reloads_total", result="failed") == 0


TIERS = """\
version: 1
tiers: {default: free, keys: {vip: enterprise}}
limits:
  - {name: free, tier: free, rate: 10/h, on_store_failure: local}
  - {name: enterprise, tier: enterprise, rate: 1000/h, on_store_failure: local}
"""


def test_what_a_change_says_is_the_same_through_daemon_and_store(fleet, redis, sluice, alone, tmp_path):
    """What it stands in the place of, what was there before, where it counts; and which others there are when one is not."""
    file = fleet.policy(TIERS)
    sluice("policy", "push", file)
    for way in (sluice, Admin(fleet.daemon(file, "memory:"))):
        said = way("override", "set", "u4", "--limit", "enterprise", "--rate", "9000/m", "--until", "2099-01-01T00:00:00Z").stdout
        assert said.startswith("u4 (api_key), enterprise: 9000/m, in place of limit `enterprise`: token_bucket 1000/h per key; no override before; until 2099-01-01T00:00:00.000Z\n"
                               "note: it counts only where limit `enterprise` wins: tier `enterprise`\n"), said
        assert "; the override before was 9000/m\n" in way("override", "set", "u4", "--limit", "enterprise", "--rate", "8000/m").stdout
        (listed,) = way.json("override", "list")["overrides"]
        assert listed["where"] == "counts only where limit `enterprise` wins: tier `enterprise`" and listed["set"] and listed["limits"] == 1
        text = way("override", "list").stdout
        assert f" at {listed['set']}\n" in text and "\n    counts only where limit `enterprise` wins" in text
        gone = way("override", "remove", "u4", status=1).stderr
        assert gone == "sluice: there is no such override; of this key there is one for limit `enterprise`\n"
        assert way("override", "remove", "u4", "--limit", "enterprise").stdout == "u4 (api_key), enterprise: removed, the override was 8000/m\n"
        assert way("override", "remove", "u4", status=1).stderr == "sluice: there is no such override\n"
        assert "9000/m, in place of 2 limits; no override before\n" in way("override", "set", "u4", "--rate", "9000/m").stdout
        assert way.json("override", "set", "u4", "--rate", "1/m")["where"] is None


def test_others_of_a_key_in_the_store_are_named_by_a_daemon(two, sluice):
    put(two[0], key="k", rate="5/h", limit="all")
    status, answer = overrides(two[0], "DELETE", query="?key=k")
    assert status == 404 and answer["detail"] == "There is no such override; of this key there is one for limit `all`."
