"""Answers that come later, over HTTP/1 and HTTP/2: order, ends of connections, deadlines, draining. Drives later_server.c."""
import contextlib
import os
import re
import socket
import ssl
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "outside"))
from conftest import DEADLINE_S, call, eventually  # noqa: E402
from h2_client import Client  # noqa: E402
from http_util import Reader, make_certificate, open_socket, read_all  # noqa: E402

PROGRAM = os.path.join(os.environ.get("SLUICE_BUILD", "build"), "tests", "later_server")


class Server:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.public = self._line(r"public (\S+)")
        self.admin = self._line(r"admin (\S+)")
        self._line(r"ready()")

    def _line(self, pattern):
        line = self.process.stdout.readline()
        found = re.match(pattern, line)
        assert found, (line, self.process.stderr.read() if not line else "")
        return found.group(1)

    def ask(self, path):
        """The body of one request on a connection of its own."""
        status, _, body = call(self.public, "GET", path)
        assert status == 200
        return body.decode()

    def release(self, name):
        assert self.ask(f"/auth/release/{name}") == "released"

    def wait_held(self, n):
        eventually(lambda: int(self.ask("/auth/held")) == n, f"{n} are held")

    def answered(self):
        """How many answers /auth was counted to have given."""
        text = call(self.admin, "GET", "/metrics")[2].decode()
        return int(re.search(r'^sluice_http_responses_total\{route="/auth",class="2xx"\} (\d+)$', text, re.M).group(1))

    def open_connections(self):
        text = call(self.admin, "GET", "/metrics")[2].decode()
        return int(re.search(r"^sluice_http_connections (\d+)$", text, re.M).group(1)) - 1  # this one

    def stop(self, drain_ms):
        self.process.stdin.write(f"stop {drain_ms}\n")
        self.process.stdin.flush()

    def end(self):
        """How it stopped ("" when it was not asked to), after checking that it ended without a fault."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0, err
        return out.strip()


@pytest.fixture
def serve():
    servers = []

    def run(*arguments):
        servers.append(Server(*arguments))
        return servers[-1]

    yield run
    for server in servers:
        if server.process.poll() is None:
            try:
                server.end()
            finally:
                server.process.kill()


@pytest.fixture
def server(serve):
    return serve()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("pki"), "server")


def get(path, extra="", version="1.1", method="GET"):
    return f"{method} {path} HTTP/{version}\r\nHost: x\r\n{extra}\r\n".encode()


@pytest.fixture(params=["cleartext", "tls"])
def http1(request, serve, certificate):
    """(a server, opens a connection to it)"""
    tls = request.param == "tls"
    server = serve(f"cert={certificate[0]}", f"key={certificate[1]}") if tls else serve()
    if not tls:
        yield server, lambda: open_socket(server.public)
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sockets = []

    def opened():
        sockets.append(context.wrap_socket(open_socket(server.public)))
        return sockets[-1]

    # Plain requests of the test itself go the same way.
    def ask(path):
        with contextlib.closing(context.wrap_socket(open_socket(server.public))) as s:
            s.sendall(get(path))
            status, _, body = Reader(s).answer()
            assert status == 200
            return body.decode()

    server.ask = ask
    yield server, opened
    for s in sockets:
        s.close()


# ---- HTTP/1


def test_a_connection_goes_on_after_a_later_answer(http1):
    server, connect = http1
    with contextlib.closing(connect()) as s:
        reader = Reader(s)
        for _ in range(3):
            s.sendall(get("/auth/hold/a"))
            server.wait_held(1)
            server.release("a")
            status, head, body = reader.answer()
            assert (status, body) == (200, b"a") and "connection:" not in head
            s.sendall(get("/auth/now/b"))
            assert reader.answer()[2] == b"b"


def test_b166_pipelined_requests_wait_and_keep_their_order(http1):
    server, connect = http1
    with contextlib.closing(connect()) as s:
        reader = Reader(s)
        s.sendall(get("/auth/now/1") + get("/auth/hold/2") + get("/auth/now/3") + get("/auth/hold/4") + get("/auth/now/5"))
        assert reader.answer()[2] == b"1"
        server.wait_held(1)
        server.release("4")  # not asked for yet
        s.sendall(get("/auth/now/6")[:20])
        server.release("2")
        assert [reader.answer()[2] for _ in range(2)] == [b"2", b"3"]
        server.wait_held(1)
        s.sendall(get("/auth/now/6")[20:])
        server.release("4")
        assert [reader.answer()[2] for _ in range(3)] == [b"4", b"5", b"6"]


def test_what_is_sent_meanwhile_is_neither_read_without_bound_nor_lost(http1):
    server, connect = http1
    n = 2000
    with contextlib.closing(connect()) as s:
        reader = Reader(s)
        s.sendall(get("/auth/hold/a"))
        server.wait_held(1)
        s.sendall(b"".join(get(f"/auth/now/{i}") for i in range(n)))
        server.release("a")
        assert reader.answer()[2] == b"a"
        assert [int(reader.answer()[2]) for _ in range(n)] == list(range(n))


def test_many_later_answers_on_one_connection(http1):
    server, connect = http1
    n = 300
    with contextlib.closing(connect()) as s:
        reader = Reader(s)
        s.sendall(b"".join(get(f"/auth/after/0/{i}") for i in range(n)))
        assert [int(reader.answer()[2]) for _ in range(n)] == list(range(n))


def test_head_is_answered_without_a_body(http1):
    server, connect = http1
    with contextlib.closing(connect()) as s:
        s.sendall(get("/auth/hold/abc", method="HEAD") + get("/auth/now/x", "Connection: close\r\n"))
        server.wait_held(1)
        server.release("abc")
        answers = read_all(s).split(b"\r\n\r\n")
    assert b"Content-Length: 3" in answers[0] and answers[1].startswith(b"HTTP/1.1 200 OK") and answers[2] == b"x"


def test_http_1_0_and_close_end_after_the_answer(http1):
    server, connect = http1
    for request, keeps in [(get("/auth/hold/a", version="1.0"), False), (get("/auth/hold/a", "Connection: close\r\n"), False),
                           (get("/auth/hold/a", "Connection: keep-alive\r\n", "1.0"), True)]:
        with contextlib.closing(connect()) as s:
            reader = Reader(s)
            s.sendall(request + (b"" if keeps else get("/auth/hold/never")))
            server.wait_held(1)
            server.release("a")
            _, head, body = reader.answer()
            assert body == b"a" and ("connection: keep-alive" if keeps else "connection: close") in head
            if not keeps:
                assert read_all(s) == b"" and reader.buffer == b""
    assert server.ask("/auth/held") == "0"


def test_a_client_that_shut_its_side_is_still_answered(server):
    for more in (b"", get("/auth/now/b"), get("/auth/hold/b"), get("/auth/now/b")[:20]):
        with contextlib.closing(open_socket(server.public)) as s:
            s.sendall(get("/auth/hold/a") + more)
            s.shutdown(socket.SHUT_WR)
            server.wait_held(1)
            server.release("a")
            if b"hold" in more:
                server.wait_held(1)
                server.release("b")
            bodies = re.findall(rb"\r\n\r\n(.)", read_all(s))
            assert bodies == ([b"a", b"b"] if more.endswith(b"\r\n\r\n") else [b"a"])


def reset(s):
    """Closes with a reset."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def test_a_client_that_has_gone_is_not_answered_and_harms_nobody(server):
    for leave in (reset, socket.socket.close):
        with contextlib.closing(open_socket(server.public)) as other:
            s = open_socket(server.public)
            s.sendall(get("/auth/hold/a") + get("/auth/now/b"))
            other.sendall(get("/auth/hold/a"))
            server.wait_held(2)
            leave(s)
            server.release("a")
            assert Reader(other).answer()[2] == b"a"
    eventually(lambda: server.open_connections() == 0, "all connections are gone")


