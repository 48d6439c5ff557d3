"""The HTTP doors before a store: answers that wait for it, in order and for the right key; outages; stopping; metrics and readiness."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest
from conftest import call, eventually
from h2_client import Client
from http_util import Reader, open_socket, post, read_all

POLICY = """\
version: 1
identity: {order: [api_key, address], headers: {api_key: X-Api-Key}}
defaults: {coordination: shared, local_factor: 1000}
endpoints:
  open: {match: ["api:open", "GET /open"]}
  closed: {match: ["api:closed", "GET /closed"]}
  here: {match: ["api:here"]}
limits:
  - {name: all, rate: 100/h}
  - {name: open, endpoint: open, rate: 100/h, on_store_failure: open}
  - {name: closed, endpoint: closed, rate: 100/h, on_store_failure: closed}
  - {name: here, endpoint: here, rate: 100/h, coordination: local}
"""


class Store:
    """A redis-server on a UNIX socket."""

    def __init__(self, folder):
        self.path = os.path.join(str(folder), "store")
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", str(folder)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"redis+unix://{self.path}"
        eventually(self.answers, "redis-server answers")

    def answers(self):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(self.path)
                s.sendall(b"PING\r\n")
                return s.recv(16) == b"+PONG\r\n"
            except OSError:
                return False

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def store(tmp_path):
    server = Store(tmp_path)
    yield server
    server.kill()


def is_shared(daemon):
    return daemon.check("warm", cost=0)[1]["source"] == "shared"


@pytest.fixture
def begin(start, store):
    """Starts a daemon on the store and waits until decisions are the store's: begin(policy, *flags)."""

    def run(policy=POLICY, *flags, timeout="20s"):
        daemon = start(policy, "--store", store.url, "--timeout", timeout, "--workers", "1", *flags)
        eventually(lambda: is_shared(daemon), "decisions are shared")
        return daemon

    return run


def left(body):
    return json.loads(body)["remaining"]


def metric(daemon, line):
    """The value of the sample that begins with this text."""
    text = call(daemon.admin, "GET", "/metrics")[2].decode()
    found = re.search(rf"^{re.escape(line)} (\S+)$", text, re.M)
    return float(found.group(1)) if found else None


# ---- answers


def test_b166_pipelined_checks_keep_their_order(begin):
    daemon = begin()
    keys = [f"k{i % 7}" for i in range(70)]
    with contextlib.closing(open_socket(daemon.http)) as s:
        s.sendall(b"".join(post(json.dumps({"key": key})) for key in keys))
        reader = Reader(s)
        seen = {}
        for key in keys:
            status, _, body = reader.answer()
            verdict = json.loads(body)
            seen[key] = seen.get(key, 0) + 1
            assert status == 200 and verdict["source"] == "shared" and verdict["remaining"] == 100 - seen[key]


def test_streams_on_one_key_are_each_charged_once(begin):
    daemon = begin()
    with contextlib.closing(open_socket(daemon.http)) as s:
        client = Client(s)
        streams = [client.request("POST", "/check", b'{"key":"one"}') for _ in range(100)]
        assert sorted(left(client.answer(stream)[2]) for stream in streams) == list(range(100))
        verdict = json.loads(client.answer(client.request("POST", "/check", b'{"key":"one"}'))[2])
        assert verdict["allowed"] is False and verdict["reason"] == "rate_limited"


def test_a_batch_is_answered_whole_and_in_order(begin):
    daemon = begin()
    batch = [{"key": f"k{i}", "scope": "api:here" if i % 3 else "api:x", "cost": i % 5} for i in range(300)]
    status, _, body = call(daemon.http, "POST", "/check", json.dumps(batch))
    verdicts = json.loads(body)
    assert status == 200 and len(verdicts) == 300
    for i, verdict in enumerate(verdicts):
        assert (verdict["source"], verdict["policy"]) == (("local", "here") if i % 3 else ("shared", "all")), i
        assert verdict["remaining"] == 100 - i % 5
    same = json.loads(call(daemon.http, "POST", "/check", json.dumps([{"key": "same"}] * 101))[2])
    assert [v["remaining"] for v in same[:100]] == list(range(99, -1, -1)) and same[100]["allowed"] is False


def test_one_bad_element_and_nothing_is_charged(begin):
    daemon = begin()
    for bad in ({"key": ""}, {"key": "x", "labels": {"a\u0001": "b"}}, {"key": "x", "keyType": "address"}):
        status, _, body = call(daemon.http, "POST", "/check", json.dumps([{"key": "k"}, {"key": "k"}, bad, {"key": "k"}]))
        assert status == 400 and json.loads(body)["field"].startswith("[2].")
    assert daemon.remaining("k") == 100


