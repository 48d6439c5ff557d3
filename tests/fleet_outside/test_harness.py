"""The tools themselves: what they claim to do to a store they do, and what they count is what happened."""
import socket
import time

import pytest

from fleet import Request, Requests
from stores import Cluster, Impostor, Redis, Resp, Sentinels, until

WIDE = "version: 1\nlimits:\n  - {name: wide, rate: 1000000/s, burst: 1000000}\n"


def test_load_counts_what_the_daemon_counts(fleet, say):
    one = fleet.daemon("version: 1\nlimits:\n  - {name: tight, key: tight, rate: 1/h, burst: 300}\n  - {name: wide, rate: 1000000/s}\n", "memory:")
    load = fleet.load(one, 5000, 2, "40 tight 1", "60 wide 1000")
    requests = load.wait()
    say(f"{requests.summary()}; {load.cpu_share():.2f} of a core; waited for a connection at most {max(r.waited for r in requests) * 1e3:.1f} ms")
    assert len(requests) == 10000 and len(requests.of(answered=True)) == 10000
    tight = requests.of(mix=0)
    assert len(tight.allowed) == 300 and len(requests.of(mix=1).allowed) == len(requests.of(mix=1))
    assert one.sum("sluice_decisions_total", limit="tight", verdict="allowed") == 300
    assert one.sum("sluice_decisions_total") == 10000
    assert {r.reason for r in tight if not r.allowed} == {"rate_limited"} and all(r.retry_after_ms > 0 for r in tight if not r.allowed)
    assert abs(len(tight) - 4000) < 400
    assert load.cpu_share() < 0.5


def test_load_goes_on_without_a_daemon_that_was_killed(fleet):
    one, other = fleet.daemon(WIDE, "memory:"), fleet.daemon(WIDE, "memory:")
    load = fleet.load([one, other], 2000, 1.5, "1 k 100")
    load.at(0.5)
    one.kill()
    requests = load.wait()
    lost = [r for r in requests if not r.answered]
    assert len(lost) <= 16 and {r.target for r in requests.since(load.begun + 0.6)} == {1}


def test_spans_and_windows():
    def request(sent, allowed=True):
        r = object.__new__(Request)
        r.sent, r.done, r.took, r.allowed, r.answered, r.source = sent, sent + 0.001, 0.001, allowed, True, "local"
        return r

    # A burst of 20 at 5.0 in a flow of 10 a second.
    flow = Requests([request(i / 10) for i in range(100)] + [request(5.0 + i * 1e-5) for i in range(20)])
    beyond, begin, end = flow.most_beyond(10)
    assert 20 <= beyond <= 22 and begin <= 5.0 <= end
    windows = flow.windows(1, 0)
    assert [w[0] for w in windows[:7]] == [10, 10, 10, 10, 10, 30, 10] and windows[0][2]


def test_proxy(fleet, say):
    redis = fleet.redis()
    proxy = fleet.proxy(redis.port)
    client = Resp(("127.0.0.1", proxy.port))
    assert client.call("SET", "a", "1") == b"OK"

    proxy.set("delay 20000")
    begin = time.monotonic()
    assert client.call("GET", "a") == b"1"
    assert time.monotonic() - begin >= 0.02

    proxy.set("drop")
    client.send("INCR", "n")
    client.socket.settimeout(0.1)
    with pytest.raises(OSError):
        client.socket.recv(1, socket.MSG_PEEK)
    assert redis.do("GET", "n") is None
    client.socket.settimeout(20)
    proxy.set("pass")
    client.file = client.socket.makefile("rb")
    assert client.read() == 1

    proxy.set("mute")
    client.send("INCR", "n")
    until(lambda: redis.do("GET", "n") == b"2", "the request arrives")

    proxy.set("refuse")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))
    with pytest.raises((ConnectionError, OSError)):
        client.call("PING")
    proxy.set("pass")
    client = Resp(("127.0.0.1", proxy.port))
    assert client.call("PING") == b"PONG"

    proxy.set("cut 3")
    with pytest.raises(ConnectionError):
        client.call("PING")
    assert proxy.set("count") == (0, 2)

    # 5,000 operations a second, pipelined, held back by 2 ms: how much later than that do they come?
    proxy.set("delay 2000")
    client = Resp(("127.0.0.1", proxy.port))
    late = []
    begin = time.monotonic()
    for i in range(250):
        while time.monotonic() < begin + i * 0.004:
            pass
        sent = time.monotonic()
        for _ in range(20):
            client.send("GET", "a")
        for _ in range(20):
            assert client.read() == b"1"
        late.append((time.monotonic() - sent - 0.002) * 1e3)
    late.sort()
    say(f"{5000 / (time.monotonic() - begin):.0f} operations a second; beyond the 2 ms: median {late[125]:.2f} ms, 99 % {late[247]:.2f} ms")
    assert late[0] >= 0


def test_servers(fleet, tmp_path):
    redis = fleet.redis("--requirepass", "secret", module=True)
    with pytest.raises(Exception, match="NOAUTH"):
        redis.do("GET", "a")
    assert redis.do("AUTH", "secret") == b"OK"
    assert redis.do("MODULE", "LIST")


def test_sentinels_fail_over(fleet):
    sentinels = fleet.store(Sentinels)
    assert sentinels.master_port() == sentinels.master.port
    sentinels.master.kill()
    until(lambda: sentinels.master_port() == sentinels.replicas[0].port, "the replica is the master")
    assert isinstance(sentinels.master, Redis)


def test_cluster_fails_over(fleet):
    cluster = fleet.store(Cluster)
    masters = cluster.masters()
    assert len(masters) == 3
    replica = cluster.replica_of(masters[0])
    masters[0].kill()
    until(lambda: replica.info("replication")["role"] == "master", "the replica is the master")


def test_impostor():
    impostor = Impostor(b"+OK\r\n")
    client = Resp(("127.0.0.1", impostor.port))
    assert client.call("ANYTHING") == b"OK"
    client.close()
    impostor.kill()


