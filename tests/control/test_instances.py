"""Daemons that follow the versions of the policy on their store: pushes, rollbacks, outages, restarts, wrong versions, and the admin listener."""
import hashlib
import json
import os

import pytest
from command import Command
from fleet import outside
from stores import Cluster, Resp, Sentinels, until


def limit(daemon, key="k"):
    return daemon.verdict(key, cost=0)["limit"]


def wait_limit(daemons, wanted):
    """The limit tells the versions apart: each has another rate."""
    for one in daemons:
        until(lambda: limit(one) == wanted, lambda: f"{one.http} has a limit of {limit(one)}, not {wanted}:\n{one.log}")


def version(daemon):
    return daemon.metrics()["sluice_policy_version"]


def wait_version(daemons, wanted):
    """The number, the counters and the log follow a moment after the first decision: the log line comes with the swap, then the rest."""
    for one in daemons:
        until(lambda: version(one) == wanted, lambda: f"{one.http} has version {version(one)}, not {wanted}:\n{one.log}")


def reloads(daemon, result):
    return daemon.metrics()[f'sluice_policy_reloads_total{{result="{result}"}}']


def put(daemon, body, headers, path="/v1/policy", method="PUT"):
    status, headers, data = outside.call(daemon.admin, method, path, body, headers)
    return status, json.loads(data), headers


@pytest.fixture
def three(fleet, redis, policy):
    return fleet.fleet(3, policy(100), redis.url)


def test_a_push_reaches_every_instance(three, sluice, policy):
    assert [limit(d) for d in three] == [100] * 3 and [version(d) for d in three] == [0] * 3
    sluice("policy", "push", policy(200), "--author", "ann", "--comment", "more")
    wait_limit(three, 200)
    wait_version(three, 1)
    for one in three:
        assert "version 1 by ann (more)" in one.log and reloads(one, "ok") == 1
        answer = json.loads(one.ask(one.admin, "GET", "/v1/policy")[1])
        assert (answer["version"], answer["source"]) == (1, "store")
        assert answer["hash"] == sluice.history()["versions"][0]["hash"]
    until(lambda: [i["version"] for i in sluice.history()["instances"]] == [1] * 3, "the history tells what runs")
    instances = sluice.history()["instances"]
    assert len({i["instance"] for i in instances}) == 3 and all(i["host"] and i["source"] == "store" for i in instances)
    assert {i["address"] for i in instances} == {d.http for d in three} and all(i["region"] is None for i in instances)
    assert "3 of them on version 1" in sluice("policy", "history").stdout


def test_a_rollback_reaches_every_instance(three, sluice, policy):
    for rate in (200, 300):
        sluice("policy", "push", policy(rate))
    wait_limit(three, 300)
    sluice("policy", "rollback")
    wait_limit(three, 200)
    wait_version(three, 3)
    assert "which brings version 1 back" in three[0].log


def test_a_push_under_load_loses_nothing(three, fleet, sluice, policy):
    """Requests go on while versions come; none is lost, and none is answered by neither of them."""
    load = fleet.load(three, 200, 4, "1 busy 100")
    for rate in (200, 300, 400, 500):
        sluice("policy", "push", policy(rate))
    requests = load.wait()
    assert all(r.answered for r in requests), requests.summary()
    wait_limit(three, 500)


def test_counts_stay_over_a_push(fleet, redis, sluice, policy):
    one = fleet.daemon(policy(100), redis.url, "--timeout", "2s").wait_shared()
    assert all(one.verdict("spender")["allowed"] for _ in range(30))
    sluice("policy", "push", policy(200))
    wait_limit([one], 200)
    # A bucket keeps its debt in time: 30 tokens at 100 an hour are 60 at 200.
    assert one.verdict("spender", cost=0)["remaining"] in (140, 141)


def test_an_instance_that_was_cut_off_catches_up(fleet, redis, sluice, policy):
    proxy = fleet.proxy(redis.port)
    near, far = fleet.daemon(policy(100), redis.url), fleet.daemon(policy(100), proxy.url)
    for one in (near, far):
        one.wait_shared()
    sluice("policy", "push", policy(200))
    wait_limit([near, far], 200)
    proxy.set("drop")
    sluice("policy", "push", policy(300))
    sluice("policy", "push", policy(400))
    wait_limit([near], 400)
    assert limit(far) == 200
    until(lambda: [i["version"] for i in sluice.history()["instances"]] == [3], "one that is silent is not told of")
    proxy.set("pass")
    wait_limit([far], 400)
    wait_version([far], 3)
    assert "version 2 by" not in far.log


