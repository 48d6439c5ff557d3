"""A candidate beside the policy of a daemon without a store: over HTTP, and with the command line."""
import json
import os
import pty
import re
import signal
import subprocess

import pytest
from conftest import Shadow, counts, outside, policy_text
from stores import until


@pytest.fixture
def path(fleet):
    return fleet.policy(policy_text(10))


@pytest.fixture
def one(fleet, path):
    return Shadow(fleet.daemon(path, "memory:"))


def spend(daemon, key, n):
    return [daemon.verdict(key) for _ in range(n)]


def test_what_it_would_have_decided_otherwise(one):
    assert one.report() == {"active": False}
    one.start(policy_text(4, "strict"), "?author=ann&comment=too%20much")
    assert [v["allowed"] for v in spend(one.daemon, "k", 12)] == [True] * 10 + [False] * 2
    report = one.compared(12)
    assert counts(report) == (4, 2, 6, 0)
    assert (report["candidate"]["author"], report["candidate"]["comment"], report["candidate"]["limits"]) == ("ann", "too much", 1)
    assert report["candidate"]["longestMs"] == 3600000
    assert report["limits"] == [{"name": "strict", "allowed": 4, "rejected": 2, "newlyRejected": 6, "newlyAllowed": 0}]
    assert report["liveLimits"] == [{"name": "free", "allowed": 4, "rejected": 2, "newlyRejected": 6, "newlyAllowed": 0}]
    assert report["keys"]["newlyRejected"] == [{"limit": "strict", "key": "k", "keyType": "api_key", "atLeast": 6, "atMost": 6}]
    metrics = one.daemon.metrics()
    assert metrics["sluice_shadow_active"] == 1
    assert metrics['sluice_shadow_decisions_total{result="newly_rejected"}'] == 6
    assert metrics['sluice_shadow_decisions_total{result="same"}'] == 6
    assert metrics["sluice_shadow_dropped_total"] == 0
    # Another candidate takes its place, and counts begin anew.
    one.start(policy_text(20, "loose"))
    assert one.report()["decisions"] == 0
    spend(one.daemon, "other", 12)
    assert counts(one.compared(12)) == (10, 0, 0, 2)
    assert one.report()["keys"]["newlyAllowed"][0]["limit"] == "free", "the live limit is the one that rejects"
    assert one.ask("DELETE") == (200, {"stopped": True})
    assert one.report() == {"active": False}
    assert one.ask("DELETE")[0] == 404
    assert one.daemon.metrics()["sluice_shadow_active"] == 0
    one.daemon.wait_log(r"audit: candidate [0-9a-f]{12} by ann was started through 127\.0\.0\.1")
    one.daemon.wait_log(r"audit: the candidate was stopped by .* through 127\.0\.0\.1")


def test_every_door_and_every_dimension_is_rehearsed(one, fleet):
    """Batches, /auth, tiers, labels, addresses and costs reach the candidate as they reach the live policy."""
    one.start("version: 1\ntiers: {default: free}\nlimits:\n"
              "  - {name: pro, tier: pro, rate: 2/h}\n  - {name: labelled, labels: {region: eu}, rate: 3/h, layer: labels}\n"
              "  - {name: by-address, per: [address], rate: 5/h, layer: addresses}\n")
    body = [{"key": "k", "tier": "pro", "labels": {"region": "eu"}, "address": "192.0.2.9"}, {"key": "k", "tier": "pro", "cost": 2},
            {"key": "192.0.2.9", "keyType": "address", "cost": 5}]
    assert outside.call(one.daemon.http, "POST", "/check", json.dumps(body), {"Content-Type": "application/json"})[0] == 200
    assert outside.call(one.daemon.http, "GET", "/auth/v1/x")[0] == 200
    report = one.compared(4)
    assert report["refused"] == 0
    assert {(k["limit"], k["key"]) for k in report["keys"]["newlyRejected"]} == {("pro", "k"), ("by-address", "192.0.2.9")}, report


def test_the_live_policy_decides_as_without_a_shadow(fleet, path):
    """Every field of every verdict, and every bucket, but for what tells the time."""
    with_shadow, without = (Shadow(fleet.daemon(path, "memory:")) for _ in range(2))
    with_shadow.start(policy_text(3))

    def timeless(value):
        if isinstance(value, dict):
            return {k: timeless(v) for k, v in value.items() if not k.endswith(("AfterMs", "AtMs", "At", "reset"))}
        return [timeless(v) for v in value] if isinstance(value, list) else value

    for i in range(60):
        key, cost = f"k{i % 4}", i % 3
        assert timeless(with_shadow.daemon.verdict(key, cost=cost)) == timeless(without.daemon.verdict(key, cost=cost)), i
    with_shadow.compared(60)
    for key in ("k0", "k1", "k2", "k3"):
        buckets = [s.ask("GET", f"/v1/buckets?key={key}")[1] for s in (with_shadow, without)]
        assert timeless(buckets[0]) == timeless(buckets[1]) and buckets[0]["buckets"]
    names = ("sluice_decisions_total", "sluice_limit_checks_total", "sluice_unmatched_total")
    one, other = ({k: v for k, v in s.daemon.metrics().items() if k.startswith(names)} for s in (with_shadow, without))
    assert one == other


