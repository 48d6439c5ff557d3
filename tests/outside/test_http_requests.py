"""HTTP/1 on the wire: framing, expectations, limits, pipelining, tokens, unix sockets."""
import contextlib
import json
import os
import random
import stat

import pytest

from conftest import call, connect
from http_util import Reader, open_socket, post, raw

J = {"Content-Type": "application/json"}


def is_alive(daemon):
    status, verdict = daemon.check("alive", cost=0)
    return status == 200 and verdict["allowed"]


def test_b161_expect_100_continue(daemon):
    body = b'{"key":"%s"}' % (b"k" * 500)
    with contextlib.closing(open_socket(daemon.http)) as s:
        reader = Reader(s)
        head = post(body, "Expect: 100-continue\r\n")[:-len(body)]
        s.sendall(head)
        assert reader.interim() == 100
        s.sendall(body)
        assert reader.answer()[0] == 200
        s.sendall(post(body, "Expect: 100-continue\r\n"))  # head and body in one: no need to say go on
        assert reader.answer()[0] == 200
    over = b"POST /check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9000000\r\n\r\n"
    assert raw(daemon.http, over).startswith(b"HTTP/1.1 413 ")
    assert raw(daemon.http, post(b"{}", "Expect: bogus\r\n")).startswith(b"HTTP/1.1 417 ")
    with contextlib.closing(open_socket(daemon.http)) as s:  # HTTP/1.0 gets no 100
        s.sendall(b"POST /check HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n")
        s.sendall(b'{"key":"k"}')
        assert Reader(s).answer()[0] == 200