def test_deadlines_do_not_cut_a_request_whose_answer_is_to_come(serve):
    server = serve("idle_ms=100", "header_ms=100", "request_ms=100", "write_ms=100")
    with contextlib.closing(open_socket(server.public)) as s, contextlib.closing(open_socket(server.public)) as idle:
        reader = Reader(s)
        idle.sendall(get("/auth/now/x"))
        assert Reader(idle).answer()[2] == b"x"
        s.sendall(get("/auth/hold/a") + get("/auth/now/b")[:-2])
        assert read_all(idle) == b""  # closed: an idle one is
        server.wait_held(1)
        server.release("a")
        assert reader.answer()[2] == b"a"
        s.sendall(b"\r\n")
        assert reader.answer()[2] == b"b"
        assert read_all(s) == b""  # and now this one too


def test_answers_are_counted_when_they_are_given(server):
    with contextlib.closing(open_socket(server.public)) as s, contextlib.closing(open_socket(server.public)) as gone:
        s.sendall(get("/auth/hold/a"))
        gone.sendall(get("/auth/hold/b"))
        server.wait_held(2)
        before = server.answered()
        server.release("a")
        assert Reader(s).answer()[2] == b"a"
        assert server.answered() == before + 2  # `release` and this one


def test_b180_draining_waits_for_answers_to_come(serve):
    for tail in (b"", get("/auth/now/more")):
        server = serve()
        with contextlib.closing(open_socket(server.public)) as s:
            reader = Reader(s)
            s.sendall(get("/auth/after/900/a") + tail)  # longer than idle connections are left open after a stop
            eventually(lambda: server.open_connections() == 1, "it is accepted")
            server.stop(DEADLINE_S * 1000)
            _, head, body = reader.answer()
            assert body == b"a" and "connection: close" in head
            assert read_all(s) == b"" and reader.buffer == b""
        assert server.end() == "stopped drained"


def test_b180_what_is_left_at_the_drain_timeout_is_cut(serve):
    server = serve()
    with contextlib.closing(open_socket(server.public)) as s, contextlib.closing(open_socket(server.public)) as t:
        client = Client(t)
        s.sendall(get("/auth/after/800/a") + get("/auth/now/more"))
        client.request("GET", "/auth/after/800/b")
        assert client.answer(client.request("GET", "/auth/now/c"))[2] == b"c"
        server.stop(100)
        assert read_all(s) == b""
        assert server.end() == "stopped cut"


