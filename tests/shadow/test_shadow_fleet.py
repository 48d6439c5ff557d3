"""Candidates on a store: one for all instances, decided together, promoted on condition."""
import json
import threading

import pytest
from conftest import Shadow, counts, outside, policy_text
from stores import Resp, until


@pytest.fixture
def two(fleet, redis):
    path = fleet.policy(policy_text(10))
    return [Shadow(d) for d in fleet.fleet(2, path, redis.url, "--timeout", "2s")]


def start(shadows, text, query=""):
    answer = shadows[0].start(text, query)
    for one in shadows[1:]:
        one.wait(answer["hash"])
    return answer


def spend_in_turns(shadows, key, n):
    return [shadows[i % len(shadows)].daemon.verdict(key)["allowed"] for i in range(n)]


def test_one_candidate_for_all_and_exact_sums(two, redis):
    """Each instance sees a half; together they decide as one would."""
    assert not [k for k in redis.keys() if b":shadow" in k], "who never rehearses leaves nothing there"
    assert start(two, policy_text(6, "strict"), "?author=ann")["version"] == 1
    done = 0
    for n in (6, 10, 16):  # each part decided everywhere before the next: then the order is the same for both policies
        allowed = spend_in_turns(two, "k", n - done)
        until(lambda: sum(one.report()["decisions"] for one in two) == n, lambda: [one.report() for one in two])
        done = n
    assert not any(allowed)
    for one in two:
        sums = one.compared(16, "fleet")
        assert counts(sums) == (6, 6, 4, 0) and sums["instances"] == 2
        assert one.report()["candidate"]["version"] == 1
    parts = [one.report() for one in two]
    assert tuple(map(sum, zip(*map(counts, parts)))) == (6, 6, 4, 0)
    assert [p["decisions"] for p in parts] == [8, 8]
    # Under names of its own; the live ones have what they would have had.
    names = [k.decode() for k in redis.keys()]
    buckets = [n for n in names if "{fleet}" not in n and "{keys}" not in n]
    assert sum(n.startswith("sluice:shadow:{") for n in buckets) == 1 and sum(n.startswith("sluice:{") for n in buckets) == 1, names
    assert all(n.startswith(("sluice:{", "sluice:shadow:{")) for n in names)


def test_what_comes_at_once_is_exact_in_sum(two):
    """Requests at the same instant may be decided in another order by the two policies, but never more or fewer of them."""
    start(two, policy_text(6, "strict"))
    assert sum(spend_in_turns(two, "k", 40)) == 10
    both_allow, both_reject, newly_rejected, newly_allowed = counts(two[0].compared(40, "fleet"))
    assert both_allow + newly_allowed == 6 and both_allow + newly_rejected == 10
    assert both_reject + newly_rejected == 34


def test_a_stop_stops_all_and_a_restart_runs_it_again(fleet, redis, two):
    started = start(two, policy_text(4))
    late = Shadow(fleet.daemon(fleet.policy(policy_text(10)), redis.url, "--timeout", "2s").wait_shared())
    late.wait(started["hash"])
    assert not late.report()["liveChanged"]
    assert two[1].ask("DELETE", "/v1/shadow?author=bob&comment=enough")[0] == 200
    for one in (*two, late):
        until(lambda: not one.report()["active"], lambda: one.daemon.log)
    two[0].daemon.wait_log(r"stopped by bob \(enough\)")
    two[1].daemon.wait_log(r"audit: the candidate was stopped by bob through 127\.0\.0\.1")
    assert two[0].ask("DELETE")[0] == 404
    assert two[0].ask("POST", "/v1/shadow/promote")[0] == 404
    start(two, policy_text(5))


def test_promoted_is_the_policy_everywhere(two):
    start(two, policy_text(4, "strict"))
    spend_in_turns(two, "k", 6)
    two[0].compared(6, "fleet")
    status, answer = two[1].ask("POST", "/v1/shadow/promote?author=ann")
    assert status == 200 and answer["version"]["version"] == 1 and answer["version"]["author"] == "ann"
    assert answer["version"]["comment"] == "promoted from shadow 1"
    two[1].daemon.wait_log(r"audit: version 1 of the policy \([0-9a-f]{12}\) by ann was promoted from candidate 1 through 127\.0\.0\.1")
    for one in two:
        until(lambda: one.daemon.verdict("probe", cost=0)["policy"] == "strict", lambda: one.daemon.log)
        until(lambda: not one.report()["active"], lambda: one.daemon.log)


def test_a_promotion_that_was_overtaken_is_refused(two, fleet):
    """Somebody pushed meanwhile: neither the push nor the candidate is lost, and the version is named."""
    start(two, policy_text(4, "strict"))
    status, answer = two[0].ask("PUT", "/v1/policy?author=bob", policy_text(30, "urgent"), If_Match="*")
    assert status == 200
    status, answer = two[1].ask("POST", "/v1/shadow/promote")
    assert status == 412 and "Version 1" in answer["detail"], answer
    refused = two[1].sluice("policy", "promote", "--force", status=1)
    assert "Version 1" in refused.stderr
    for one in two:
        until(lambda: one.daemon.verdict("probe", cost=0)["policy"] == "urgent", lambda: one.daemon.log)
        until(lambda: one.report()["liveChanged"], lambda: one.daemon.log)
        assert one.report()["active"] and one.report()["live"]["version"] == 1 and one.report()["against"]["version"] == 0
    two[0].sluice("policy", "promote", "--force", "--expect", "7", status=1)
    done = two[0].sluice("policy", "promote", "--force", "--expect", "1", "--comment", "on purpose")
    assert "version 2 is current" in done.stdout
    until(lambda: two[1].daemon.verdict("probe", cost=0)["policy"] == "strict", lambda: two[1].daemon.log)