def test_auth_waits_for_the_store_with_all_its_headers(begin):
    for settings, name in (("{headers: x}", "x-ratelimit-remaining"), ("{headers: draft, errors: problem}", "ratelimit")):
        daemon = begin(POLICY.replace("identity:", f"http: {settings}\nidentity:"))
        key = {"X-Api-Key": name}
        status, headers, _ = call(daemon.http, "GET", "/auth/v1", headers=key)
        assert status == 200 and ("99" in headers[name])
        for _ in range(100):
            status, headers, body = call(daemon.http, "GET", "/auth/v1", headers=key)
        assert status == 429 and int(headers["retry-after"]) >= 1
        answer = json.loads(body)
        if name == "ratelimit":
            assert answer["violated-policies"] == ["all"] and headers["ratelimit-policy"] == '"all";q=100;w=3600'
        else:
            assert answer["error"]["code"] == "rate_limited"
        assert call(daemon.http, "GET", "/auth?deny=403", headers=key)[0] == 403


# ---- outages


def test_auth_in_an_outage(begin, store):
    daemon = begin(POLICY.replace("identity:", "http: {closed_status: 503}\nidentity:"), timeout="50ms")
    store.kill()
    key = {"X-Api-Key": "k"}
    for _ in range(3):
        status, headers, body = call(daemon.http, "GET", "/auth/closed", headers=key)
        assert status == 503 and json.loads(body)["error"]["code"] == "store_unavailable" and int(headers["retry-after"]) >= 1
        assert call(daemon.http, "GET", "/auth/closed?deny=403", headers=key)[0] == 503  # below /auth the query is the request's
        status, headers, body = call(daemon.http, "GET", "/auth/open", headers=key)
        assert status == 200 and "ratelimit-remaining" not in headers and "-1" not in headers.values()
        status, headers, _ = call(daemon.http, "GET", "/auth/other", headers=key)
        assert status == 200 and int(headers["ratelimit-limit"]) == 100
    verdict = daemon.check("k", "api:closed")[1]
    assert verdict["allowed"] is False and verdict["source"] == "degraded" and verdict["reason"] == "store_unavailable"
    assert metric(daemon, "sluice_shared_unavailable_total") >= 10
    assert metric(daemon, 'sluice_decisions_total{limit="closed",verdict="rejected",source="degraded",mode="enforce"}') == 7
    assert metric(daemon, 'sluice_http_responses_total{route="/auth",class="429"}') == 0


def test_answers_wait_for_a_store_that_is_slow_and_others_do_not(begin, store):
    daemon = begin()
    with contextlib.closing(open_socket(daemon.http)) as s, contextlib.closing(open_socket(daemon.http)) as t:
        client, reader = Client(t), Reader(s)
        store.pause()
        s.sendall(post('{"key":"a"}') + post('{"key":"b","scope":"api:here"}'))
        slow = client.request("POST", "/check", b'{"key":"a"}')
        fast = client.request("POST", "/check", b'{"key":"b","scope":"api:here"}')
        assert json.loads(client.answer(fast)[2])["source"] == "local" and slow not in client.answers
        assert daemon.check("c", "api:here")[1]["source"] == "local"
        store.go_on()
        first, second = json.loads(reader.answer()[2]), json.loads(reader.answer()[2])
        assert first["source"] == "shared" and second["source"] == "local"
        assert {first["remaining"], left(client.answer(slow)[2])} == {99, 98}


def test_clients_that_leave_while_the_store_is_slow(begin, store):
    daemon = begin()
    store.pause()
    for i in range(20):
        s = open_socket(daemon.http)
        if i % 2:
            s.sendall(post(json.dumps([{"key": "gone"}] * 3)) + post('{"key":"gone"}'))
        else:
            client = Client(s)
            for _ in range(5):
                client.c.reset_stream(client.request("POST", "/check", b'{"key":"gone"}'))
            client.flush()
        s.close()
    store.go_on()
    eventually(lambda: is_shared(daemon), "decisions are shared")
    eventually(lambda: daemon.metric("sluice_http_connections") <= 1, "all connections are gone")
    assert daemon.stop() == 0


# ---- the end


def test_b180_requests_that_wait_for_the_store_are_answered_before_the_end(begin, store):
    daemon = begin(timeout="1s")
    with contextlib.closing(open_socket(daemon.http)) as s:
        store.pause()
        s.sendall(post('{"key":"a"}'))
        eventually(lambda: daemon.metric("sluice_http_connections") == 2, "it is accepted")
        daemon.signal(signal.SIGTERM)
        status, head, body = Reader(s).answer()
        assert status == 200 and json.loads(body)["source"] == "degraded" and "connection: close" in head
    store.go_on()
    assert daemon.wait() == 0 and "were cut" not in daemon.log


def test_b180_an_end_that_does_not_wait_so_long(begin, store):
    daemon = begin(POLICY, "--drain-timeout", "100ms")
    with contextlib.closing(open_socket(daemon.http)) as s, contextlib.closing(open_socket(daemon.http)) as t:
        store.pause()
        s.sendall(post('{"key":"a"}'))
        Client(t).request("POST", "/check", b'[{"key":"a"},{"key":"b"}]')
        eventually(lambda: daemon.metric("sluice_http_connections") == 3, "they are accepted")
        daemon.signal(signal.SIGTERM)
        assert read_all(s) == b""
    daemon.wait_log("were cut")
    store.go_on()
    assert daemon.wait() == 0