def test_a_broken_candidate_is_refused_with_its_findings(one):
    status, answer = one.ask("PUT", body="version: 1\nlimits:\n  - {name: x, rate: 0/s}\n  - {nam: y}\n")
    assert status == 422 and "andidate:3:" in answer["detail"] and "limits[0].rate" in answer["detail"], answer
    assert one.report() == {"active": False}
    one.start(policy_text(4))
    assert one.ask("PUT", body="x: [")[0] == 422
    assert one.ask("PUT", body="")[0] == 400
    assert one.report()["active"] and one.report()["candidate"]["limits"] == 1


def test_another_live_policy_begins_the_counts_anew(one, path):
    one.start(policy_text(4))
    spend(one.daemon, "k", 12)
    before = one.compared(12)
    with open(path, "w") as f:
        f.write(policy_text(30))
    until(lambda: one.report()["liveChanged"], "the change is seen")
    report = one.report()
    assert report["decisions"] == 0 and report["live"]["hash"] != before["live"]["hash"] == report["against"]["hash"]
    spend(one.daemon, "fresh", 12)
    assert counts(one.compared(12)) == (4, 0, 8, 0)


def test_overrides_lie_over_the_candidate_too(one):
    override = {"key": "big", "rate": "50/h"}
    status, answer = one.ask("PUT", "/v1/overrides", json.dumps(override), Content_Type="application/json")
    assert status in (200, 201), answer
    one.start(policy_text(4))
    spend(one.daemon, "big", 20)
    assert counts(one.compared(20)) == (20, 0, 0, 0)


def test_dry_runs_per_limit_and_key(fleet):
    text = policy_text(10) + "  - {name: trial, layer: trial, rate: 3/h, mode: dry_run}\n"
    one = Shadow(fleet.daemon(fleet.policy(text), "memory:"))
    spend(one.daemon, "k", 5)
    one.daemon.verdict("a" * 100, cost=4)
    status, report = one.ask("GET", "/v1/dry-run")
    assert status == 200 and report["wouldReject"] == 3
    assert report["limits"] == [{"name": "trial", "allowed": 3, "rejected": 3}]
    assert [(k["limit"], k["key"], k["atLeast"]) for k in report["keys"]] == [("trial", "k", 2), ("trial", "a" * 64 + "\u2026", 1)]
    shown = one.sluice("policy", "dry-run").stdout
    assert "3 requests would have been rejected" in shown and re.search(r"^k +api_key +trial +2$", shown, re.M), shown
    one.sluice("policy", "dry-run", "--reset")
    assert one.ask("GET", "/v1/dry-run")[1]["keys"] == []
    one.daemon.wait_log(r"audit: what dry-run limits would have rejected was forgotten through 127\.0\.0\.1")
    assert one.ask("GET", "/v1/dry-run?x=1")[0] == 400


def test_the_command_line_starts_shows_and_stops(one, fleet):
    candidate = fleet.policy(policy_text(4, "strict"))
    assert "no candidate" in one.sluice("policy", "shadow", status=1).stdout
    one.sluice("policy", "shadow", candidate, "--comment", "why not")
    spend(one.daemon, "k", 12)
    one.compared(12)
    shown = one.sluice("policy", "shadow").stdout
    for line in (r"Candidate \(.{12}, 1 limits\) by .+: why not", r"12 decisions compared", r"newly rejected +6 +50\.0 %",
                 r"^strict +4 +2 +6 +0$", r"^k +api_key +strict +6$", r"whole buckets"):
        assert re.search(line, shown, re.M), (line, shown)
    assert one.sluice("policy", "shadow", "--json").stdout.startswith('{"active":true')
    assert "stopped" in one.sluice("policy", "shadow", "--stop").stdout
    one.sluice("policy", "shadow", "--stop", status=1)
    one.sluice("policy", "shadow", fleet.policy("version: 1\nlimits: [{name: x, rate: 0/s}]\n"), status=1)
    one.sluice("policy", "shadow", "/nowhere.yaml", status=1)
    one.sluice("policy", "shadow", candidate, "--stop", status=2)
    assert one.report() == {"active": False}


def test_a_terminal_is_refreshed_until_ctrl_c(one, fleet):
    master, slave = pty.openpty()
    run = subprocess.Popen([outside.SLUICE, "policy", "shadow", fleet.policy(policy_text(4)), "--color", "never"], stdin=slave, stdout=slave,
                           stderr=slave, env=one.env)
    os.close(slave)
    text = b""
    try:
        while text.count(b"Candidate") < 2:
            text += os.read(master, 4096)
        run.send_signal(signal.SIGINT)
        while b"goes on beside" not in text:
            text += os.read(master, 4096)
        assert run.wait(timeout=20) == 0
    finally:
        run.kill()
        run.wait()
        os.close(master)
    assert one.report()["active"]