def test_the_last_good_version_survives_a_restart_without_the_store(fleet, redis, sluice, policy, tmp_path):
    path, state = policy(100), str(tmp_path / "state")
    one = fleet.daemon(path, redis.url, "--state", state).wait_shared()
    sluice("policy", "push", policy(200))
    wait_version([one], 1)  # it is kept by now
    one.stop()
    redis.kill()
    with open(path, "w") as f:
        f.write("broken: [")
    again = fleet.daemon(path, redis.url, "--state", state)
    assert limit(again) == 200 and version(again) == 1
    assert "version 1 of the policy was kept" in again.log
    # A damaged copy is not believed.
    again.stop()
    kept = next(os.path.join(state, name) for name in os.listdir(state) if name.startswith("version-"))
    with open(kept, "r+") as f:
        text = f.read()
        f.seek(0)
        f.write(text.replace("200/h", "999/h"))
    last = fleet.daemon(path, redis.url, "--state", state)
    assert "version of the policy that was kept cannot be used" in last.log
    assert limit(last) == 100 and version(last) == 0  # the file, as it was last good


def test_a_restart_begins_with_the_current_version(fleet, redis, sluice, policy):
    sluice("policy", "push", policy(200))
    one = fleet.daemon(policy(100), redis.url)
    until(lambda: one.ask(one.http, "GET", "/readyz")[0] == 200, "ready")
    assert limit(one) == 200, "ready means that the store's version is in force"


def test_what_does_not_compile_is_refused_everywhere(three, redis, sluice, policy):
    """The command line checks what it pushes; a newer one may still push what older instances do not understand."""
    sluice("policy", "push", policy(200))
    wait_limit(three, 200)
    store = Resp(redis.socket_path)
    body = "version: 1\nlimits:\n  - {name: all, rate: 300/h, newer_field: 1}\n"
    digest = hashlib.sha256(body.encode()).hexdigest()
    store.call("HSET", "sluice:{fleet}:policy:body:" + digest, "0", body)
    store.call("HSET", "sluice:{fleet}:policy:versions", "2",
               f"sluice-version 1\n{digest}\n1800000000000000\n{len(body)}\n-\n0\n{'0' * 16}\nbob\n\n")
    store.call("SET", "sluice:{fleet}:policy:current", f"2 {digest}")
    for one in three:
        one.wait_log("version 2 by bob was not taken; the policy in force stays: .*newer_field")
        assert limit(one) == 200 and version(one) == 1
        assert "newer_field" in one.log and "version 2:3:" in one.log
        until(lambda: reloads(one, "failed") == 1, "it is counted")
        one.wait_log("alarm policy_rejected: .*version 2:3:.*newer_field")
        assert one.sum("sluice_alarm", kind="policy_rejected") == 1
    until(lambda: [i["refused"] for i in sluice.history()["instances"]] == [2] * 3, "the history tells of the refusal")
    assert "newer_field" in sluice.history()["instances"][0]["reason"]
    assert "refused 2" in sluice("policy", "history").stdout
    sluice("policy", "rollback", "1")
    until(lambda: [version(d) for d in three] == [3] * 3, "the way back is open")
    assert [reloads(d, "failed") for d in three] == [1] * 3
    for one in three:
        one.wait_log("alarm policy_rejected is over")
    store.close()


