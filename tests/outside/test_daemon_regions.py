"""Daemons in several regions on one store: shares, buckets apart, and the region over every way a policy comes into force."""
import json
import os
import signal

from conftest import call, eventually
from test_daemon_store import SECRET, eventually_shared, redis  # pylint: disable=unused-import

DIVIDED = """\
version: 1
defaults: {coordination: shared, on_store_failure: local}
limits:
  - {name: divided, rate: 100/h, burst: 1001, regions: {eu: 60%, us: 33.3333%}}
"""


def in_region(start, store, region, *flags, policy=DIVIDED):
    daemon = start(policy, "--store", store.url, *(("--region", region) if region else ()), *flags)
    eventually_shared(daemon)
    return daemon


def spend(daemon, key, cost):
    verdict = daemon.check(key, cost=cost)[1]
    assert verdict["source"] == "shared", verdict
    return verdict["allowed"], verdict["limit"], verdict["remaining"]


def keys(store):
    """Keys of buckets in the store."""
    return {key for key in store.do("EVAL", "return table.concat(redis.call('KEYS', '*'), '\\n')", "0").split("\n") if "{fleet}" not in key}


def test_each_region_counts_its_share_in_buckets_of_its_own(start, redis):
    store = redis().start()
    eu, eu2, us, nowhere = (in_region(start, store, region) for region in ("eu", "eu", "us", None))
    before = keys(store)
    assert spend(eu, "customer", 500) == (True, 600, 100)
    assert spend(us, "customer", 333) == (True, 333, 0)  # not touched by the other
    assert spend(nowhere, "customer", 1) == (True, 1001, 1000)
    assert len(keys(store) - before) == 3
    assert len({key[:key.index("}")] for key in keys(store) - before}) == 1  # all in the key's slot
    assert spend(eu2, "customer", 100) == (True, 600, 0)  # one region agrees
    assert len(keys(store) - before) == 3
    verdict = us.check("customer")[1]
    assert not verdict["allowed"] and verdict["policy"] == "divided" and verdict["limit"] == 333 and verdict["reason"] == "rate_limited"
    assert us.check("customer", cost=334)[1]["reason"] == "cost_exceeds_limit"  # a share is the whole limit here
    assert nowhere.remaining("customer") == 1000


def test_where_a_daemon_is_can_be_seen(start, sluice, redis):
    """A region that is misspelt would else be seen in a warning of the log alone."""
    store = redis().start()
    eu, nowhere = (in_region(start, store, region) for region in ("eu", None))
    assert "this instance is in region eu" in eu.log and "is in region" not in nowhere.log
    for daemon, region in ((eu, "eu"), (nowhere, "")):
        assert b'sluice_instance_info{region="%s"} 1' % region.encode() in call(daemon.admin, "GET", "/metrics")[2]
    assert "region   eu" in sluice("policy", "show", "--admin", eu.admin).stdout
    assert "region   none" in sluice("policy", "show", "--admin", nowhere.admin).stdout
    eventually(lambda: len(json.loads(sluice("policy", "history", "--store", store.url, "--json").stdout)["instances"]) == 2, "both tell what they run")
    history = sluice("policy", "history", "--store", store.url).stdout
    assert f" eu           {eu.http}" in history and f" -            {nowhere.http}" in history, history


def test_limits_without_regions_are_still_everybodys(start, redis):
    store = redis().start()
    plain = "version: 1\nlimits: [{name: all, rate: 100/h, coordination: shared, on_store_failure: local}]\n"
    eu, us = (in_region(start, store, region, policy=plain) for region in ("eu", "us"))
    eu.check("customer", cost=40)
    assert us.remaining("customer") == 60 and us.limit() == 100


def test_a_region_without_a_share_and_a_daemon_without_a_region_are_warned_of(start, redis):
    store = redis().start()
    lost = in_region(start, store, "sa")
    lost.wait_log(r"level=warning .*limits\[0\].regions: region `sa`, where this instance is, has no share: it gets the smallest one, 33\.3333%")
    assert lost.limit() == 333
    nowhere = in_region(start, store, None)
    nowhere.wait_log(r"level=warning .*limits\[0\].regions: this instance has no region")
    assert nowhere.limit() == 1001
    assert "regions" not in in_region(start, store, "us").log


def test_the_region_stays_over_reloads(start):
    daemon = start(DIVIDED, env={"SLUICE_REGION": "eu"})  # without a store too
    daemon.check("customer", cost=500)
    assert daemon.limit() == 600
    with open(daemon.policy, "w", encoding="utf-8") as f:
        f.write(DIVIDED.replace("eu: 60%", "eu: 66.6666%"))
    daemon.signal(signal.SIGHUP)
    eventually(lambda: daemon.limit() == 667, "the new share")
    assert daemon.limit("customer") == 667 and 100 <= daemon.remaining("customer") <= 170  # the same bucket


