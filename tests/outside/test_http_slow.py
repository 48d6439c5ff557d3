"""B170: clients that hold connections. Deadlines close them, a full process pauses without spinning and recovers by itself, and what a client does not read
is bounded."""
import contextlib
import resource
import socket
import subprocess
import time

import pytest

from conftest import SLUICED, Daemon, call, clean_environment, eventually
from http_util import Reader, cpu_seconds, open_socket, post, read_all

POLICY = "version: 1\nlimits: [{name: all, rate: 1000000/h, burst: 1000000}]\n"


def connections(daemon):
    return daemon.metric("sluice_http_connections")


@pytest.fixture
def limited(policy_file):
    """Starts a daemon that may open only so many files."""
    with contextlib.ExitStack() as stack:

        def run(files, *flags):
            argv = ["/bin/sh", "-c", f'ulimit -n {files} && exec "$0" "$@"', SLUICED, "--policy", policy_file(POLICY), "--listen",
                    "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1", *flags]
            daemon = Daemon(argv, clean_environment())
            stack.callback(daemon.cut)
            return daemon.wait_ready()

        yield run


def test_b170_slow_header_is_ended_with_408(start):
    daemon = start(POLICY, "--header-timeout", "300ms")
    with contextlib.closing(open_socket(daemon.http)) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        assert read_all(s).startswith(b"HTTP/1.1 408 ")
    with contextlib.closing(open_socket(daemon.http)) as s:  # a byte now and then does not help
        s.settimeout(0.05)
        reply, data = b"", iter(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"x" * 1000)
        while not reply:
            with contextlib.suppress(TimeoutError):
                reply = s.recv(65536)
            with contextlib.suppress(ConnectionError):
                s.sendall(bytes([next(data)]))
        assert reply.startswith(b"HTTP/1.1 408 ")
    assert daemon.metric("sluice_http_timeouts_total") >= 2


def test_b170_slow_body_is_ended_with_408(start):
    daemon = start(POLICY, "--request-timeout", "300ms")
    with contextlib.closing(open_socket(daemon.http)) as s:
        s.sendall(post('{"key":"k"}')[:-1])
        assert read_all(s).startswith(b"HTTP/1.1 408 ")


def test_b170_idle_connections_are_closed(start):
    daemon = start(POLICY, "--idle-timeout", "300ms")
    with contextlib.closing(open_socket(daemon.http)) as never, contextlib.closing(open_socket(daemon.http)) as once:
        once.sendall(post('{"key":"k"}'))
        assert Reader(once).answer()[0] == 200
        assert read_all(once) == b"" and read_all(never) == b""


def test_b170_thousand_slow_clients(start):
    """All of them are gone by themselves, others are served meanwhile, and waiting costs no CPU."""
    daemon = start(POLICY, "--header-timeout", "2s")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(contextlib.closing(open_socket(daemon.http))) for _ in range(1000)]
        for s in slow:
            s.sendall(b"G")
        assert call(daemon.http, "GET", "/healthz")[0] == 200
        eventually(lambda: connections(daemon) <= 1, "the slow ones are closed")
        assert all(read_all(s).startswith(b"HTTP/1.1 408 ") for s in slow)


def test_b170_full_of_idle_connections_the_oldest_makes_room(start):
    daemon = start(POLICY, "--max-connections", "20", "--workers", "1")
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(contextlib.closing(open_socket(daemon.http))) for _ in range(60)]
        assert call(daemon.http, "GET", "/healthz")[0] == 200
        assert daemon.metric("sluice_http_reclaimed_total") >= 41
        assert connections(daemon) <= 21
        assert read_all(idle[0]) == b""  # the oldest was closed


def test_b170_no_descriptors_left(limited):
    """The file limit is reached with connections that are not idle: accepting pauses without spinning, /healthz answers on the admin listener all the while,
    and on the public one as soon as there is room."""
    daemon = limited(90, "--max-connections", "10000", "--header-timeout", "1s")
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(150):
            s = stack.enter_context(contextlib.closing(open_socket(daemon.http)))
            s.sendall(b"GET /healthz HTTP/1.1\r\n")
            held.append(s)
        eventually(lambda: daemon.metric("sluice_http_accept_pauses_total") >= 1, "accepting pauses")
        before, start_s = cpu_seconds(daemon.process.pid), time.monotonic()
        while time.monotonic() - start_s < 1:
            assert call(daemon.admin, "GET", "/healthz")[0] == 200
            time.sleep(0.1)
        spent = (cpu_seconds(daemon.process.pid) - before) / (time.monotonic() - start_s)
        assert spent < 0.5, f"{spent:.0%} of a core while nothing can be accepted"
        assert call(daemon.http, "GET", "/healthz")[0] == 200  # as the held ones run into their deadline
    eventually(lambda: connections(daemon) <= 1, "all are closed")
    assert call(daemon.http, "GET", "/healthz")[0] == 200
    assert "new connections wait" in daemon.log


def test_b170_a_reader_that_never_reads(start):
    """It sends requests and takes no answer: reading from it stops, memory stays bounded, and it is cut."""
    daemon = start(POLICY, "--write-timeout", "1s", "--workers", "1")
    resident = lambda: int(open(f"/proc/{daemon.process.pid}/statm").read().split()[1]) * resource.getpagesize()
    before = resident()
    batch = post('[' + ','.join(['{"key":"k"}'] * 1000) + ']')
    with contextlib.closing(open_socket(daemon.http)) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(0.2)
        sent = 0
        with pytest.raises((TimeoutError, ConnectionError)):
            while sent < 50 << 20:
                sent += s.send(batch)
        assert sent < 50 << 20
        assert resident() - before < 64 << 20
        assert call(daemon.http, "GET", "/healthz")[0] == 200
        eventually(lambda: connections(daemon) <= 1, "it is cut")


def test_b170_a_slow_reader_gets_everything(start):
    daemon = start(POLICY, "--workers", "1")
    n = 200
    data = post('[' + ','.join(['{"key":"k"}'] * 100) + ']') * n
    with contextlib.closing(socket.socket()) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        host, port = daemon.http.rsplit(":", 1)
        s.connect((host, int(port)))
        s.settimeout(20)
        sender = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=s.fileno())
        try:
            import threading
            feed = threading.Thread(target=lambda: (sender.stdin.write(data), sender.stdin.close()))
            feed.start()
            reader = Reader(s)
            assert all(reader.answer()[0] == 200 for _ in range(n))
            feed.join(20)
        finally:
            sender.kill()
            sender.wait()
