"""HTTP/2: in cleartext by prior knowledge and over TLS, with four clients; its floods; and TLS itself."""
import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time

import h2.config
import h2.connection
import h2.exceptions
import h2.settings
import httpx
import pytest

from conftest import DEADLINE_S, call, eventually
from h2_client import Client
from http_util import make_certificate, open_socket, post, raw, read_all

POLICY = """version: 1
identity: {order: [api_key, address], headers: {api_key: X-Api-Key}}
limits:
  - {name: all, rate: 100/h, on_store_failure: local}
"""


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    ca = make_certificate(folder, "ca", ca=True)
    return {"ca": ca, "server": make_certificate(folder, "server", ca), "client": make_certificate(folder, "client", ca),
            "stranger": make_certificate(folder, "stranger")}


@pytest.fixture
def client(daemon_h2):
    with contextlib.closing(open_socket(daemon_h2.http)) as s:
        yield Client(s)


@pytest.fixture
def daemon_h2(start):
    return start(POLICY)


def test_requests_answers_and_headers(client):
    stream = client.request("POST", "/check", b'{"key":"a","cost":4}')
    status, headers, body = client.answer(stream)
    assert status == 200 and json.loads(body)["remaining"] == 96 and headers["content-type"] == "application/json"
    status, headers, body = client.answer(client.request("GET", "/auth/v1/x", headers=[("x-api-key", "b")]))
    assert status == 200 and headers["ratelimit-remaining"] == "99" and body == b"" and "date" in headers
    for _ in range(100):
        status, headers, body = client.answer(client.request("GET", "/auth", headers=[("x-api-key", "b")]))
    assert status == 429 and int(headers["retry-after"]) >= 1 and json.loads(body)["error"]["code"] == "rate_limited"
    assert client.answer(client.request("GET", "/nowhere"))[0] == 404
    assert client.answer(client.request("GET", "/check"))[1]["allow"] == "POST"
    status, headers, body = client.answer(client.request("HEAD", "/healthz"))
    assert status == 200 and headers["content-length"] == "6" and body == b""


def test_many_streams_at_once(client):
    streams = [client.request("POST", "/check", b'{"key":"many"}') for _ in range(100)]
    left = [json.loads(client.answer(s)[2])["remaining"] for s in streams]
    assert left == list(range(99, -1, -1))


def test_a_large_batch_through_flow_control(client):
    body = json.dumps([{"key": f"k{i}", "scope": "s" * 200} for i in range(1000)]).encode()
    stream = client.request("POST", "/check", headers=[("content-length", str(len(body)))], end=False)
    while body:
        n = min(len(body), client.c.local_flow_control_window(stream), client.c.max_outbound_frame_size)
        if n:
            client.c.send_data(stream, body[:n], end_stream=n == len(body))
            client.flush()
            body = body[n:]
        else:
            client.read()
    assert len(json.loads(client.answer(stream)[2])) == 1000


def test_b170_answers_that_nobody_takes_hold_the_next_requests_back(start):
    """Streams without a window: what is not taken is bounded, what waits is not decided, and all of it goes on later."""
    daemon = start(POLICY, "--out-bytes", "16384")
    decided = 'sluice_decisions_total{limit="all",verdict="%s",source="local",mode="enforce"}'
    batch = json.dumps([{"key": "slow"}] * 100).encode()
    with contextlib.closing(open_socket(daemon.http)) as s:
        client = Client(s)
        client.c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        streams = [client.request("POST", "/check", batch) for _ in range(20)]
        given_up = client.request("POST", "/check", b'{"key":"never"}')
        client.c.reset_stream(given_up)
        client.c.ping(b"all read")
        client.flush()
        while not client.pongs:
            client.read()
        assert daemon.metric(decided % "allowed") == 100
        assert not daemon.metric(decided % "rejected")
        client.c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        client.flush()
        bodies = [json.loads(client.answer(stream)[2]) for stream in streams]
        assert [verdict["remaining"] for verdict in bodies[0]] == list(range(99, -1, -1))
        assert all(len(body) == 100 and not any(verdict["allowed"] for verdict in body) for body in bodies[1:])
    assert daemon.metric(decided % "allowed") == 100 and daemon.metric(decided % "rejected") == 1900


def test_limits_are_kept(start):
    daemon = start(POLICY, "--body-bytes", "1024", "--header-bytes", "2048", "--max-streams", "5")
    with contextlib.closing(open_socket(daemon.http)) as s:
        client = Client(s)
        assert client.answer(client.request("POST", "/check", b" " * 1025))[0] == 413
        assert client.answer(client.request("GET", "/healthz", headers=[("x", "x" * 3000)]))[0] == 431
        assert client.answer(client.request("GET", "/healthz", headers=[(f"x{i}", "") for i in range(101)]))[0] == 431
        assert client.c.remote_settings.max_concurrent_streams == 5
        assert client.answer(client.request("GET", "/healthz"))[0] == 200