@pytest.mark.parametrize("length", ["36\r\nContent-Length: 0", "5, 5", "+5", "5 5", "-1", "99999999999999999999", "0x5"])
def test_b163_two_content_lengths(daemon, length):
    reply = raw(daemon.http, f"POST /check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() +
                b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 400 ") and reply.count(b"HTTP/1.1 ") == 1 and b"\r\nConnection: close\r\n" in reply


@pytest.mark.parametrize("lines", ["Transfer-Encoding: chunked\r\nContent-Length: 3", "Transfer-Encoding: chunked, identity",
                                   "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"])
def test_b165_content_length_with_transfer_encoding(daemon, lines):
    reply = raw(daemon.http, f"POST /check HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert reply[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 501 ") and reply.count(b"HTTP/1.1 ") == 1


def test_b166_request_behind_a_chunked_one(daemon):
    body = b'{"key":"chunky"}'
    chunked = b"POST /check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n" + body[:7] + b"\r\n9\r\n" + body[7:] + b"\r\n0\r\n\r\n"
    with contextlib.closing(open_socket(daemon.http)) as s:
        reader = Reader(s)
        s.sendall(chunked + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert json.loads(reader.answer()[2])["remaining"] == 99
        assert reader.answer()[2] == b"alive\n"
        s.sendall(post(body))
        assert json.loads(reader.answer()[2])["remaining"] == 98


def test_b166_thousand_pipelined_in_pieces(daemon):
    """A thousand checks of two keys, written in pieces of one to a few bytes: every answer in order and for its own key."""
    rng = random.Random(7)
    data = b"".join(post('{"key":"%s","cost":0}' % ("even" if i % 2 == 0 else "odd")) for i in range(1000))
    daemon.check("even", cost=10)
    with contextlib.closing(open_socket(daemon.http)) as s:
        reader, answers, at = Reader(s), [], 0
        while at < len(data):
            n = rng.choice([1, 1, 2, 7, 100, 3000])
            s.sendall(data[at:at + n])
            at += n
        for i in range(1000):
            answers.append(json.loads(reader.answer()[2])["remaining"])
    assert answers == [90, 100] * 500


@pytest.mark.parametrize("head", ["Content-Length 10", "Host : x", " X: y", "X: a\r\n folded", ": x", "two words: x", "X: a\rb",
                                  "X: a\0b", "Host: second"])
def test_b167_malformed_header(daemon, head):
    reply = raw(daemon.http, f"GET /healthz HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
    assert reply.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in reply


def test_b167_no_host(daemon):
    assert raw(daemon.http, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(daemon.http, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_b168_deep_nesting(daemon):
    for body in (b"[" * (1 << 20), b'{"a":' * 100000):
        status, headers, _ = call(daemon.http, "POST", "/check", body, J)
        assert status == 400 and headers["content-type"] == "application/problem+json"
    assert is_alive(daemon)


BAD_BODIES = [b"", b"{", b"[]x", b"[]", b"null", b'"k"', b"{}", b'{"key":""}', b'{"key":1}', b'{"key":"a","cost":-1}', b'{"key":"a","cost":1.5}',
              b'{"key":"a","cost":1e30}', b'{"key":"a","cost":"1"}', b'{"key":"a","key":"b"}', b'{"key":"a","nope":1}', b'{"key":"a\\u0000b"}',
              b'{"key":"\xff\xfe"}', b'{"key":"' + b"k" * 513 + b'"}', b'{"key":"a","scope":"' + b"s" * 2049 + b'"}',
              b'{"key":"a","cost":9999999999}', b'{"key":"a\\r\\nX: y"}', b'{"key":"a","labels":{"' + b"n" * 65 + b'":"v"}}',
              b'{"key":"a","labels":{"n":"' + b"v" * 513 + b'"}}', b'{"key":"a\x7f"}',
              json.dumps({"key": "a", "labels": {f"l{i}": "" for i in range(17)}}).encode(),
              json.dumps([{"key": "a"}] * 1001).encode()]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_bad_bodies_are_problems(daemon, body):
    status, headers, data = call(daemon.http, "POST", "/check", body, J)
    problem = json.loads(data)
    assert status in (400, 413) and headers["content-type"] == "application/problem+json"
    assert problem["status"] == status and problem["title"] and problem["detail"] and problem["type"]
    assert daemon.remaining("a") == 100


def test_body_over_the_limit(start):
    daemon = start(POLICY_SMALL, "--body-bytes", "1024")
    status, _, _ = call(daemon.http, "POST", "/check", b" " * 1025, J)
    assert status == 413
    assert call(daemon.http, "POST", "/check", b'{"key":"k"}' + b" " * 1000, J)[0] == 200
    reply = raw(daemon.http, b"POST /check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"200\r\n" + b" " * 512 + b"\r\n" +
                (b"200\r\n" + b" " * 512 + b"\r\n") * 3 + b"0\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 413 ")


POLICY_SMALL = "version: 1\nlimits: [{name: all, rate: 100/h}]\n"


def test_header_over_the_limit(start):
    daemon = start(POLICY_SMALL, "--header-bytes", "2048")
    assert raw(daemon.http, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 2100 + b"\r\n\r\n").startswith(b"HTTP/1.1 431 ")
    assert raw(daemon.http, b"GET /" + b"x" * 70000).startswith(b"HTTP/1.1 431 ")
    assert call(daemon.http, "GET", "/healthz", headers={"X": "x" * 1900})[0] == 200


def test_a_large_body_in_small_pieces(daemon):
    body = json.dumps([{"key": f"k{i}", "scope": "s" * 2000} for i in range(1000)]).encode()
    data = post(body)
    with contextlib.closing(open_socket(daemon.http)) as s:
        for at in range(0, len(data), 50000):
            s.sendall(data[at:at + 50000])
        status, _, answer = Reader(s).answer()
    assert status == 200 and [v["remaining"] for v in json.loads(answer)] == [99] * 1000


def test_answers_beyond_the_out_limit_come_in_order(start):
    """Pipelined batches whose answers are far above --out-bytes, to a client that reads late: all arrive, in order."""
    daemon = start(POLICY_SMALL, "--out-bytes", "16384")
    batch = json.dumps([{"key": "k", "cost": 0}] * 300)
    data = b"".join(post(batch) + post('{"key":"n%d"}' % i) for i in range(40))
    with contextlib.closing(open_socket(daemon.http)) as s:
        reader, seen = Reader(s), 0
        s.setblocking(False)
        sent = 0
        while sent < len(data):  # writes as long as the server takes, and reads only when it does not
            try:
                sent += s.send(data[sent:sent + 100000])
            except BlockingIOError:
                s.settimeout(20)
                assert len(json.loads(reader.answer()[2])) == 300 if seen % 2 == 0 else reader.answer()[0] == 200
                seen += 1
                s.setblocking(False)
        s.settimeout(20)
        while seen < 80:
            status, _, body = reader.answer()
            assert status == 200 and isinstance(json.loads(body), list) == (seen % 2 == 0)
            seen += 1


def test_keep_alive_and_close(daemon):
    c = connect(daemon.http)
    for i in range(50):
        c.request("POST", "/check", json.dumps({"key": "alive"}), J)
        assert json.loads(c.getresponse().read())["remaining"] == 99 - i
    c.close()
    reply = raw(daemon.http, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"\r\nConnection: close\r\n" in reply
    reply = raw(daemon.http, b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n")
    assert reply.count(b"HTTP/1.1 200 OK") == 2 and reply.count(b"Connection: keep-alive") == 1


def test_a_client_that_shuts_its_side_still_gets_its_answers(daemon):
    import socket
    with contextlib.closing(open_socket(daemon.http)) as s:
        s.sendall(post('{"key":"half"}') * 3)
        s.shutdown(socket.SHUT_WR)
        reader = Reader(s)
        assert [json.loads(reader.answer()[2])["remaining"] for _ in range(3)] == [99, 98, 97]
        assert s.recv(1) == b""


def test_head_has_no_body(daemon):
    reply = raw(daemon.http, b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert reply.endswith(b"\r\n\r\n") and b"Content-Length: 6" in reply


def test_check_token(start):
    daemon = start(POLICY_SMALL, "--check-token", "s3cret", "--admin-token", "root")
    body = '{"key":"k"}'
    assert call(daemon.http, "POST", "/check", body, J)[0] == 401
    assert call(daemon.http, "POST", "/check", body, {**J, "Authorization": "Bearer nope"})[0] == 401
    assert call(daemon.http, "POST", "/check", body, {**J, "Authorization": "Bearer s3cret"})[0] == 200
    assert call(daemon.http, "GET", "/auth")[0] == 200
    assert call(daemon.admin, "GET", "/metrics")[0] == 401
    assert call(daemon.admin, "GET", "/metrics", headers={"Authorization": "Bearer root"})[0] == 200
    assert call(daemon.admin, "GET", "/healthz")[0] == 200


def test_unix_socket(start, tmp_path):
    path = str(tmp_path / "s")
    daemon = start(POLICY_SMALL, "--listen", f"unix:{path}", "--unix-mode", "0600", "--check-token", "t", "--admin", "127.0.0.1:0", ports=False)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    status, _, data = call(f"unix:{path}", "POST", "/check", '{"key":"k"}', J)  # its mode is the admission: no token
    assert status == 200 and json.loads(data)["remaining"] == 99
    assert daemon.stop() == 0
    assert not os.path.exists(path)


def test_b182_stale_unix_socket(start, tmp_path):
    path = str(tmp_path / "s")
    first = start(POLICY_SMALL, "--listen", f"unix:{path}", "--admin", "127.0.0.1:0", ports=False)
    first.process.kill()
    first.process.wait()
    assert os.path.exists(path)
    second = start(POLICY_SMALL, "--listen", f"unix:{path}", "--admin", "127.0.0.1:0", ports=False)
    assert call(f"unix:{path}", "GET", "/healthz")[0] == 200
    third = start(POLICY_SMALL, "--listen", f"unix:{path}", "--admin", "127.0.0.1:0", ports=False, wait=False)
    assert third.wait() == 2 and "another process listens there" in third.log
    assert call(f"unix:{path}", "GET", "/healthz")[0] == 200
    assert second.stop() == 0


def test_many_workers_share_one_count(start):
    daemon = start(POLICY_SMALL, "--workers", "4")
    allowed = sum(daemon.check("shared")[1]["allowed"] for _ in range(120))
    assert allowed == 100
    assert daemon.metric('sluice_decisions_total{limit="all",verdict="rejected",source="local",mode="enforce"}') == 20


def test_a_request_as_close_to_random_as_it_gets(daemon):
    rng = random.Random(20260131)
    alphabet = b"\r\n :/?\0GETPOSTHTTP/1.1Host: x{}[]\"\xff\x80,0123456789"
    for _ in range(200):
        data = bytes(rng.choice(alphabet) for _ in range(rng.randrange(1, 200))) + b"\r\n\r\n\r\n\r\n"
        with contextlib.closing(open_socket(daemon.http)) as s:
            import socket
            s.sendall(data)
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                reply = s.recv(65536)
                assert reply[:10] in (b"", b"HTTP/1.1 4", b"HTTP/1.1 5")
    assert is_alive(daemon)


def test_auth_decides_methods_it_has_never_heard_of(start):
    daemon = start("""version: 1
endpoints: {frob: {match: ["FROB /x*"]}}
limits: [{name: frob, endpoint: frob, rate: 1/h}]
""")
    with contextlib.closing(open_socket(daemon.http)) as s:
        reader = Reader(s)
        s.sendall(b"FROB /auth/x HTTP/1.1\r\nHost: x\r\n\r\n" * 2 + b"FROB /check HTTP/1.1\r\nHost: x\r\n\r\nfrob /auth/x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [reader.answer()[0] for _ in range(4)] == [200, 429, 405, 200]