def test_garbage_in_the_store_changes_nothing(three, redis, sluice, policy):
    sluice("policy", "push", policy(200))
    wait_limit(three, 200)
    store = Resp(redis.socket_path)
    good = store.call("GET", "sluice:{fleet}:policy:current")
    for command in (("SET", "sluice:{fleet}:policy:current", b"\x00\xff\r\n"), ("SET", "sluice:{fleet}:policy:current", "9" * 200),
                    ("SET", "sluice:{fleet}:policy:current", "7 " + "a" * 64)):
        store.call(*command)
        seen = three[0].log.count("versions of the policy:")
        until(lambda: three[0].log.count("versions of the policy:") > 0, "it is told of")
        assert [limit(d) for d in three] == [200] * 3, seen
    store.call("DEL", "sluice:{fleet}:policy:current")
    store.call("SADD", "sluice:{fleet}:policy:current", "x")
    assert [limit(d) for d in three] == [200] * 3
    store.call("DEL", "sluice:{fleet}:policy:current")
    three[0].wait_log("has no version of the policy any more: version 1 stays")
    store.call("SET", "sluice:{fleet}:policy:current", good)
    sluice("policy", "push", policy(300))
    wait_limit(three, 300)
    store.close()


def test_the_file_only_bootstraps(fleet, redis, sluice, policy):
    path = policy(100)
    one = fleet.daemon(path, redis.url).wait_shared()

    def write(rate):
        with open(policy(rate)) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text)

    write(150)
    wait_limit([one], 150)  # there is no version yet
    sluice("policy", "push", policy(200))
    wait_limit([one], 200)
    write(250)
    one.wait_log("the file changed: version 1 of the store is in force")
    until(lambda: reloads(one, "ignored") == 1, "it is counted")
    assert limit(one) == 200
    status, answer, _ = put(one, None, {}, "/v1/reload", "POST")
    assert status == 409 and "version 1" in answer["detail"]
    one.signal(outside.signal.SIGHUP)
    one.wait_log("SIGHUP: looking for another version")
    assert limit(one) == 200


def test_an_instance_that_follows_its_file(fleet, redis, sluice, policy):
    path = policy(100)
    one = fleet.daemon(path, redis.url, "--policy-source", "file").wait_shared()
    sluice("policy", "push", policy(200))
    one.wait_log("version 1 of the policy .* is current on the store, and not taken")
    until(lambda: reloads(one, "ignored") == 1, "it is counted")
    assert limit(one) == 100
    until(lambda: [(i["source"], i["version"]) for i in sluice.history()["instances"]] == [("file", 0)], "the history says so")
    with open(policy(300)) as f, open(path, "w") as out:
        out.write(f.read())
    wait_limit([one], 300)
    status, answer, _ = put(one, "x", {"If-Match": "*"})
    assert status == 409 and "follows its file" in answer["detail"]


def test_the_admin_listener_pushes(three, sluice, policy):
    with open(policy(200)) as f:
        body = f.read()
    one = three[0]
    etag = outside.call(one.admin, "GET", "/v1/policy")[1]["etag"]
    assert put(one, body, {})[0] == 428
    assert put(one, body, {"If-Match": '"' + "0" * 64 + '"'})[0] == 412
    assert put(one, body, {"If-Match": "nonsense"})[0] == 400
    status, answer, headers = put(one, body, {"If-Match": etag}, "/v1/policy?author=ann&comment=by+hand")
    assert status == 200 and answer["version"]["version"] == 1 and answer["version"]["author"] == "ann"
    wait_limit(three, 200)
    one.wait_log("by ann was pushed through 127.0.0.1")
    # The same again was overtaken by its own success.
    status, answer, _ = put(three[1], body, {"If-Match": etag})
    assert status == 412 and "version 1" in answer["detail"]
    status, answer, _ = put(three[2], json.dumps({"policy": body.replace("200", "300"), "comment": "json"}),
                            {"If-Match": headers["etag"], "Content-Type": "application/json"})
    assert status == 200 and answer["version"]["author"] == "admin at 127.0.0.1" and answer["version"]["comment"] == "json"
    wait_limit(three, 300)
    status, answer, _ = put(one, None, {}, "/v1/policy/history?limit=1", "GET")
    assert status == 200 and answer["current"] == 2 and [v["version"] for v in answer["versions"]] == [2]
    assert put(one, None, {}, "/v1/policy/history?before=2", "GET")[1]["versions"][0]["version"] == 1
    status, answer, _ = put(one, json.dumps({"version": 1, "author": "carl"}), {"Content-Type": "application/json"}, "/v1/policy/rollback", "POST")
    assert status == 200 and answer["version"]["rollbackOf"] == 1
    wait_limit(three, 200)
    status, answer, _ = put(one, None, {}, "/v1/policy/rollback", "POST")
    assert status == 404 and "none before it" in answer["detail"], "3 brought 1 back, and 1 is the first"