def test_two_that_promote_at_once(two):
    """One wins; the other is told, and nothing is pushed twice."""
    start(two, policy_text(4, "strict"))
    answers = []
    threads = [threading.Thread(target=lambda s=s: answers.append(s.ask("POST", "/v1/shadow/promote")[0])) for s in two]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers)[0] == 200 and sorted(answers)[1] in (404, 409, 412), answers
    history = json.loads(two[0].daemon.ask(two[0].daemon.admin, "GET", "/v1/policy/history")[1])
    assert len(history["versions"]) == 1


def test_the_rights_of_the_live_namespace_are_enough(fleet, redis):
    """An ACL user that may touch the live names alone."""
    redis.do("ACL", "SETUSER", "limiter", "on", ">secret", "~sluice:*", "+@read", "+@write", "+@connection", "+@scripting", "+time", "-@dangerous", "+info")
    url = f"redis://limiter:secret@127.0.0.1:{redis.port}"
    one = Shadow(fleet.daemon(fleet.policy(policy_text(10)), url, "--timeout", "2s").wait_shared())
    one.start(policy_text(4))
    spend_in_turns([one], "k", 12)
    assert counts(one.compared(12, "fleet")) == (4, 2, 6, 0)
    assert "level=error" not in one.daemon.log, one.daemon.log


def test_what_does_not_compile_is_refused(two):
    status, answer = two[0].ask("PUT", body="version: 1\nlimits:\n  - {name: x, rate: 0/s}\n")
    assert status == 422 and "limits[0].rate" in answer["detail"]
    assert [one.report() for one in two] == [{"active": False}] * 2


def test_an_instance_that_comes_later_knows_what_it_is_compared_with(fleet, redis, two):
    """Its file is older than the version beside which the candidate was started."""
    assert two[0].ask("PUT", "/v1/policy", policy_text(20), If_Match="*")[0] == 200
    for one in two:
        until(lambda: one.daemon.verdict("probe", cost=0)["limit"] == 20, lambda: one.daemon.log)
    started = start(two, policy_text(4))
    late = Shadow(fleet.daemon(fleet.policy(policy_text(10)), redis.url, "--timeout", "2s").wait_shared())
    late.wait(started["hash"])
    until(lambda: late.report()["live"]["version"] == 1, lambda: late.daemon.log)
    assert not late.report()["liveChanged"] and late.report()["against"]["version"] == 1
    assert late.ask("POST", "/v1/shadow/promote")[0] == 200


def test_two_that_start_at_once(two):
    """One candidate runs everywhere; nobody is overwritten without being told."""
    answers = []
    threads = [threading.Thread(target=lambda i=i: answers.append(two[i % 2].ask("PUT", body=policy_text(4 + i))[0])) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 200 in answers and set(answers) <= {200, 409}, answers
    until(lambda: [one.report().get("candidate", {}).get("version") for one in two] == [answers.count(200)] * 2, lambda: [one.report() for one in two])
    assert two[0].hash() == two[1].hash()


def test_an_outage_of_the_store_is_not_compared(two, redis):
    """Failure modes say nothing about the policies, and the live one is not kept waiting by the shadow's."""
    start(two, policy_text(4))
    spend_in_turns(two, "k", 4)
    two[0].compared(4, "fleet")
    redis.kill()
    until(lambda: two[0].daemon.verdict("away")["source"] == "degraded", "the store is missed")
    before = two[0].report()["decisions"]
    for _ in range(5):
        assert two[0].daemon.verdict("away")["source"] == "degraded"
    until(lambda: two[0].report()["undecided"] >= 5, lambda: two[0].report())
    assert two[0].report()["decisions"] - before <= 1 and two[0].report()["fleet"] is None
    assert two[0].ask("PUT", body=policy_text(5))[0] == 503
    assert two[0].daemon.stop() == 0


def test_tiers_that_the_store_knows_count_for_the_candidate(fleet, redis):
    text = "version: 1\ntiers: {default: free, keys_store: true}\nlimits:\n  - {name: free, rate: %d/h}\n  - {name: gold, tier: gold, rate: 40/h}\n"
    one = Shadow(fleet.daemon(fleet.policy(text % 10), redis.url, "--timeout", "2s").wait_shared())
    store = Resp(redis.socket_path)
    store.call("HSET", "sluice:{keys}", "big", "gold")
    store.close()
    one.start(text % 4)
    until(lambda: one.daemon.verdict("big", cost=0)["limit"] == 40, "the tier is known")
    until(lambda: one.report()["decisions"] > 0, "and asked for there")
    for _ in range(12):
        one.daemon.verdict("big")
    report = one.compared(12)
    assert report["newlyRejected"] == 0, report
