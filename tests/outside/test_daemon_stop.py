"""Stopping: no answer is lost, the drain has an end, and so does patience."""
import json
import signal
import socket
import threading

import pytest
from conftest import POLICY, call, connect, eventually

BODY = b'{"key":"k"}'
REQUEST = b"POST /check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n"


def raw(daemon):
    host, port = daemon.http.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20)


def read_to_end(s):
    data = b""
    while True:
        part = s.recv(65536)
        if not part:
            return data
        data += part


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_b180_requests_under_way_are_answered(start, number):
    """A request whose body is still on its way when the signal comes gets its answer, with Connection: close."""
    daemon = start(POLICY, "--drain-timeout", "20s")
    with raw(daemon) as s:
        s.sendall(REQUEST + BODY[:5])
        # Answered on this same connection before, so that the daemon has surely accepted it.
        eventually(lambda: daemon.metric("sluice_policy_version") is not None, "the daemon is up")
        daemon.signal(number)
        daemon.wait_log("draining")
        s.sendall(BODY[5:])
        answer = read_to_end(s)
    assert answer.startswith(b"HTTP/1.1 200") and b'"remaining":99' in answer.replace(b" ", b"")
    assert b"connection: close" in answer.lower()
    assert daemon.wait() == 0
    assert "stopped" in daemon.log


def test_b180_under_load_every_request_sent_is_answered(start):
    """Many clients on keep-alive connections: whoever was allowed to send gets an answer or a connection that was closed before it sent."""
    daemon = start(POLICY, "--drain-timeout", "20s", "--workers", "2")
    sent, answered, broken = [], [], []
    flowing = threading.Event()

    def client(n):
        connection = connect(daemon.http)
        try:
            connection.connect()
            while True:
                try:
                    connection.request("POST", "/check", json.dumps({"key": f"k{n}", "cost": 0}))
                except OSError:
                    return
                sent.append(n)
                try:
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, socket.error) as e:
                    # A connection that was idle may be closed just as the request leaves: HTTP/1.1 clients retry those. A request that was
                    # answered in part would be another matter.
                    broken.append(repr(e))
                    return
                answered.append(answer.status)
                if len(answered) > 200:
                    flowing.set()
                if answer.getheader("Connection", "").lower() == "close":
                    return
        except OSError:
            return
        finally:
            connection.close()

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    assert flowing.wait(20)
    assert daemon.stop() == 0
    for t in threads:
        t.join()
    assert set(answered) == {200}
    assert not broken, broken
    assert len(answered) == len(sent)


def test_b180_readiness_ends_at_once_while_a_request_holds_the_drain(start):
    daemon = start(POLICY, "--drain-timeout", "20s")
    with raw(daemon) as held, raw(daemon) as probe:
        held.sendall(REQUEST + BODY[:5])
        probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert probe.recv(65536).startswith(b"HTTP/1.1 200")
        daemon.signal(signal.SIGTERM)
        daemon.wait_log("draining")
        probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert probe.recv(65536).startswith(b"HTTP/1.1 503")
        held.sendall(BODY[5:])
        assert read_to_end(held).startswith(b"HTTP/1.1 200")
    assert daemon.wait() == 0


def test_b180_a_stuck_request_does_not_hold_the_drain_for_ever(start):
    daemon = start(POLICY, "--drain-timeout", "300ms")
    with raw(daemon) as s:
        s.sendall(REQUEST + BODY[:5])
        eventually(lambda: call(daemon.http, "GET", "/readyz")[0] == 200, "up")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
        assert "connections were cut" in daemon.log


def test_b180_a_second_signal_stops_at_once(start):
    # It ends without joining its threads, which is no leak here.
    daemon = start(POLICY, "--drain-timeout", "1h", env={"TSAN_OPTIONS": "report_thread_leaks=0"})
    with raw(daemon) as s:
        s.sendall(REQUEST + BODY[:5])
        eventually(lambda: call(daemon.http, "GET", "/readyz")[0] == 200, "up")
        daemon.signal(signal.SIGTERM)
        daemon.wait_log("draining")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 128 + signal.SIGTERM


def test_after_the_signal_nobody_is_let_in(start):
    daemon = start(POLICY, "--drain-timeout", "20s")
    with raw(daemon) as held:
        held.sendall(REQUEST + BODY[:5])
        eventually(lambda: call(daemon.http, "GET", "/readyz")[0] == 200, "up")
        daemon.signal(signal.SIGTERM)
        daemon.wait_log("draining")

        def refused():
            try:
                with raw(daemon) as s:
                    s.settimeout(1)
                    s.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
                    return s.recv(100) == b""
            except OSError:
                return True

        eventually(refused, "the listener is closed")
        held.sendall(BODY[5:])
        assert read_to_end(held).startswith(b"HTTP/1.1 200")
    assert daemon.wait() == 0


def test_a_service_manager_is_told(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        daemon = start(POLICY, env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(100) == b"READY=1"
        daemon.signal(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"
        assert daemon.wait() == 0


def test_a_mistyped_variable_is_told_of_in_the_log(start):
    daemon = start(POLICY, env={"SLUICE_WORKRES": "4", "SLUICE_CHECK_TOKN": "s3cret"})
    assert "SLUICE_CHECK_TOKN has no effect" in daemon.log and "s3cret" not in daemon.log
    assert "SLUICE_WORKRES has no effect; did you mean SLUICE_WORKERS?" in daemon.log


def test_a_hangup_ends_no_daemon_that_starts_or_stops(start):
    """SIGHUPs from the first moment to the last, as from a script that reloads what it finds: they reload, or wait, and never end the process."""
    daemon = start(wait=False)
    masks = f"/proc/{daemon.process.pid}/status"

    def taken():
        """SIGHUP is blocked or caught."""
        with open(masks) as f:
            return any(int(line.split()[1], 16) & 1 for line in f if line.startswith(("SigBlk:", "SigCgt:")))

    eventually(taken, "the daemon has begun")
    ended = threading.Event()

    def flood():
        while not ended.is_set():
            daemon.signal(signal.SIGHUP)

    flooder = threading.Thread(target=flood)
    flooder.start()
    try:
        daemon.wait_ready()
        status = daemon.stop()
    finally:
        ended.set()
        flooder.join()
    assert status == 0, daemon.log
    assert "stopped" in daemon.log