@pytest.mark.parametrize("body,headers,path,status", [
    ("version: 1\nlimits: [{name: a, rate: 0/s}]\n", {"If-Match": "*"}, "/v1/policy", 422),
    ("", {"If-Match": "*"}, "/v1/policy", 400),
    ("{}", {"If-Match": "*", "Content-Type": "application/json"}, "/v1/policy", 400),
    ("[1]", {"If-Match": "*", "Content-Type": "application/json"}, "/v1/policy", 400),
    ("{", {"If-Match": "*", "Content-Type": "application/json"}, "/v1/policy", 400),
    ('{"policy":1}', {"If-Match": "*", "Content-Type": "application/json"}, "/v1/policy", 400),
    ('{"policy":"a","policy":"b"}', {"If-Match": "*", "Content-Type": "application/json"}, "/v1/policy", 400),
    ('{"policy":"a\\u0000b"}', {"If-Match": "*", "Content-Type": "application/json"}, "/v1/policy", 422),
    ('{"policy":"a","other":"b"}', {"If-Match": "*", "Content-Type": "application/json"}, "/v1/policy", 400),
    ("x", {"If-Match": "*"}, "/v1/policy?comment=%0a", 400),
    ("x", {"If-Match": "*"}, "/v1/policy?author=%ff", 400),
    ("x", {"If-Match": "*"}, "/v1/policy?author=" + "a" * 129, 400),
    ("x", {"If-Match": "*"}, "/v1/policy?other=1", 400),
    ("x" * (5 << 20), {"If-Match": "*"}, "/v1/policy", 413),
], ids=lambda value: str(value)[:24] if isinstance(value, (str, int)) else "")
def test_bad_pushes_are_refused(fleet, redis, policy, body, headers, path, status):
    one = fleet.daemon(policy(100), redis.url)
    answer = put(one, body, headers, path)
    assert answer[0] == status and answer[1]["status"] == status and answer[1]["detail"]
    assert put(one, None, {}, "/v1/policy/history", "GET")[1]["versions"] == []
    assert limit(one) == 100


def test_the_command_line_through_a_daemon(three, sluice, policy):
    """No way to the store, and the same answers: push, history, rollback, show and diff of versions, conflicts."""
    def ask(*args, status=0):
        return sluice("policy", *args, "--admin", three[0].admin, status=status)
    assert "no version yet" in ask("history").stdout and "no version" in ask("rollback", status=1).stderr
    assert "version 1 is current" in ask("push", policy(200), "--author", "ann", "--comment", "größer").stdout
    text = ask("push", policy(300)).stdout
    assert "1 change against version 1" in text and "[200/h] -> [300/h]" in text
    assert "nothing to do" in ask("push", policy(300)).stdout
    wait_limit(three, 300)
    until(lambda: ask("history").stdout == sluice("policy", "history").stdout, "both ways tell the same")
    assert json.loads(ask("history", "--json", "--before", "2").stdout)["versions"][0]["comment"] == "größer"
    assert "[200/h] -> [300/h]" in ask("diff", "@1", "@current", status=1).stdout and "200/h" in ask("show", "@1").stdout
    assert ask("show", "@1", "--text", "policy").stdout == sluice("policy", "show", "@1", "--text", "policy").stdout
    assert "no version 9" in ask("show", "@9", status=1).stderr
    assert "version 2" in ask("push", policy(400), "--expect", "1", status=1).stderr
    assert not json.loads(ask("push", policy(400), "--expect", "1", "--json", status=1).stdout)["pushed"]
    assert "version 3 is current, back to 1:" in ask("rollback", "--author", "bob").stdout
    wait_limit(three, 200)
    assert "none before it" in ask("rollback", status=1).stderr
    assert "version 4 is current, back to 2:" in ask("rollback", "2").stdout
    assert sluice.history()["versions"][1]["author"] == "bob"


