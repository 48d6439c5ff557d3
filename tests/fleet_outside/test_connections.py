"""Every way to a store, as an operator writes it: TCP, UNIX socket, TLS, users and passwords, database numbers, Sentinel, Cluster; and every mistake in it."""
import json
import re
import socket
import urllib.parse

import pytest

from fleet import PATIENT, make_certificate, outside, until
from stores import Cluster, Sentinels

POLICY = """\
version: 1
limits:
  - {name: budget, rate: 100/h, coordination: shared, on_store_failure: closed}
"""


def exact(fleet, url, *flags):
    """Two daemons on this address agree."""
    one, other = fleet.fleet(2, POLICY, url, *PATIENT, *flags)
    assert one.verdict("k", cost=60)["remaining"] == 40
    assert other.verdict("k", cost=0)["remaining"] == 40
    return one, other


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_tcp_and_unix_socket_are_one_store(fleet, module):
    redis = fleet.redis(module=module)
    a = fleet.daemon(POLICY, redis.url, *PATIENT).wait_shared()
    b = fleet.daemon(POLICY, redis.unix_url, *PATIENT).wait_shared()
    a.verdict("k", cost=60)
    assert b.verdict("k", cost=0)["remaining"] == 40


@pytest.fixture
def tls(tmp_path):
    ca = make_certificate(tmp_path, "ca", ca=True)
    return ca[0], make_certificate(tmp_path, "server", ca)


def test_tls(fleet, tls):
    redis = fleet.redis(tls=tls)
    exact(fleet, redis.url)


def test_tls_is_verified(fleet, tls, tmp_path):
    """A certificate of another authority, none at all, and a server that speaks no TLS: no connection, and the log says why."""
    redis = fleet.redis(tls=tls)
    stranger = make_certificate(tmp_path, "stranger", ca=True)[0]
    one = fleet.daemon(POLICY, f"rediss://127.0.0.1:{redis.port}?ca={stranger}")
    one.wait_log("certificate|TLS|verif")
    assert one.verdict("k")["reason"] == "store_unavailable"
    plain = fleet.redis()
    one = fleet.daemon(POLICY, f"rediss://127.0.0.1:{plain.port}?ca={stranger}")
    one.wait_log("no connection within")
    assert one.verdict("k")["reason"] == "store_unavailable"
    one = fleet.daemon(POLICY, f"rediss://127.0.0.1:{redis.port}?verify=no").wait_shared()
    assert one.verdict("k")["source"] == "shared"


PASSWORD = "p@s:s/w#d%?&+=%3D"


def test_b125_passwords_with_any_characters(fleet, tmp_path):
    """In the address percent-encoded, in a file as they are, with and without a user; never in the log."""
    redis = fleet.redis(module=True)
    redis.do("CONFIG", "SET", "requirepass", PASSWORD)
    redis.do("ACL", "SETUSER", "sluice", "on", ">" + PASSWORD, "~*", "+@all")
    redis.do("ACL", "SETUSER", "nopass", "on", "nopass", "~*", "+@all")
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    quoted = urllib.parse.quote(PASSWORD, safe="")
    at = f"127.0.0.1:{redis.port}"
    for url in (f"redis://:{quoted}@{at}", f"redis://sluice:{quoted}@{at}", f"redis://sluice@{at}?password_file={secret}", f"redis://{at}?password_file={secret}",
                f"redis://nopass:x@{at}"):
        one = fleet.daemon(POLICY, url, *PATIENT).wait_shared()
        assert one.verdict("k", cost=1)["source"] == "shared"
        assert PASSWORD not in one.log and quoted not in one.log
        one.stop()
    one = fleet.daemon(POLICY, f"redis://sluice:wrong@{at}")
    one.wait_log("WRONGPASS|password|refuse")
    assert one.verdict("k")["reason"] == "store_unavailable" and "wrong@" not in one.log


def test_an_acl_user_with_no_more_than_it_needs(fleet):
    """The rights that docs/store-client.md asks for are enough: our own keys, and nothing dangerous."""
    redis = fleet.redis()
    redis.do("ACL", "SETUSER", "sluice", "on", ">secret", "~sluice:*", "+@read", "+@write", "+@connection", "+@scripting", "+time", "-@dangerous", "+info")
    exact(fleet, f"redis://sluice:secret@127.0.0.1:{redis.port}")


def test_b126_the_database_is_chosen_on_every_connection(fleet):
    redis = fleet.redis(module=True)
    one = fleet.daemon(POLICY, redis.url + "/5", *PATIENT).wait_shared()
    one.verdict("k", cost=60)
    assert not redis.keys()
    redis.do("SELECT", "5")
    assert len(redis.keys()) >= 2
    other = redis.connect()
    for _ in range(3):
        other.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        until(lambda: one.source("k") == "shared", "it is back")
        assert one.verdict("k", cost=0)["remaining"] == 40
    assert other.call("DBSIZE") == 0, "nothing in database 0"
    other.close()


def test_sentinel(fleet):
    exact(fleet, fleet.store(Sentinels).url)