def test_promoting_writes_the_file(one, path, fleet):
    assert "sluice policy shadow FILE" in one.sluice("policy", "promote", status=1).stderr
    one.start(policy_text(4, "strict"))
    refused = one.sluice("policy", "promote", "--force", status=1)
    assert "--policy FILE" in refused.stderr
    os.chmod(path, 0o640)
    link = path + ".link"
    os.symlink(path, link)
    with open(path) as f:
        was = f.read()
    assert "--force" in one.sluice("policy", "promote", "--policy", link, status=1).stderr, "nothing is known of it"
    with open(path) as f:
        assert f.read() == was
    spend(one.daemon, "k", 1)
    one.compared(1)
    done = one.sluice("policy", "promote", "--policy", link)
    assert "in force" in done.stdout and path + ".before" in done.stdout
    with open(path + ".before") as f:
        assert f.read() == was and os.stat(path + ".before").st_mode & 0o777 == 0o640
    assert os.path.islink(link) and os.stat(path).st_mode & 0o777 == 0o640
    with open(path) as f:
        assert f.read() == policy_text(4, "strict")
    assert one.daemon.verdict("k")["policy"] == "strict"
    assert one.report() == {"active": False}
    assert sorted(os.path.basename(p) for p in (path, link, path + ".before")) == sorted(n for n in os.listdir(os.path.dirname(path)) if n.startswith(os.path.basename(path)))


def test_promoting_over_a_file_that_was_changed_is_refused(one, path):
    """Somebody edited the file since the comparison began: it is left alone."""
    one.start(policy_text(4))
    with open(path, "w") as f:
        f.write(policy_text(30))
    until(lambda: one.daemon.verdict("probe", cost=0)["limit"] == 30, "the edit is taken")
    refused = one.sluice("policy", "promote", "--policy", path, "--force", status=1)
    assert "is not the policy that the candidate was started beside" in refused.stderr
    with open(path) as f:
        assert f.read() == policy_text(30)
    assert one.report()["active"]


def test_a_misspelt_candidate_is_not_promoted(one, path, fleet):
    """Its tier is nobody's: every customer would be without a limit."""
    one.start("version: 1\ntiers: {default: free}\nlimits:\n  - {name: free, tier: fre, rate: 4/h}\n")
    refused = one.sluice("policy", "promote", "--policy", path, "--force", status=1)
    assert "did you mean `free`" in refused.stderr and "--allow-warnings" in refused.stderr
    assert one.report()["active"] and not os.path.exists(path + ".before")
    one.sluice("policy", "promote", "--policy", path, "--force", "--allow-warnings")


def test_a_keys_file_goes_with_the_candidate(one, path, fleet):
    folder = os.path.dirname(path)
    with open(os.path.join(folder, "plans.csv"), "w") as f:
        f.write("big,gold\n")
    text = "version: 1\ntiers: {default: free, keys_file: plans.csv}\nlimits:\n  - {name: free, rate: 4/h}\n  - {name: gold, tier: gold, rate: 20/h}\n"
    candidate = os.path.join(folder, "new.yaml")
    with open(candidate, "w") as f:
        f.write(text)
    one.sluice("policy", "shadow", candidate)
    spend(one.daemon, "big", 12)
    assert counts(one.compared(12)) == (10, 0, 0, 2)
    with open(os.path.join(folder, "plans.csv"), "a") as f:
        f.write("other,gold\n")
    assert "keys_file" in one.sluice("policy", "promote", "--policy", path, status=1).stderr
    with open(os.path.join(folder, "plans.csv"), "w") as f:
        f.write("big,gold\n")
    one.sluice("policy", "promote", "--policy", path)
    assert one.daemon.verdict("big", cost=0)["limit"] == 20


def test_under_load_nothing_is_lost_but_comparisons(one, fleet):
    """What was decided was compared, or is counted as not."""
    one.start(policy_text(4))
    load = fleet.load([one.daemon], 3000, 1.5, "1 busy 300", connections=8)
    requests = load.wait()
    assert all(r.answered for r in requests), requests.summary()
    n = len(list(requests))
    until(lambda: sum(one.report()[k] for k in ("decisions", "dropped")) == n, lambda: f"{n} requests: {one.report()}")


def test_a_shadow_may_run_when_the_daemon_stops(one):
    one.start(policy_text(4))
    spend(one.daemon, "k", 3)
    assert one.daemon.stop() == 0


def test_reading_tokens_may_not_start_or_stop(fleet, path):
    daemon = fleet.daemon(path, "memory:", "--admin-token", "all-of-it", "--admin-read-token", "only-look")
    one = Shadow(daemon)
    read, write = {"Authorization": "Bearer only-look"}, {"Authorization": "Bearer all-of-it"}
    assert one.ask("PUT", body=policy_text(4), **read)[0] == 403
    assert one.ask("PUT", body=policy_text(4), **write)[0] == 200
    assert one.ask("GET", **read)[0] == 200 and one.ask("GET")[0] == 401
    assert one.ask("DELETE", **read)[0] == 403
    assert "SLUICE_ADMIN_TOKEN" in one.sluice("policy", "shadow", "--once", status=3).stderr
    assert "SLUICE_ADMIN_TOKEN" in one.sluice("policy", "show", status=3).stderr
    assert one.ask("POST", "/v1/shadow/promote", **read)[0] == 403
