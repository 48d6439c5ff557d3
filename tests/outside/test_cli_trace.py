"""`sluice trace`: the decisions about a key as they happen, through every door, on several loops, alone and on a store; bounded, and gone with who asked."""
import json
import re
import signal
import socket
import subprocess
import threading
import time
import unicodedata

import pytest
from conftest import BIN, DEADLINE_S, call, clean_environment, connect, eventually
from test_daemon_store import SHARED, eventually_shared, redis  # noqa: F401 (a fixture)

POLICY = """\
version: 1
identity: {order: [api_key, address], headers: {api_key: X-Api-Key}}
tiers: {default: basic, keys: {acct: gold}}
endpoints: {search: {match: ["api:search*"], cost: 2}}
limits:
  - {name: gold, tier: gold, rate: 5/h}
  - {name: basic, tier: basic, rate: 1000/h}
  - {name: edge, layer: edge, endpoint: search, rate: 1000/h}
  - {name: tight, tier: gold, endpoint: search, rate: 1/h, mode: dry_run}
"""


class Trace:
    """One run of `sluice trace`, armed when it is made."""

    def __init__(self, daemon, *args):
        self.process = subprocess.Popen([f"{BIN}/sluice", "trace", "--admin", daemon.admin, *args], env=clean_environment(), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.first = self.process.stderr.readline().decode()
        assert "waiting for the next" in self.first and "next 1 " not in self.first, self.first + self.process.stderr.read().decode()

    def end(self, status=0):
        """Everything it printed, once it has ended by itself."""
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == status, (self.process.returncode, out, err)
        return out.decode("utf-8", "strict")

    def decisions(self):
        return [json.loads(line) for line in self.end().splitlines()]


def traces(daemon):
    return json.loads(call(daemon.admin, "GET", "/v1/traces")[2])["traces"]


def arm(daemon, query):
    status, _, body = call(daemon.admin, "POST", "/v1/traces?" + query)
    return status, json.loads(body)


def read(daemon, trace, after=0):
    status, _, body = call(daemon.admin, "GET", f"/v1/traces/{trace}?after={after}")
    return json.loads(body) if status == 200 else status


# ---- what is shown


def test_which_limit_and_which_tier_said_no(start):
    daemon = start(POLICY)
    trace = Trace(daemon, "acct", "--count", "3", "--json")
    daemon.check("acct", "api:search/x")
    daemon.check("other", "api:search")
    daemon.check("acct", cost=4)
    daemon.check("acct", keyType="user")  # another key
    daemon.check("acct", "api:search", cost=0)
    one, two, three = trace.decisions()
    assert [d["seq"] for d in (one, two, three)] == [1, 2, 3]
    assert (one["scope"], one["tier"], one["endpoint"], "cost" in one) == ("api:search/x", "gold", "search", False)
    assert one["verdict"]["allowed"] and one["verdict"]["policy"] == "gold" and one["verdict"]["dryRun"]["policy"] == "tight"
    assert [(b["policy"], b["allowed"], b["source"], b["limit"], b["remaining"], b["dryRun"]) for b in one["buckets"]] == [
        ("gold", True, "local", 5, 3, False), ("edge", True, "local", 1000, 998, False), ("tight", False, "local", 1, 1, True)]
    assert (two["scope"], two["endpoint"], two["cost"]) == ("", "", 4)
    assert not two["verdict"]["allowed"] and two["verdict"]["reason"] == "rate_limited"
    assert [(b["policy"], b["allowed"], b["remaining"]) for b in two["buckets"]] == [("gold", False, 3)]
    assert 0 < two["buckets"][0]["nextMs"] <= 3600000
    assert three["cost"] == 0 and three["verdict"]["allowed"]
    assert traces(daemon) == []  # it is gone with who asked


def test_for_people(start):
    daemon = start(POLICY)
    trace = Trace(daemon, "acct", "--count", "2")
    daemon.check("acct", "api:search")
    daemon.check("acct", "x", cost=9)
    text = trace.end()
    assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  allowed  by `gold` \(local\), 3 of 5 left$", text, re.M)
    assert "     scope `api:search`  tier `gold`  endpoint `search`\n" in text
    assert re.search(r"^    yes  edge +local     998 of 1000 left, it cost 2, more in", text, re.M)
    assert re.search(r"^    no   tight +local     1 of 1 left, it cost 2  \(dry run: does not count\)$", text, re.M)
    assert "    dry run: `tight` would have rejected it\n" in text
    assert re.search(r"  rejected cost_exceeds_limit by `gold` \(local\), 3 of 5 left, retry never$", text, re.M)
    assert "scope `x`  cost 9  tier `gold`\n" in text


def override(daemon, **what):
    assert call(daemon.admin, "PUT", "/v1/overrides", json.dumps(what))[0] == 200


def test_overrides_and_costs(start):
    """Which bucket is another than the policy says, by whom; and what the request cost in it."""
    daemon = start(POLICY)
    override(daemon, key="acct", limit="gold", rate="3/h", until="2099-01-01T00:00:00Z", author="ops@desk", comment="slow down")
    trace = Trace(daemon, "acct", "--count", "2", "--json")
    people = Trace(daemon, "acct", "--count", "2")
    daemon.check("acct", "api:search")
    override(daemon, key="acct", limit="gold", rate="blocked", author="ann")
    daemon.check("acct", "api:search")
    one, two = trace.decisions()
    gold, edge, tight = one["buckets"]
    assert (gold["cost"], edge["cost"], tight["cost"]) == (2, 2, 2)
    assert one["overridden"] and gold["overridden"] and "overridden" not in edge and "override" not in edge
    (blocked,) = [b for b in two["buckets"] if b["policy"] == "gold"]
    assert two["verdict"]["reason"] == "blocked" and blocked["override"]["author"] == "ann" and "cost" not in blocked
    text = people.end()
    assert re.search("no +gold +local     blocked; blocked by an override of ann, until it is removed$", text, re.M), text
    assert re.search("yes +gold +local     1 of 3 left, it cost 2, more in [^;]+; (3/h by an override of ops@desk, until 2099-01-01T00:00:00.000Z: slow down|by an override that is gone or another by now)", text), text


def test_an_override_to_unlimited(start):
    daemon = start(POLICY)
    override(daemon, key="acct", limit="gold", rate="unlimited", author="ann")
    trace = Trace(daemon, "acct", "--count", "1")
    daemon.check("acct", "x")
    text = trace.end()
    assert "; unlimited by an override of ann, until it is removed\n" in text, text


def test_the_token_it_takes(start, sluice):
    daemon = start(POLICY, "--admin-token", "write", "--admin-read-token", "read")
    for token in ((), ("--admin-token", "read")):
        done = sluice("trace", "acct", "--admin", daemon.admin, *token)
        assert done.returncode == 3 and "the token that may write" in done.stderr, done


def test_every_door_and_loop(start):
    """/check, elements of batches, /auth, on any of three loops."""
    daemon = start(POLICY, "--workers", "3")
    trace = Trace(daemon, "acct", "--count", "24", "--json")
    for _ in range(8):
        daemon.check("acct", "one")
        assert call(daemon.http, "POST", "/check", json.dumps([{"key": "other"}, {"key": "acct", "scope": "batch"}, {"key": "other"}]))[0] == 200
        call(daemon.http, "GET", "/auth/door", headers={"X-Api-Key": "acct"})
    decisions = trace.decisions()
    assert [d["seq"] for d in decisions] == list(range(1, 25))
    assert [d["scope"] for d in decisions] == ["one", "batch", "GET /door"] * 8
    assert all(d["buckets"][0]["policy"] == "gold" for d in decisions)


def test_a_batch_that_is_bad_is_not_decided(start):
    daemon = start(POLICY)
    trace = Trace(daemon, "acct", "--count", "1", "--json")
    status, _, body = call(daemon.http, "POST", "/check", json.dumps([{"key": "acct"}, {"key": ""}]))
    assert status == 400 and json.loads(body)["field"] == "[1].key"
    assert daemon.remaining("acct") == 5  # and this one is traced
    (decision,) = trace.decisions()
    assert decision["cost"] == 0


def test_scopes_by_a_glob(start):
    daemon = start(POLICY)
    trace = Trace(daemon, "acct", "--scope", "GET /v1/*", "--count", "2", "--json")
    for scope in ("POST /v1/x", "GET /v2/x", "GET /v1/x/y", None, "GET /v1/"):
        daemon.check("acct", scope, cost=0)
    assert [d["scope"] for d in trace.decisions()] == ["GET /v1/x/y", "GET /v1/"]


def test_an_address_in_any_spelling(start):
    daemon = start("version: 1\nlimits: [{name: a, key_type: address, rate: 100/h}]\n")
    trace = Trace(daemon, "2001:db8::7", "--key-type", "address", "--count", "3", "--json")
    for key in ("2001:0DB8::1", "2001:db8:0:1::1", "2001:db8::/64", "2001:db8:0:0:f::"):
        daemon.check(key, keyType="address")
    assert len(trace.decisions()) == 3


# ---- ends


def test_nothing_comes(start):
    daemon = start(POLICY)
    trace = Trace(daemon, "nobody", "--for", "1s")
    daemon.check("acct")
    assert trace.end(status=1) == ""
    assert traces(daemon) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_leaves_takes_it_along(start, number):
    daemon = start(POLICY)
    trace = Trace(daemon, "acct", "--json")
    daemon.check("acct")
    assert json.loads(trace.process.stdout.readline())["seq"] == 1
    trace.process.send_signal(number)
    trace.end()
    assert traces(daemon) == []


def test_the_daemon_goes(start):
    daemon = start(POLICY)
    trace = Trace(daemon, "acct")
    assert daemon.stop() == 0
    trace.end(status=3)


def test_mistakes_are_named(start, sluice):
    daemon = start(POLICY)
    for flags, text in ((("",), "key"), (("k", "--count", "0"), "--count"), (("k", "--count", "1001"), "--count"), (("k", "--for", "11m"), "--for"), (("k", "--for", "10ms"), "--for"),
                        (("not an address", "--key-type", "address"), "key"), (("k", "--scope", "x" * 300), "scope"), (("k\x1b",), "key")):
        done = sluice("trace", "--admin", daemon.admin, *flags)
        assert done.returncode == 2 and text in done.stderr, (flags, done)
    daemon.stop()
    assert sluice("trace", "k", "--admin", daemon.admin).returncode == 3


# ---- the routes


def test_routes(start):
    daemon = start(POLICY, "--admin-token", "write", "--admin-read-token", "read")

    def ask(method, path, token="write"):
        status, headers, body = call(daemon.admin, method, path, headers={"Authorization": f"Bearer {token}"})
        return status, json.loads(body)

    assert ask("POST", "/v1/traces?key=acct", "read")[0] == 403
    assert ask("POST", "/v1/traces?key=acct", "other")[0] == 401
    status, trace = ask("POST", "/v1/traces?key=acct&seconds=600&count=1000&scope=*")
    assert (status, trace["state"], trace["count"], trace["recorded"], trace["scope"], trace["log"]) == (201, "armed", 1000, 0, "*", False)
    assert 590000 < trace["leftMs"] <= 600000
    assert re.fullmatch("[0-9a-f]{16}", trace["id"])
    daemon.check("acct")
    status, answer = ask("GET", f"/v1/traces/{trace['id']}", "read")
    assert status == 200 and answer["recorded"] == 1 and len(answer["decisions"]) == 1
    assert ask("GET", f"/v1/traces/{trace['id']}?after=1", "read")[1]["decisions"] == []
    assert len(ask("GET", "/v1/traces", "read")[1]["traces"]) == 1
    assert ask("DELETE", f"/v1/traces/{trace['id']}", "read")[0] == 403
    for path in ("/v1/traces/", "/v1/traces/0000000000000000", "/v1/traces/" + trace["id"].upper() + "0", f"/v1/traces/{trace['id']}/x", "/v1/traces/zzzzzzzzzzzzzzzz"):
        assert ask("GET", path)[0] == 404, path
    for query in ("", "?key=", "?key=acct&count=0", "?key=acct&seconds=601", "?key=acct&log=yes", "?key=acct&nonsense=1", "?key=a&key=b", "?key=%1b", "?key=acct&keyType="):
        assert ask("POST", "/v1/traces" + query)[0] == 400, query
    assert ask("GET", f"/v1/traces/{trace['id']}?after=-1")[0] == 400
    assert ask("PUT", "/v1/traces")[0] == 405 and ask("DELETE", "/v1/traces")[0] == 405
    assert ask("DELETE", f"/v1/traces/{trace['id']}") == (200, {"ended": True})
    assert ask("DELETE", f"/v1/traces/{trace['id']}")[0] == 404
    assert daemon.log.count("audit: trace ") == 1


def test_there_are_not_too_many(start, sluice):
    daemon = start(POLICY)
    ids = [arm(daemon, f"key=k{i}&count=1")[1]["id"] for i in range(16)]
    assert arm(daemon, "key=one-more")[0] == 409
    done = sluice("trace", "one-more", "--admin", daemon.admin)
    assert done.returncode == 1 and "as many traces as there may be" in done.stderr, "a no, as of every command: nothing is wrong with the request"
    assert len(set(ids)) == 16
    for trace in ids:
        assert call(daemon.admin, "DELETE", f"/v1/traces/{trace}")[0] == 200
    assert arm(daemon, "key=one-more")[0] == 201


def test_a_flood_of_one_key(start):
    """The trace takes what it asked for, in order, and the rest costs nothing."""
    daemon = start(POLICY, "--workers", "2")
    trace = arm(daemon, "key=acct&count=1000")[1]["id"]
    body = json.dumps([{"key": "acct"}] * 1000)
    threads = [threading.Thread(target=lambda: [call(daemon.http, "POST", "/check", body) for _ in range(3)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = []
    while True:
        answer = read(daemon, trace, len(seen))
        assert len(answer["decisions"]) <= 100
        seen += [d["seq"] for d in answer["decisions"]]
        if not answer["decisions"]:
            break
    assert seen == list(range(1, 1001)) and answer["state"] == "complete"


# ---- the log


def decision_lines(daemon):
    return [line for line in daemon.log.splitlines() if re.search('"?msg"?[=:]"decision"', line)]


def test_decisions_in_the_log_as_json(start):
    daemon = start(POLICY, "--log-format", "json")
    Trace(daemon, "acct", "--count", "2", "--log").process.kill()  # it needs no reader
    daemon.check("acct", "say \"hi\" \\ \u00e9", cost=1)
    daemon.check("acct", cost=9)
    eventually(lambda: len(decision_lines(daemon)) == 2, "both are in the log")
    one, two = (json.loads(line) for line in decision_lines(daemon))
    assert all(json.loads(line) for line in daemon.log.splitlines())
    assert (one["msg"], one["level"], one["key"], one["key_type"], one["scope"], one["cost"]) == ("decision", "info", "acct", "api_key", "say \"hi\" \\ \u00e9", 1)
    assert (one["allowed"], one["policy"], one["limit"], one["remaining"], one["tier"], one["seq"]) == (True, "gold", 5, 4, "gold", 1)
    assert one["buckets"] == "gold:local:yes:4/5"
    assert (two["allowed"], two["reason"], two["retry_after_ms"]) == (False, "cost_exceeds_limit", -1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one["at"])


def logfmt(line):
    """The fields of a line, as a reader of logfmt takes them apart."""
    fields = re.findall(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "]+)(?: |$)', line)
    assert " ".join(f"{k}={v}" for k, v in fields) == line, line
    return {k: json.loads(v) if v.startswith('"') else v for k, v in fields}


def test_hostile_keys_in_the_log_and_on_the_terminal(start):
    """Bytes that are no UTF-8, escape sequences of C1, text that is turned around: every line is one line, and harmless."""
    daemon = start(POLICY)
    keys = [b"\xff\xc3( =\"x\" \\", b"a\xc2\x9b31m" + "\u202e\u2028".encode(), b"\xff" * 512]
    for key in keys:
        trace = subprocess.Popen([f"{BIN}/sluice", "trace", key, "--admin", daemon.admin, "--count", "1", "--log"], env=clean_environment(), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        trace.stderr.readline()
        connection = connect(daemon.http)
        connection.putrequest("GET", "/auth/v1/%1b[2J%ff%c2%9b")
        connection.putheader("X-Api-Key", key)
        connection.endheaders()
        connection.getresponse().read()
        connection.close()
        out = trace.communicate(timeout=60)[0].decode("utf-8", "strict")
        assert trace.returncode == 0
        assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp") for c in out), out
    eventually(lambda: len(decision_lines(daemon)) == len(keys), "all are in the log")
    for line in decision_lines(daemon):
        assert all(unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp") for c in line)
        assert logfmt(line)["msg"] == "decision"
    assert logfmt(decision_lines(daemon)[0])["key"] == "\ufffd\ufffd( =\"x\" \\"


# ---- on a store


def test_decisions_that_wait_for_the_store(start, redis):
    """Allowed by the store, rejected by it, rejected here by what it said; also in a batch."""
    daemon = start(SHARED.replace("100/h", "3/h"), "--store", redis().start().url, "--timeout", "2s", "--workers", "1")
    eventually_shared(daemon)
    trace = Trace(daemon, "acct", "--count", "6", "--json")
    daemon.check("acct", "one")
    assert call(daemon.http, "POST", "/check", json.dumps([{"key": "acct", "scope": "two"}, {"key": "x"}, {"key": "acct", "scope": "three"}]))[0] == 200
    for _ in range(3):
        daemon.check("acct", "more")
    decisions = trace.decisions()
    assert sorted(d["scope"] for d in decisions[:3]) == ["one", "three", "two"]
    assert all(d["verdict"]["allowed"] and d["verdict"]["source"] == d["buckets"][0]["source"] == "shared" for d in decisions[:3])
    assert [(d["verdict"]["source"], d["buckets"][0]["source"], d["buckets"][0]["allowed"]) for d in decisions[3:]] == [("shared", "shared", False)] + [("local", "local", False)] * 2
    assert all(d["buckets"][0]["policy"] == "all" for d in decisions)


def test_decisions_for_want_of_the_store(start, redis):
    store = redis().start()
    daemon = start(SHARED, "--store", store.url)
    eventually_shared(daemon)
    store.kill()
    trace = Trace(daemon, "acct", "--count", "1", "--json")
    daemon.check("acct")
    (decision,) = trace.decisions()
    assert decision["verdict"]["source"] == decision["buckets"][0]["source"] == "degraded"