def test_malformed_frames_end_the_connection(daemon_h2):
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    for frame in (b"\0\0\5\0\0\0\0\0\0hello", b"\xff\xff\xff\1\4\0\0\0\1", b"\0\0\1\1\5\0\0\0\1\xff", b"\0\0\4\x08\0\0\0\0\0\0\0\0\0"):
        assert b"HTTP/1.1" not in raw(daemon_h2.http, preface + frame)
    assert raw(daemon_h2.http, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + b"x" * 100) is not None
    assert call(daemon_h2.http, "GET", "/healthz")[0] == 200


def test_the_preface_in_pieces(daemon_h2):
    with contextlib.closing(open_socket(daemon_h2.http)) as s:
        client = Client.__new__(Client)
        client.__dict__.update(s=s, answers={}, resets={}, goaway=None, closed=False, bodies={},
                               c=h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8")))
        client.c.initiate_connection()
        for byte in client.c.data_to_send():
            s.sendall(bytes([byte]))
        assert client.answer(client.request("GET", "/healthz"))[0] == 200


def test_rapid_reset_is_ended(daemon_h2):
    """Streams opened and reset at once, without end: the client is sent away, others are served."""
    with contextlib.closing(open_socket(daemon_h2.http)) as s:
        client = Client(s)
        with contextlib.suppress(ConnectionError, h2.exceptions.ProtocolError):
            for _ in range(20000):
                stream = client.request("POST", "/check", headers=[("content-length", "5")], end=False)
                client.c.reset_stream(stream)
                client.flush()
                if client.goaway is not None or client.closed:
                    break
                s.settimeout(0.0005)
                with contextlib.suppress(TimeoutError, BlockingIOError):
                    client.read()
                s.settimeout(20)
        assert client.goaway is not None or client.closed
    assert call(daemon_h2.http, "GET", "/healthz")[0] == 200


def resident_bytes(daemon):
    return int(open(f"/proc/{daemon.process.pid}/statm").read().split()[1]) * 4096


def test_continuation_flood_is_ended(daemon_h2):
    """A header block that never ends (CONTINUATION without END_HEADERS) is refused long before memory is an issue."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    first = b"\0\0\1\1\0\0\0\0\1\x82"
    more = b"\0\x3f\xff\x09\0\0\0\0\1" + b"\x00\x01a\x7f\xf0\x7e" + b"a" * 16377  # a long literal, then more of it
    before = resident_bytes(daemon_h2)
    with contextlib.closing(open_socket(daemon_h2.http)) as s:
        with contextlib.suppress(ConnectionError):
            s.sendall(preface + first)
            for _ in range(1000):
                s.sendall(more)
        reply = read_all(s)  # what is sent after the end is thrown away
    assert b"\x07\0\0\0\0\0" in reply or reply == b"", "no GOAWAY"
    assert resident_bytes(daemon_h2) - before < 16 << 20
    eventually(lambda: daemon_h2.metric("sluice_http_connections") <= 1, "the connection is gone")


def test_ping_flood_is_bounded(daemon_h2):
    with contextlib.closing(open_socket(daemon_h2.http)) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        s.settimeout(1)
        with contextlib.suppress(OSError):
            while True:  # never reads: the server stops reading, or ends it
                s.sendall((b"\0\0\x08\x06\0\0\0\0\0" + b"pingpong") * 1000)
    assert call(daemon_h2.http, "GET", "/healthz")[0] == 200


def test_slow_streams_are_ended(start):
    daemon = start(POLICY, "--request-timeout", "300ms")
    with contextlib.closing(open_socket(daemon.http)) as s:
        client = Client(s)
        client.request("POST", "/check", headers=[("content-length", "5")], end=False)
        while not client.closed:
            client.read()
        assert client.goaway is not None


def test_b170_answers_that_nobody_takes_are_cut(start):
    """Answers that find no window end with the connection after --write-timeout, however busy the client is otherwise."""
    daemon = start(POLICY, "--write-timeout", "300ms")
    with contextlib.closing(open_socket(daemon.http)) as s:
        client = Client(s)
        client.c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        client.request("POST", "/check", b'{"key":"k"}')
        end = time.monotonic() + DEADLINE_S
        with contextlib.suppress(ConnectionError, h2.exceptions.ProtocolError):
            while not client.closed:
                assert time.monotonic() < end, "held for as long as the client pings"
                client.c.ping(b"pingpong")
                client.flush()
                client.read()
    assert daemon.metric("sluice_http_timeouts_total") >= 1


def test_idle_connections_get_a_goaway(start):
    daemon = start(POLICY, "--idle-timeout", "300ms")
    with contextlib.closing(open_socket(daemon.http)) as s:
        client = Client(s)
        assert client.answer(client.request("GET", "/healthz"))[0] == 200
        while not client.closed:
            client.read()
        assert client.goaway == 0


def test_a_stop_sends_goaway_and_answers_what_is_open(daemon_h2):
    with contextlib.closing(open_socket(daemon_h2.http)) as s:
        client = Client(s)
        open_stream = client.request("POST", "/check", headers=[("content-length", "11")], end=False)
        assert client.answer(client.request("GET", "/healthz"))[0] == 200
        daemon_h2.process.terminate()
        while client.goaway is None:
            client.read()
        client.c.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN  # h2 refuses to go on after GOAWAY; HTTP/2 does not
        client.c.send_data(open_stream, b'{"key":"k"}', end_stream=True)
        client.flush()
        assert client.answer(open_stream)[0] == 200
    assert daemon_h2.wait() == 0


@pytest.mark.parametrize("command", [["curl", "-s", "--http2-prior-knowledge", "-w", "\n%{http_version} %{http_code}", "-d", '{"key":"k"}'],
                                     ["curl", "-s", "--http2", "-w", "\n%{http_version} %{http_code}", "-d", '{"key":"k"}']])
def test_curl(daemon_h2, command):
    out = subprocess.run([*command, f"http://{daemon_h2.http}/check"], capture_output=True, text=True, timeout=30, check=True).stdout
    body, last = out.rsplit("\n", 1)
    assert json.loads(body)["remaining"] == 99
    assert last == ("2 200" if "--http2-prior-knowledge" in command else "1.1 200")


@pytest.mark.skipif(not shutil.which("nghttp"), reason="nghttp is not installed")
def test_nghttp(daemon_h2):
    out = subprocess.run(["nghttp", "-v", "-m", "50", f"http://{daemon_h2.http}/healthz"], capture_output=True, text=True, timeout=30, check=True).stdout
    assert out.count(":status: 200") == 50


def test_httpx_over_tls_chooses_h2(start, pki):
    daemon = start(POLICY, "--tls-cert", pki["server"][0], "--tls-key", pki["server"][1])
    with httpx.Client(http2=True, verify=pki["ca"][0]) as http:
        url = f"https://localhost:{daemon.http.rsplit(':', 1)[1]}"
        for i in range(5):
            answer = http.post(url + "/check", json={"key": "tls"})
            assert answer.http_version == "HTTP/2" and answer.json()["remaining"] == 99 - i
    with httpx.Client(http1=True, http2=False, verify=pki["ca"][0]) as http:
        answer = http.post(url + "/check", json={"key": "tls"})
        assert answer.http_version == "HTTP/1.1" and answer.json()["remaining"] == 94
    assert call(daemon.admin, "GET", "/healthz")[0] == 200  # on loopback the admin listener stays cleartext
    assert daemon.stop() == 0


def tls_socket(daemon, context, alpn=()):
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context.wrap_socket(open_socket(daemon.http), server_hostname="localhost")


def test_tls_large_bodies_and_slow_handshakes(start, pki):
    daemon = start(POLICY, "--tls-cert", pki["server"][0], "--tls-key", pki["server"][1], "--header-timeout", "500ms")
    context = ssl.create_default_context(cafile=pki["ca"][0])
    body = json.dumps([{"key": f"k{i}", "scope": "s" * 2000} for i in range(1000)]).encode()
    with contextlib.closing(tls_socket(daemon, context)) as s:
        s.sendall(post(body) + post('{"key":"after"}', "Connection: close\r\n"))
        reply = read_all(s)
    assert reply.count(b"HTTP/1.1 200") == 2 and reply.count(b'"allowed":true') == 1001
    with contextlib.closing(open_socket(daemon.http)) as s:  # says nothing, then garbage: both are ended
        assert read_all(s) == b""
    assert not raw(daemon.http, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP")


def test_tls_before_1_2_is_refused(start, pki):
    daemon = start(POLICY, "--tls-cert", pki["server"][0], "--tls-key", pki["server"][1])
    out = subprocess.run(["openssl", "s_client", "-connect", daemon.http, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], input=b"", capture_output=True,
                         timeout=30)
    assert out.returncode != 0


def test_client_certificates(start, pki):
    daemon = start(POLICY, "--tls-cert", pki["server"][0], "--tls-key", pki["server"][1], "--tls-client-ca", pki["ca"][0])

    def ask(pair):
        context = ssl.create_default_context(cafile=pki["ca"][0])
        if pair:
            context.load_cert_chain(*pair)
        with contextlib.closing(tls_socket(daemon, context)) as s:
            s.sendall(post('{"key":"k"}', "Connection: close\r\n"))
            return read_all(s)

    assert ask(pki["client"]).startswith(b"HTTP/1.1 200")
    for pair in (None, pki["stranger"]):
        try:
            reply = ask(pair)
        except (ssl.SSLError, ConnectionError):
            reply = b""
        assert reply == b""


@pytest.mark.parametrize("flags, why", [(["--tls-cert", "/nonexistent"], "key"),
                                        (["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"], "/nonexistent: No such file")])
def test_bad_tls_files_are_one_clear_line(start, flags, why):
    daemon = start(POLICY, *flags, wait=False)
    assert daemon.wait() == 2
    assert why in daemon.log and len(daemon.log.splitlines()) == 1