def test_misspelt_names_are_refused(fleet, redis, policy):
    one = fleet.daemon(policy(100), redis.url)
    text = "version: 1\ntiers: {default: free}\nlimits: [{name: a, tier: %s, rate: 1/s, on_store_failure: local}]\n"
    status, answer, _ = put(one, text % "fre", {"If-Match": "*"})
    assert status == 422 and "did you mean `free`" in answer["detail"]
    assert put(one, text % "enterprise", {"If-Match": "*"}, "/v1/policy?warnings=refuse")[0] == 422
    assert put(one, text % "fre", {"If-Match": "*"}, "/v1/policy?warnings=perhaps")[0] == 400
    assert put(one, text % "fre", {"If-Match": "*"}, "/v1/policy?warnings=allow")[0] == 200
    assert put(one, text % "enterprise", {"If-Match": "*"})[0] == 200


def test_other_bad_requests(fleet, redis, policy):
    one = fleet.daemon(policy(100), redis.url)
    assert put(one, None, {}, "/v1/policy/rollback", "POST")[0] == 404
    assert put(one, '{"version":"1"}', {}, "/v1/policy/rollback", "POST")[0] == 400
    assert put(one, '{"version":0}', {}, "/v1/policy/rollback", "POST")[0] == 400
    for query in ("limit=0", "limit=1001", "limit=x", "before=1", "x=1"):
        assert put(one, None, {}, "/v1/policy/history?" + query, "GET")[0] == 400, query
    status, headers, _ = outside.call(one.admin, "DELETE", "/v1/policy")
    assert status == 405 and headers["allow"] == "GET, HEAD, PUT"


def test_without_a_store_there_are_no_versions(fleet, policy):
    one = fleet.daemon(policy(100), "memory:")
    assert put(one, "x", {"If-Match": "*"})[0] == 501
    assert put(one, None, {}, "/v1/policy/history", "GET")[0] == 501
    assert put(one, None, {}, "/v1/policy/rollback", "POST")[0] == 501
    answer = json.loads(one.ask(one.admin, "GET", "/v1/policy")[1])
    assert (answer["version"], answer["source"]) == (1, "file") and version(one) == 1


def test_a_push_while_partitioned_changes_nothing(fleet, redis, policy):
    proxy = fleet.proxy(redis.port)
    one = fleet.daemon(policy(100), proxy.url).wait_shared()
    proxy.set("drop")
    with open(policy(200)) as f:
        body = f.read()
    status, answer, _ = put(one, body, {"If-Match": "*"})
    assert status == 503 and answer["detail"]
    assert put(one, None, {}, "/v1/policy/history", "GET")[0] == 503
    assert limit(one) == 100
    proxy.set("pass")
    until(lambda: put(one, body, {"If-Match": "*"})[0] == 200, "the store is back")
    wait_limit([one], 200)


def test_a_token_guards_versions(fleet, redis, policy):
    one = fleet.daemon(policy(100), redis.url, "--admin-token", "s3cret")
    for path, method in (("/v1/policy", "PUT"), ("/v1/policy/history", "GET"), ("/v1/policy/version", "GET"), ("/v1/policy/rollback", "POST")):
        assert put(one, "x", {"If-Match": "*"}, path, method)[0] == 401
    assert put(one, None, {"Authorization": "Bearer s3cret"}, "/v1/policy/history", "GET")[0] == 200


def test_a_daemon_ends_while_it_is_asked(fleet, redis, policy):
    """Its answer comes, or its connection ends; the daemon does."""
    proxy = fleet.proxy(redis.port)
    one = fleet.daemon(policy(100), proxy.url).wait_shared()
    proxy.set("drop")
    connection = outside.connect(one.admin)
    connection.request("GET", "/v1/policy/history")
    one.signal(outside.signal.SIGTERM)
    assert one.wait() == 0
    connection.close()


@pytest.mark.parametrize("kind", [Cluster, Sentinels])
def test_stores_of_several_servers(fleet, policy, kind):
    """All of the control plane's names are in one slot, and behind Sentinels its master is found."""
    store = fleet.store(kind)
    sluice = Command(store.url)
    members = fleet.fleet(2, policy(100), store.url)
    sluice("policy", "push", policy(200))
    wait_limit(members, 200)
    sluice("policy", "push", policy(300))
    wait_limit(members, 300)
    sluice("policy", "rollback")
    wait_limit(members, 200)
    until(lambda: [i["version"] for i in sluice.history()["instances"]] == [3] * 2, "the history tells what runs")
