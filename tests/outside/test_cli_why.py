"""`sluice why`: why was I rejected at 12:03? From what daemons remember: alone, on a store, after the policy has changed, in a flood, about hostile keys."""
import json
import re
import subprocess
import unicodedata
from datetime import datetime, timedelta, timezone

import pytest
from conftest import BIN, call, connect, eventually
from test_daemon_store import SHARED, eventually_shared, redis  # noqa: F401 (a fixture)

SMALL = """\
version: 1
identity: {order: [api_key, address], headers: {api_key: X-Api-Key}}
endpoints: {dear: {match: ["api:dear"], cost: 9}}
limits:
  - {name: free, rate: 2/h}
  - {name: shut, key: knocker, rate: blocked}
"""
UTC = {"TZ": "UTC"}


@pytest.fixture
def why(sluice):
    """Runs it against a daemon, on UTC's clock."""

    def run(daemon, *args, **more):
        return sluice("why", "--admin", daemon.admin, *args, env={**UTC, **more})

    return run


def remembered(daemon, key, query=""):
    status, _, body = call(daemon.admin, "GET", f"/v1/rejections?key={key}{query}")
    assert status == 200
    return json.loads(body)["rejections"]


def moment(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def printable(text):
    """Nothing in it moves a cursor, changes a terminal or turns text around."""
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp") for c in text)


# ---- one daemon


def test_a_rejection_is_explained(start, why):
    daemon = start(SMALL)
    for _ in range(5):
        daemon.check("acct_8812", "api:search")
    done = why(daemon, "acct_8812")
    assert done.returncode == 0 and done.stderr == ""
    clock = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ"
    assert re.search(rf"^{clock} \.\.\. {clock}  acct_8812 \(api_key\) rejected 3 times by limit `free` \(token_bucket 2/h per key\)$", done.stdout, re.M)
    assert "rate_limited: 0 of 2 were left, it cost 1\n" in done.stdout
    assert "told by  local: this instance's own table, which is all that counts for this limit\n" in done.stdout
    assert re.search(rf"last     {clock}, scope `api:search`; allowed again after \d+ min \d+ s, at .*{clock}, if nothing came between$", done.stdout, re.M)
    assert re.search(r"policy   [0-9a-f]{12}, in force still\n    see      sluice policy explain POLICY 'acct_8812' 'api:search'$", done.stdout, re.M)
    assert "remembers every rejection since it started at" in done.stdout


def test_in_json(start, why):
    daemon = start(SMALL, "--workers", "1")
    before = datetime.now(timezone.utc) - timedelta(milliseconds=30)  # its clock is a coarse one
    for _ in range(4):
        daemon.check("k", keyType="user")
    daemon.check("knocker", "door")
    done = why(daemon, "k", "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    (r,) = answer["rejections"]
    assert (r["key"], r["keyType"], r["scope"], r["policy"], r["reason"], r["source"]) == ("k", "user", "", "free", "rate_limited", "local")
    assert (r["limit"], r["remaining"], r["count"], r["certain"]) == (2, 0, 2, True)
    assert 0 < r["retryAfterMs"] <= 1800000
    assert before <= moment(r["first"]) <= moment(r["last"]) <= moment(answer["now"])
    assert r["limitIs"] == "token_bucket 2/h per key" and "policyVersion" not in r
    assert json.loads(call(daemon.admin, "GET", "/v1/policy")[2])["hash"].startswith(r["policyHash"])
    assert answer["dropped"] == 0 and answer["kept"] == 2 and answer["matching"] == 1
    assert [r["reason"] for r in remembered(daemon, "knocker")] == ["blocked"]
    assert "lets nobody pass" in why(daemon, "knocker").stdout


def test_allowed_requests_and_peeks_are_not_remembered(start, why):
    daemon = start(SMALL)
    daemon.check("k")
    daemon.check("k", cost=0)
    done = why(daemon, "k")
    assert done.returncode == 1 and "no rejection of `k` is remembered by this daemon" in done.stdout
    assert "Other instances remember their own" in done.stdout
    assert json.loads(why(daemon, "k", "--json").stdout)["rejections"] == []


def test_a_cost_that_never_fits(start, why):
    daemon = start(SMALL)
    daemon.check("k", "api:dear")
    done = why(daemon, "k")
    assert "cost_exceeds_limit: it cost 9, and the limit can never hold more than 2\n" in done.stdout
    assert "it would never have been allowed" in done.stdout


def test_at_a_time(start, why):
    daemon = start(SMALL)
    for _ in range(3):
        daemon.check("k")
    (r,) = remembered(daemon, "k")
    at = moment(r["last"])
    for text in (at.strftime("%H:%M"), at.strftime("%H:%M:%S"), at.strftime("%Y-%m-%d %H:%M"), at.strftime("%Y-%m-%dT%H:%M:%SZ")):
        assert why(daemon, "k", "--at", text).returncode == 0, text
    for when in (at - timedelta(minutes=2), at - timedelta(hours=5)):
        done = why(daemon, "k", "--at", when.strftime("%H:%M"))
        assert done.returncode == 1, when
        assert "At other times there were: the latest from" in done.stdout
        assert "What was asked about began before that" in done.stdout
    assert why(daemon, "k", "--at", at.strftime("%H:%M"), TZ="XXX-5").returncode == 1  # five hours apart
    assert why(daemon, "k", "--since", "10m").returncode == 0
    assert why(daemon, "k", "--until", "10m").returncode == 1
    assert why(daemon, "k", "--since", "10m", "--until", (at + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")).returncode == 0


def test_mistakes_are_named(start, why, sluice):
    daemon = start(SMALL)
    for flags, text in ((("--at", "noon"), "--at: `noon` is no time"), (("--at", "12:03x"), "is no time"), (("--since", "25:00"), "is no time"), (("--at", "12:03", "--since", "1m"), "leave --since"),
                        (("--count", "0"), "--count"), (("--key-type", "x" * 80), "keyType")):
        done = why(daemon, "k", *flags)
        assert done.returncode == 2 and text in done.stderr, (flags, done)
    assert sluice("why").returncode == 2
    daemon.stop()
    assert why(daemon, "k").returncode == 3


def test_queries_are_checked(start):
    daemon = start(SMALL)
    for query in ("?kye=k", "?key=k&key=k", "?keyType=user", "?key=%zz", "?limit=0", "?limit=1001", "?limit=1e3", "?since=yesterday", "?since=2026-13-01T00:00:00Z", "?since=2026-02-31T00:00:00Z", "?since=2026-01-01T00:00:00.Z",
                  "?until=2026-01-01T00:00:00", "?until=2026-01-01T00:00:00+2", "?since=99999999999999999999", "?key=" + "x" * 600):
        status, _, body = call(daemon.admin, "GET", "/v1/rejections" + query)
        assert status == 400 and json.loads(body)["detail"], query
    for query in ("", "?since=0", "?since=2026-01-01T00:00:00Z", "?since=2026-01-01T00:00:00.25%2B02:00", "?key=", "?until=1"):
        assert call(daemon.admin, "GET", "/v1/rejections" + query)[0] == 200, query


def test_an_override_of_the_key_is_what_its_limit_is(start):
    daemon = start(SMALL)
    assert call(daemon.admin, "PUT", "/v1/overrides", json.dumps({"key": "k", "rate": "1/h"}))[0] == 200
    for key in ("k", "other"):
        for _ in range(3):
            daemon.check(key)
    assert [remembered(daemon, key)[0]["limitIs"] for key in ("k", "other")] == ["token_bucket 1/h per key", "token_bucket 2/h per key"]


def override(daemon, **what):
    assert call(daemon.admin, "PUT", "/v1/overrides", json.dumps(what))[0] == 200


def test_the_override_that_rejected_is_named(start, why):
    """Blocked or lowered: by whom, until when and why; not one that was set afterwards, and one that is gone by now as such."""
    daemon = start(SMALL)
    override(daemon, key="shut", rate="blocked", until="2099-01-01T00:00:00Z", author="ops@desk", comment="scraper")
    override(daemon, key="low", rate="1/h", author="ann")
    for key in ("shut", "low", "later", "knocker"):
        for _ in range(3):
            daemon.check(key)
    override(daemon, key="later", rate="1/h")
    assert "reason   blocked: blocked by an override of ops@desk, until 2099-01-01T00:00:00.000Z: scraper\n" in why(daemon, "shut").stdout
    assert "    limit    1/h by an override of ann, until it is removed\n" in why(daemon, "low").stdout
    for key in ("later", "knocker"):
        assert "override" not in why(daemon, key).stdout, key
        assert not {"overridden", "override"} & set(remembered(daemon, key)[0]), key
    (shut,), (low,) = remembered(daemon, "shut"), remembered(daemon, "low")
    assert shut["overridden"] and (shut["override"]["author"], shut["override"]["comment"], shut["override"]["rate"]) == ("ops@desk", "scraper", "blocked")
    assert low["overridden"] and low["override"]["rate"] == "1/h" and low["override"]["until"] is None
    for key in ("shut", "low"):
        assert call(daemon.admin, "DELETE", f"/v1/overrides?key={key}")[0] == 200
        (gone,) = remembered(daemon, key)
        assert gone["overridden"] and "override" not in gone, key
    assert "blocked: by an override that is gone or another by now" in why(daemon, "shut").stdout


def test_what_it_cost(start):
    """As asked for, or as endpoint and limit have it; not guessed once another policy is in force, nor for a scope that was cut."""
    daemon = start(SMALL.replace("2/h", "20/h"))
    for key, scope, more in (("own", "api:dear", {"cost": 15}), ("endpoint", "api:dear", {}), ("one", "x", {}), ("cut", "y" * 200, {})):
        for _ in range(21):
            daemon.check(key, scope, **more)
    assert [remembered(daemon, key)[0].get("cost") for key in ("own", "endpoint", "one", "cut")] == [15, 9, 1, None]
    with open(daemon.policy, "w") as f:
        f.write(SMALL.replace("2/h", "21/h"))
    eventually(lambda: daemon.limit("other") == 21, "the new policy is in force")
    assert [remembered(daemon, key)[0].get("cost") for key in ("own", "endpoint")] == [15, None]


def test_what_can_be_pasted_is_quoted(start, why):
    daemon = start(SMALL)
    for _ in range(3):
        daemon.check("it's $(x)", "a'b")
    assert "see      sluice policy explain POLICY 'it'\\''s $(x)' 'a'\\''b'\n" in why(daemon, "it's $(x)").stdout


def test_the_policy_then_and_now(start, why):
    daemon = start(SMALL)
    for _ in range(3):
        daemon.check("k")
    with open(daemon.policy, "w") as f:
        f.write(SMALL.replace("2/h", "5/h"))
    eventually(lambda: daemon.limit("other") == 5, "the new policy is in force")
    done = why(daemon, "k")
    assert "token_bucket" not in done.stdout  # what the limit is now is not what it was
    assert re.search(r"policy   [0-9a-f]{12} then, [0-9a-f]{12} now$", done.stdout, re.M)


def test_every_door_and_worker(start):
    """One key through /check, batches and /auth, on several loops: one entry."""
    daemon = start(SMALL, "--workers", "3")
    for _ in range(8):
        assert call(daemon.http, "POST", "/check", json.dumps([{"key": "k"}, {"key": "other"}]))[0] == 200
        assert call(daemon.http, "GET", "/auth/x", headers={"X-Api-Key": "k"})[0] in (200, 429)
        daemon.check("k")
    (r,) = remembered(daemon, "k")
    assert r["count"] == 24 - 2
    assert remembered(daemon, "other")[0]["count"] == 6


def test_addresses_in_any_spelling(start, why):
    daemon = start(SMALL)
    for spelling in ("2001:db8:0:1::7", "2001:0DB8:0:1::9", "2001:db8:0:1:a:b:c:d"):
        daemon.check(spelling, keyType="address")
    for asked in ("2001:db8:0:1::", "2001:db8:0:1::/64", "2001:DB8:0:1:0:0:0:1"):
        assert why(daemon, asked).returncode == 0, asked
        assert why(daemon, asked, "--key-type", "address").returncode == 0, asked
    assert why(daemon, "2001:db8:0:1::", "--key-type", "user").returncode == 1


def test_tokens(start, why):
    daemon = start(SMALL, "--admin-token", "write", "--admin-read-token", "read")
    for _ in range(3):
        daemon.check("k")
    assert why(daemon, "k").returncode == 3
    assert why(daemon, "k", "--admin-token", "read").returncode == 0
    assert why(daemon, "k", SLUICE_ADMIN_TOKEN="write").returncode == 0


# ---- bounds


def test_a_flood_of_keys_is_bounded_and_told_of(start, why):
    """Whoever sends ever new keys pushes others out of the memory, and it says so."""
    daemon = start("version: 1\nunmatched: deny\nlimits: [{name: known, key: known, rate: 1/h}]\n", "--workers", "1")
    daemon.check("known")
    daemon.check("known")
    assert len(remembered(daemon, "known")) == 1
    for n in range(5):
        assert call(daemon.http, "POST", "/check", json.dumps([{"key": f"flood-{n}-{i}"} for i in range(1000)]))[0] == 200
    answer = json.loads(call(daemon.admin, "GET", "/v1/rejections?limit=1000")[2])
    assert answer["kept"] == 2048 and answer["dropped"] == 5001 - 2048
    assert answer["matching"] == 2048 and len(answer["rejections"]) == 1000
    done = why(daemon, "known")
    assert done.returncode == 1
    assert re.search(r"remembers every rejection since [\dTZ:.-]+; of 2953 earlier entries", done.stdout)
    assert why(daemon, "flood-4-999").returncode == 0
    assert "`unmatched: deny`" in why(daemon, "flood-4-999").stdout


def test_one_keys_flood_pushes_nobody_out(start):
    daemon = start(SMALL, "--workers", "1")
    for _ in range(3):
        daemon.check("quiet")
    for _ in range(10):
        assert call(daemon.http, "POST", "/check", json.dumps([{"key": "loud", "scope": f"s{i}"} for i in range(1000)]))[0] == 200
    assert remembered(daemon, "quiet")[0]["count"] == 1
    assert remembered(daemon, "loud")[0]["count"] == 10000 - 2


def test_hostile_keys_are_shown_safely(start, why):
    """What could act on a terminal, no UTF-8, and 512 bytes of it: in JSON and on the terminal it is harmless, and keys that look alike are told apart."""
    daemon = start(SMALL)
    connection = connect(daemon.http)
    keys = [b"\xff\xfe \xc3(", b"a\xc2\x9b31mred\xc2\x9b0m", "\u202egnp.exe\u200b".encode(), b"\xff" * 512, b"\xff" * 511 + b"x", "\U0001f600 \u00e9".encode() + b"'`$(reboot)"]
    for key in keys:
        for _ in range(3):
            connection.putrequest("GET", "/auth/v1/x")
            connection.putheader("X-Api-Key", key)
            connection.endheaders()
            connection.getresponse().read()
    connection.close()
    status, _, body = call(daemon.admin, "GET", "/v1/rejections")
    answer = json.loads(body.decode("utf-8", "strict"))
    assert len(answer["rejections"]) == len(keys)
    assert all(printable(value) for r in answer["rejections"] for value in r.values() if isinstance(value, str))
    assert len({r["keyId"] for r in answer["rejections"]}) == len(keys)
    long = [r for r in answer["rejections"] if r["key"].startswith("\ufffd" * 96)]
    assert len(long) == 2 and long[0]["key"] == long[1]["key"] == "\ufffd" * 96 + "\u2026"
    for key in keys:
        done = subprocess.run([f"{BIN}/sluice", "why", key, "--admin", daemon.admin], capture_output=True, timeout=60)
        text = done.stdout.decode("utf-8", "strict")
        assert done.returncode == 0 and printable(text), text
        assert text.count("rejected") == 1


# ---- on a store


def test_told_by_the_store_and_remembered_of_it(start, why, redis):
    """The store says no once; what follows is rejected here, by what it said."""
    daemon = start(SHARED.replace("100/h", "2/h"), "--store", redis().start().url, "--timeout", "2s", "--workers", "1")
    eventually_shared(daemon)
    verdicts = [daemon.check("mine")[1] for _ in range(6)]
    assert [v["source"] for v in verdicts if not v["allowed"]] == ["shared", "local", "local", "local"]
    (r,) = remembered(daemon, "mine")
    assert (r["count"], r["source"], r["reason"]) == (4, "local", "rate_limited")
    assert "told by  local: this instance, without asking the store: it remembered the store's no, or had seen enough itself\n" in why(daemon, "mine").stdout
    for _ in range(3):
        last = daemon.check("other")[1]
    assert last["source"] == "shared"
    (r,) = remembered(daemon, "other")
    assert (r["count"], r["source"]) == (1, "shared")
    assert "told by  shared: the store, which all instances share" in why(daemon, "other").stdout


def test_told_for_want_of_the_store(start, why, redis):
    store = redis().start()
    daemon = start(SHARED.replace("on_store_failure: local", "on_store_failure: closed"), "--store", store.url)
    eventually_shared(daemon)
    store.kill()
    eventually(lambda: not daemon.check("k")[1]["allowed"], "the limit is closed")
    (r,) = remembered(daemon, "k")
    assert (r["reason"], r["source"], r["policy"]) == ("store_unavailable", "degraded", "all")
    done = why(daemon, "k")
    assert "store_unavailable: the store did not answer, and the limit is `on_store_failure: closed`" in done.stdout
    assert "told by  degraded: the failure mode" in done.stdout


def test_versions_are_named(start, why, redis, sluice, policy_file):
    store = redis().start()
    path = policy_file(SHARED.replace("100/h", "1/h"))
    assert sluice("policy", "push", path, "--store", store.url).returncode == 0
    daemon = start(path, "--store", store.url, "--policy-source", "store", "--timeout", "2s")
    eventually_shared(daemon)
    eventually(lambda: json.loads(call(daemon.admin, "GET", "/v1/policy")[2])["version"] == 1, "the first version is in force")
    eventually(lambda: not daemon.check("k")[1]["allowed"], "it is rejected")
    (r,) = remembered(daemon, "k")
    assert r["policyVersion"] == 1
    assert "policy   version 1 (" in why(daemon, "k").stdout and "sluice policy explain @1 'k' --store URL\n" in why(daemon, "k").stdout
    assert "sluice policy explain @1 'k'\n" in why(daemon, "k", SLUICE_STORE=store.url).stdout
    assert sluice("policy", "push", policy_file(SHARED.replace("100/h", "7/h")), "--store", store.url).returncode == 0
    eventually(lambda: daemon.limit("x") == 7, "the second version is in force")
    assert re.search(r"policy   version 1 \([0-9a-f]{12}\) then, version 2 \([0-9a-f]{12}\) now$", why(daemon, "k").stdout, re.M)