def test_the_region_stays_when_the_secret_changes(start, redis):
    store = redis().start()
    daemon = in_region(start, store, "us")
    store.do("SET", SECRET, "0123456789abcdef0123456789abcdef")
    daemon.wait_log("the instances' secret is known")
    eventually_shared(daemon)
    assert daemon.limit("customer") == 333


def test_versions_on_the_store_are_divided_too(start, redis, sluice, policy_file, tmp_path):
    store, state = redis().start(), str(tmp_path / "state")
    flags = ("--policy-source", "store")
    eu, us = in_region(start, store, "eu", *flags, "--state", state), in_region(start, store, "us", *flags)
    pushed = sluice("policy", "push", policy_file(DIVIDED.replace("1001", "2000"), "next.yaml"), "--store", store.url)
    assert pushed.returncode == 0 and "regions" not in pushed.stderr, pushed.stderr  # it is pushed for all of them
    eventually(lambda: eu.limit() == 1200 and us.limit() == 666, "the version in both regions")
    shown = sluice("policy", "show", "@current", "--region", "us", "--store", store.url, "--json")
    assert json.loads(shown.stdout)["limits"][0]["share"] == "33.3333%"
    assert eu.stop() == 0
    store.kill()  # what was kept is divided when it is compiled again
    again = start(eu.policy, "--store", store.url, "--region", "eu", *flags, "--state", state)
    assert again.limit() == 1200
    assert again.check("customer")[1]["source"] == "degraded"


def test_a_broken_file_at_the_start_falls_back_to_a_divided_policy(start, tmp_path, policy_file):
    state, policy = str(tmp_path / "state"), policy_file(DIVIDED)
    assert start(policy, "--region", "eu", "--state", state).stop() == 0
    with open(policy, "w", encoding="utf-8") as f:
        f.write("broken")
    assert start(policy, "--region", "eu", "--state", state).limit() == 600


# ---- the command line


def test_explain_and_show_look_at_a_region(sluice, policy_file):
    path = policy_file(DIVIDED)
    told = json.loads(sluice("policy", "explain", path, "k", "--region", "eu", "--json").stdout)
    assert told["region"] == "eu" and told["buckets"][0]["effective"] == "60/h burst 600"
    assert told["buckets"][0]["region"]["share"] == "60%"
    text = sluice("policy", "explain", path, "k", "--region", "us").stdout
    assert "  region us: 33.3333% of 100/h burst 1001\n" in text
    assert "the shares of 2 regions sum to 933 at once and 93 a PERIOD, of 1001 and 100\n" in text
    assert "60/h burst 600 per key (60% of it in region eu)" in sluice("policy", "show", path, "--region", "eu").stdout
    assert "region" not in json.loads(sluice("policy", "explain", path, "k", "--json").stdout)


def test_check_warns_of_a_region_that_is_not_named_only_when_asked(sluice, policy_file):
    path = policy_file(DIVIDED)
    check = ("policy", "check", "--strict", path, "--store", "redis://cache")
    assert sluice(*check).returncode == 0
    assert sluice(*check, "--region", "us").returncode == 0
    run = sluice(*check, "--region", "sa")
    assert run.returncode == 1 and "region `sa`" in run.stderr
    for command in (("check", path), ("show", path), ("explain", path, "k"), ("diff", path, path)):
        for wrong in ("EU", "", "e u", "x" * 64):
            run = sluice("policy", *command, "--region", wrong)
            assert run.returncode == 2 and "--region: " in run.stderr, (command, wrong)


def test_diff_says_that_a_divided_limit_begins_anew(sluice, policy_file):
    whole, divided = policy_file(DIVIDED.replace(", regions: {eu: 60%, us: 33.3333%}", "")), policy_file(DIVIDED, "divided.yaml")
    assert "they begin full" in sluice("policy", "diff", whole, divided, "--region", "eu").stdout
    assert "in a region they are others" in sluice("policy", "diff", whole, divided).stdout


def test_replay_of_one_regions_log(sluice, policy_file, tmp_path):
    log = tmp_path / "events.jsonl"
    log.write_text("".join(json.dumps({"t_us": i, "key": "k", "cost": 100}) + "\n" for i in range(1, 12)))
    verdicts = tmp_path / "verdicts"
    for flags, allowed in (((), 10), (("--region", "eu"), 6), (("--region", "us"), 3)):
        run = sluice("replay", "--policy", policy_file(DIVIDED), "--format", "jsonl", "--verdicts", str(verdicts), *flags, str(log))
        assert run.returncode == 0, run.stderr
        assert verdicts.read_text().count('"allowed":true') == allowed
    assert os.path.exists(verdicts)
    assert sluice("replay", "--policy", policy_file(DIVIDED), "--region", "EU", str(log)).returncode == 2