# ---- readiness and metrics


def test_readiness_waits_for_the_store_but_not_for_ever(start, tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        began = time.monotonic()
        daemon = start(POLICY, "--store", f"redis+unix://{tmp_path}/silent")
        status, _, body = call(daemon.http, "GET", "/readyz")
        if time.monotonic() - began < 2:
            assert status == 503 and "store" in json.loads(body)["detail"]
        assert call(daemon.http, "GET", "/healthz")[0] == 200
        eventually(lambda: call(daemon.http, "GET", "/readyz")[0] == 200, "it is ready without its store")
        assert time.monotonic() - began >= 2
        assert daemon.metric("sluice_store_reached") == 0


def test_readiness_with_a_store(begin):
    daemon = begin()
    eventually(lambda: call(daemon.http, "GET", "/readyz")[0] == 200, "it is ready")
    assert call(daemon.admin, "GET", "/readyz")[0] == 200 and daemon.metric("sluice_store_reached") == 1


def test_metrics_tell_of_the_store(begin, store):
    daemon = begin()
    eventually(lambda: daemon.metric("sluice_store_reached") == 1, "the store counts as reached")
    for _ in range(30):
        daemon.check("m", cost=5)
    shard = f'shard="{store.path}"'
    assert metric(daemon, f'sluice_store_operations_total{{{shard},result="ok"}}') >= 21
    assert metric(daemon, f'sluice_store_operations_total{{{shard},result="timeout"}}') == 0
    assert metric(daemon, f"sluice_breaker_state{{{shard}}}") == 0
    assert metric(daemon, f"sluice_store_failovers_total{{{shard}}}") == 0
    assert metric(daemon, f"sluice_store_duration_seconds_count{{{shard}}}") >= 21
    assert metric(daemon, f'sluice_store_duration_seconds_bucket{{{shard},le="+Inf"}}') >= 21
    assert metric(daemon, f"sluice_store_duration_seconds_sum{{{shard}}}") > 0
    assert metric(daemon, 'sluice_decisions_total{limit="all",verdict="allowed",source="shared",mode="enforce"}') >= 20
    decided = [metric(daemon, f'sluice_decisions_total{{limit="all",verdict="rejected",source="{source}",mode="enforce"}}')
               for source in ("local", "shared", "degraded")]
    assert decided == [9, 1, 0]  # the store said no once, and was believed
    assert daemon.metric("sluice_near_rejections_total") == 9
    for name, value in (("sluice_leases_active", 0), ("sluice_instances", 1), ("sluice_store_secret_known", 1),
                        ("sluice_store_foreign_total", 0), ("sluice_refunds_lost_total", 0), ("sluice_lease_tokens_lost_total", 0)):
        assert daemon.metric(name) == value, name
    text = call(daemon.admin, "GET", "/metrics")[2].decode()
    assert text.count("# TYPE ") == text.count("# HELP ") == len(set(re.findall(r"^# TYPE (\S+)", text, re.M)))
    store.kill()
    eventually(lambda: daemon.check("m2")[1]["source"] == "degraded", "decisions are degraded", 60)


# ---- buckets


def buckets(daemon, method, key):
    status, _, body = call(daemon.admin, method, f"/v1/buckets?key={key}")
    assert status == 200
    return json.loads(body)


def test_buckets_in_the_store_are_shown_and_reset(begin, store):
    daemon, other = begin(), begin()
    daemon.check("b", cost=40)
    daemon.check("b", "api:here", cost=7)
    shown = {b["name"]: b for b in buckets(daemon, "GET", "b")["buckets"]}
    assert set(shown) == {"all", "here"} and shown["all"]["remaining"] == 60 and shown["here"]["remaining"] == 93
    assert [b["name"] for b in buckets(other, "GET", "b")["buckets"]] == ["all"]
    daemon.check("b", cost=61)  # what was rejected is known here
    assert daemon.check("b", cost=61)[1]["allowed"] is False
    assert buckets(daemon, "DELETE", "b") == {"reset": 2}
    assert buckets(daemon, "GET", "b") == {"buckets": []}
    assert daemon.remaining("b") == other.remaining("b") == 100
    assert daemon.check("b", cost=61)[1]["allowed"] is True


def test_buckets_in_an_outage_are_not_made_up(begin, store):
    daemon = begin(timeout="50ms")
    daemon.check("b", "api:here", cost=7)
    store.kill()
    eventually(lambda: daemon.metric("sluice_store_reached") == 0, "the store is missed")
    found = buckets(daemon, "GET", "b")
    assert [b["name"] for b in found["buckets"]] == ["here"] and found["unknown"] >= 1
    assert buckets(daemon, "DELETE", "b")["reset"] == 1