def test_cluster_and_b115_slots(fleet, say):
    """Every algorithm, a thousand keys, two layers: no CROSSSLOT, and the same numbers as a single server gives."""
    policy = """\
version: 1
defaults: {coordination: shared, on_store_failure: closed}
endpoints: {window: {match: [window]}, log: {match: [log]}, counter: {match: [counter]}, leaky: {match: [leaky]}, both: {match: [both]}}
limits:
  - {name: bucket, rate: 10/h}
  - {name: window, endpoint: window, algorithm: fixed_window, rate: 10/h}
  - {name: log, endpoint: log, algorithm: sliding_window_log, rate: 10/h}
  - {name: counter, endpoint: counter, algorithm: sliding_window_counter, rate: 10/h}
  - {name: leaky, endpoint: leaky, algorithm: leaky_bucket, rate: 10/h}
  - {name: both, endpoint: both, rates: [10/h, {rate: 100/d, burst: 100}]}
  - {name: everybody, layer: all, per: [], rate: 1000000/h}
"""
    cluster = fleet.store(Cluster)
    one, other = fleet.fleet(2, policy, cluster.url, *PATIENT)
    for scope in ("", "window", "log", "counter", "leaky", "both"):
        for i in range(170):
            verdict = one.verdict(f"k{i}", cost=4, scope=scope)
            assert verdict["allowed"] and verdict["source"] == "shared", (scope, verdict)
        for i in range(0, 170, 10):
            verdict = other.verdict(f"k{i}", cost=7, scope=scope)
            assert not verdict["allowed"] and verdict["reason"] == "rate_limited", (scope, verdict)
            assert other.verdict(f"k{i}", cost=6, scope=scope)["allowed"]
    spread = [len(n.keys()) for n in cluster.masters()]
    say(f"buckets by node: {spread}")
    assert all(n > 100 for n in spread)


MISTAKES = {
    "redis://": "host",
    "redis://127.0.0.1:0": "port",
    "redis://127.0.0.1:65536": "port",
    "redis://127.0.0.1:6379/x": "database",
    "redis://127.0.0.1:6379/-1": "database",
    "redis://127.0.0.1:6379?tls=yes": "option",
    "redis://a b": "",
    "redis+unix://": "path",
    "redis+sentinel://127.0.0.1": "master",
    "redis+cluster://": "host",
    "redis+cluster://127.0.0.1/3": "",
    "rediss://127.0.0.1?ca=/nowhere/ca.pem": "/nowhere/ca.pem: No such file or directory",
    "redis://x@127.0.0.1?password_file=/nowhere/p": "/nowhere/p",
    "mysql://127.0.0.1": "redis://",
    "127.0.0.1:6379": "",
    "": "",
}


@pytest.mark.parametrize("url", MISTAKES)
def test_mistakes_in_an_address(fleet, url):
    """The daemon does not start, with status 2 and a sentence that names what is wrong."""
    one = fleet.daemon(POLICY, url, wait=False)
    assert one.wait() == 2, one.log
    assert "store" in one.log and MISTAKES[url] in one.log, one.log


def test_secrets_are_not_told(fleet):
    """Neither in the error about an address nor in what the command line shows."""
    one = fleet.daemon(POLICY, "redis://user:hunter2@127.0.0.1:99999", wait=False)
    assert one.wait() == 2 and "hunter2" not in one.log, one.log


def test_b128_the_store_goes_and_comes(fleet, say):
    """Killed and started at random moments under load, in the middle of connecting too: every request is answered exactly once, the daemon lives."""
    redis = fleet.redis(module=True)
    one = fleet.daemon(POLICY.replace("closed", "open").replace("100/h", "1000000/h"), redis.url, workers=2).wait_shared()
    load = fleet.load(one, 1000, 6, "1 k 100")
    for i in range(10):
        load.at(0.3 + i * 0.55)
        redis.kill()
        redis.start()
    requests = load.wait()
    say(requests.summary())
    assert len(requests.of(answered=True)) == len(requests) == len(requests.allowed)
    one.wait_shared()


def test_version_and_modules_are_told(fleet):
    """The log says once what kind of store it found."""
    redis = fleet.redis(module=True)
    one = fleet.daemon(POLICY, redis.url).wait_shared()
    until(lambda: re.search(r"(?i)module|script", one.log), lambda: f"the log tells:\n{one.log}")


def test_a_crowd_of_clients_leaves_files_for_the_store(fleet):
    """With 256 files, webhooks that never answer, and as many clients as it takes, each in the middle of a request: the store is reached again when it has
    closed every connection, a candidate policy gets its own, and the file is read anew."""
    redis = fleet.redis()
    path = fleet.policy(POLICY.replace("on_store", "warn_at: 1%, on_store"))
    hanging = fleet.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
    webhooks = [f"--webhook=http://127.0.0.1:{hanging.getsockname()[1]}/{n}" for n in range(8)]
    one = outside.Daemon(["prlimit", "--nofile=256:256", "--", outside.SLUICED, "--policy", path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--workers", "1", "--store", redis.url, *PATIENT, *webhooks, "--webhook-secret", "0123456789abcdef"], outside.clean_environment())
    fleet.callback(one.cut)
    one.wait_ready()
    until(lambda: one.check("k", cost=0)[1]["source"] == "shared", "the store answers")
    host, port = one.http.rsplit(":", 1)
    client = outside.connect(one.http)
    fleet.callback(client.close)
    client.connect()
    for _ in range(250):
        crowd = fleet.enter_context(socket.create_connection((host, int(port))))
        crowd.sendall(b"POST /check HTTP/1.1\r\nHost: x\r\n")
        client.request("POST", "/check", '{"key": "k", "cost": 0}')
        assert client.getresponse().read()
    one.wait_log("new connections wait")

    def source():
        client.request("POST", "/check", '{"key": "k", "cost": 0}')
        return json.loads(client.getresponse().read())["source"]

    client.request("POST", "/check", json.dumps([{"key": f"k{n}", "cost": 90} for n in range(8)]))
    assert client.getresponse().read()
    until(lambda: outside.call(one.admin, "GET", "/metrics")[2].count(b"\nsluice_notifications_queued 64\n"), "eight notifications for each webhook")
    redis.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    until(lambda: source() == "shared", "the store is reached again")
    assert outside.call(one.admin, "PUT", "/v1/shadow", POLICY)[0] == 200
    assert outside.call(one.admin, "POST", "/v1/reload")[0] == 200
    assert "oo many open files" not in one.log