# ---- HTTP/2


@pytest.fixture
def client(server):
    with contextlib.closing(open_socket(server.public)) as s:
        yield Client(s)


def test_other_streams_go_on(server, client):
    held = [client.request("GET", f"/auth/hold/{name}") for name in "ab"]
    assert client.answer(client.request("GET", "/auth/now/c"))[2] == b"c"
    server.release("b")
    assert client.answer(held[1])[2] == b"b" and held[0] not in client.answers
    server.release("a")
    assert client.answer(held[0])[2] == b"a"
    status, headers, body = client.answer(client.request("HEAD", "/auth/after/0/abc"))
    assert status == 200 and headers["content-length"] == "3" and body == b""


def test_answers_of_one_turn_go_out_in_few_writes(server, client):
    n = 100
    streams = [client.request("GET", "/auth/hold/many") for _ in range(n)]
    server.wait_held(n)
    before = int(server.ask("/auth/sends"))
    server.release("many")
    assert all(client.answer(s)[2] == b"many" for s in streams)
    assert int(server.ask("/auth/sends")) - before <= 10


def test_a_stream_reset_meanwhile_is_forgotten(server, client):
    streams = [client.request("GET", "/auth/hold/a") for _ in range(20)]
    server.wait_held(20)
    before = server.answered()
    for s in streams[::2]:
        client.c.reset_stream(s)
    client.flush()
    assert client.answer(client.request("GET", "/auth/now/x"))[2] == b"x"
    server.release("a")
    assert all(client.answer(s)[2] == b"a" for s in streams[1::2])
    assert client.answer(client.request("GET", "/auth/now/y"))[2] == b"y"
    assert server.answered() == before + 10 + 3 and not client.goaway


def test_an_http2_client_that_has_gone_harms_nobody(server):
    for leave in (reset, socket.socket.close):
        s = open_socket(server.public)
        client = Client(s)
        for _ in range(10):
            client.request("GET", "/auth/hold/a")
        server.wait_held(10)
        leave(s)
        server.release("a")
        server.wait_held(0)
    eventually(lambda: server.open_connections() == 0, "all connections are gone")


def test_an_http2_client_that_shut_its_side_is_still_answered(server, client):
    streams = [client.request("GET", f"/auth/hold/{name}") for name in "ab"]
    server.wait_held(2)
    client.s.shutdown(socket.SHUT_WR)
    server.release("b")
    client.flush = lambda: None  # it can say nothing more
    assert client.answer(streams[1])[2] == b"b"
    server.release("a")
    assert client.answer(streams[0])[2] == b"a"
    assert read_all(client.s) == b""


def test_answers_to_come_count_among_those_that_wait(serve):
    server = serve("out_bytes=16384")
    with contextlib.closing(open_socket(server.public)) as s:
        client = Client(s)
        streams = [client.request("GET", "/auth/hold/a/9000") for _ in range(3)]
        server.wait_held(2)  # the third is not decided
        assert client.c.ping(b"12345678") is None
        client.flush()
        while not client.pongs:
            client.read()
        assert server.ask("/auth/held") == "2"
        server.release("a")
        assert all(len(client.answer(s)[2]) == 9000 for s in streams[:2])
        server.wait_held(1)
        server.release("a")
        assert len(client.answer(streams[2])[2]) == 9000


def test_a_large_later_answer_waits_for_the_window(server, client):
    stream = client.request("GET", "/auth/hold/a/500000")
    server.wait_held(1)
    server.release("a")
    assert len(client.answer(stream)[2]) == 500000


def test_http2_deadlines_do_not_cut_a_request_whose_answer_is_to_come(serve):
    server = serve("idle_ms=100", "header_ms=100", "request_ms=100", "write_ms=100")
    with contextlib.closing(open_socket(server.public)) as s, contextlib.closing(open_socket(server.public)) as idle:
        client = Client(s)
        held = client.request("GET", "/auth/hold/a")
        client.request("POST", "/auth/now/never", end=False)  # never whole: this one has a deadline
        Client(idle)
        read_all(idle)
        client.c.state_machine.process_input = lambda event: []  # goes on after GOAWAY, as HTTP/2 does
        server.wait_held(1)
        server.release("a")
        assert client.answer(held)[2] == b"a"
        while not client.closed:
            client.read()


def test_b180_draining_waits_for_streams_whose_answer_is_to_come(server, client):
    streams = [client.request("GET", f"/auth/after/{ms}/a") for ms in (700, 900)]
    assert client.answer(client.request("GET", "/auth/now/x"))[2] == b"x"
    server.stop(DEADLINE_S * 1000)
    client.c.state_machine.process_input = lambda event: []
    assert all(client.answer(s)[2] == b"a" for s in streams)
    while not client.closed:
        client.read()
    assert server.end() == "stopped drained"
