"""Fixtures for tests from outside: the built programs, a daemon on free ports with a policy, and small clients.

The programs come from $SLUICE_BIN (build/bin). A daemon listens on port 0 and says in its log which port it got, so no port is guessed and none is
fixed. Waiting is always for an event with a deadline, never a sleep in hope."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("SLUICE_BIN", os.path.join(TOP, "build/bin"))
SLUICED = os.path.join(BIN, "sluiced")
SLUICE = os.path.join(BIN, "sluice")
DEADLINE_S = 20

POLICY = """\
version: 1
defaults: {on_store_failure: local}
endpoints:
  search: {match: ["api:search"], cost: 10}
limits:
  - {name: all, rate: 100/h}
"""


def clean_environment(**more):
    """This process's environment without what would configure a daemon, with `more` on top."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    keep.update(more)
    return keep


def eventually(condition, what, deadline_s=DEADLINE_S):
    """The first true value of condition(), looked for often; fails when the deadline passes."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"not within {deadline_s} s: {what}")
        time.sleep(0.01)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connect(address, timeout=DEADLINE_S):
    """An http.client connection to "host:port", "[v6]:port" or "unix:/path"."""
    if address.startswith("unix:"):
        return UnixConnection(address[5:], timeout)
    host, port = address.rsplit(":", 1)
    return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)


def call(address, method, path, body=None, headers=None):
    """(status, lower-case headers, body bytes) of one request on a connection of its own."""
    connection = connect(address)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


class Daemon:
    """One run of sluiced. `log` collects its lines; `http` and `admin` are the addresses it got."""

    def __init__(self, argv, env):
        self.argv = argv
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        env=env, text=True, errors="replace")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.http = self.admin = None

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    @property
    def log(self):
        with self.changed:
            return "\n".join(self.lines)

    def wait_log(self, pattern, count=1):
        """Waits for the count-th line that matches, and returns its match."""
        end = time.monotonic() + DEADLINE_S
        with self.changed:
            while True:
                found = [m for m in (re.search(pattern, line) for line in self.lines) if m]
                if len(found) >= count:
                    return found[count - 1]
                left = end - time.monotonic()
                if left <= 0:
                    pytest.fail(f"no line {pattern!r} (time {count}) in the log:\n" + "\n".join(self.lines))
                self.changed.wait(min(left, 0.5))
                if self.process.poll() is not None and not self.reader.is_alive():
                    found = [m for m in (re.search(pattern, line) for line in self.lines) if m]
                    if len(found) < count:
                        pytest.fail(f"sluiced ended with {self.process.returncode}:\n" + "\n".join(self.lines))

    def wait_ready(self):
        self.wait_log(r"ready: ")
        listening = re.search(r'listening on ([^" ]+)', self.log)
        admin = re.search(r'admin on ([^" ]+)', self.log)
        self.http = listening.group(1) if listening else None
        self.admin = admin.group(1) if admin else None
        return self

    def check(self, key, scope=None, **more):
        """(status, body) of POST /check."""
        body = {"key": key, **more}
        if scope is not None:
            body["scope"] = scope
        status, _, data = call(self.http, "POST", "/check", json.dumps(body), {"Content-Type": "application/json"})
        return status, json.loads(data)

    def remaining(self, key, **more):
        """What is left, without spending."""
        return self.check(key, cost=0, **more)[1]["remaining"]

    def limit(self, key="somebody"):
        return self.check(key, cost=0)[1]["limit"]

    def metric(self, name):
        """The value of a metric without labels, or of one written with them; None when it is not there."""
        text = call(self.admin, "GET", "/metrics")[2].decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
        return float(found.group(1)) if found else None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        status = self.process.wait(DEADLINE_S)
        self.reader.join(DEADLINE_S)
        return status

    def stop(self):
        """SIGTERM and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def cut(self):
        """Whatever is left of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(DEADLINE_S)
        self.process.stderr.close()
        # Built with a sanitizer, a daemon that was killed has said there what it found.
        assert "Sanitizer" not in self.log and "runtime error: " not in self.log, self.log


@pytest.fixture
def policy_file(tmp_path):
    """Writes a policy and returns its path: policy_file(text)."""

    def write(text=POLICY, name="policy.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


@pytest.fixture
def start(policy_file):
    """Starts daemons that end with the test: start(policy_text_or_path, *flags, wait=True, env={})."""
    with contextlib.ExitStack() as stack:

        def run(policy=POLICY, *flags, wait=True, env=None, ports=True):
            path = policy if os.path.isabs(policy) else policy_file(policy)
            argv = [SLUICED, "--policy", path]
            if ports:
                argv += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
            daemon = Daemon(argv + list(flags), clean_environment(**(env or {})))
            daemon.policy = path
            stack.callback(daemon.cut)
            return daemon.wait_ready() if wait else daemon

        yield run


@pytest.fixture
def daemon(start):
    """One with POLICY."""
    return start()


@pytest.fixture
def sluice():
    """Runs the command line: sluice("check", "k", env={}) -> CompletedProcess with text."""

    def run(*args, env=None, stdin=""):
        return subprocess.run([SLUICE, *args], input=stdin, capture_output=True, text=True, timeout=120,
                              env=clean_environment(**(env or {})))

    return run
