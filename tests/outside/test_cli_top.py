"""`sluice top`: on a terminal of 80 x 24 and of others, resized, left by `q`, Ctrl-C, Ctrl-Z and SIGTERM; without a terminal; while the daemon comes and goes. The
terminal is a pseudo-terminal, and what is written to it is drawn here as a terminal would, so that the tests look at a screen."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest
from conftest import BIN, DEADLINE_S, call, clean_environment, connect, eventually
from test_cli_hostile import other  # noqa: F401 (a fixture)
from test_daemon_store import SHARED, Redis, eventually_shared

POLICY = "version: 1\nlimits: [{name: all, rate: 1000000/s}, {name: shut, key: knocker, rate: blocked}]\n"


class Screen:
    """As much of a terminal as the program uses; anything else is a failure."""

    def __init__(self, columns, rows):
        self.alternate, self.cursor, self.grace = False, True, 0
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.x = self.y = 0

    def feed(self, text):
        for plain, sequence in re.findall(r"([^\x1b]+)|\x1b(\[[?0-9;]*[A-Za-z])", text):
            if plain:
                for c in plain:
                    self.put(c)
            else:
                self.control(sequence)

    def put(self, c):
        assert c.isprintable(), repr(c)
        if self.grace and (self.x >= self.columns or self.y >= self.rows):
            return  # drawn for the size that it had
        assert self.x < self.columns and self.y < self.rows, f"written beyond the edge: {self.x}, {self.y}: {c!r}\n" + self.text()
        self.cells[self.y][self.x] = c
        self.x += 1

    def control(self, sequence):
        found = re.fullmatch(r"\[(\??)([0-9;]*)([A-Za-z])", sequence)
        kind = found.group(1) + found.group(3)
        numbers = [int(n or 0) for n in found.group(2).split(";")]
        if kind == "H":
            self.y, self.x = (max(n - 1, 0) for n in (numbers + [0])[:2])
            self.grace -= self.grace > 0 and self.x == self.y == 0  # a picture begins
        elif kind == "K":
            if self.grace and self.y >= self.rows:
                return
            self.cells[self.y][min(self.x, self.columns):] = [" "] * (self.columns - min(self.x, self.columns))
        elif kind == "J" and numbers == [2]:
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif kind == "J":
            for y in range(self.y + (self.x > 0), self.rows):
                self.cells[y] = [" "] * self.columns
        elif kind in ("?h", "?l") and numbers == [1049]:
            self.alternate = kind == "?h"
        elif kind in ("?h", "?l") and numbers == [25]:
            self.cursor = kind == "?h"
        else:
            assert kind == "m", sequence

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv, columns=80, rows=24, env=None):
        self.master, slave = pty.openpty()
        self.screen, self.pending, self.slave = Screen(columns, rows), b"", slave
        self.size(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=clean_environment(TERM="xterm", **(env or {})),
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, columns, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        """And waits until all is drawn for the new size: a picture may be under way, and one more may have been begun."""
        self.screen.resize(columns, rows)
        self.screen.grace = 3
        self.size(columns, rows)
        end = time.monotonic() + DEADLINE_S
        while self.screen.grace:
            assert time.monotonic() < end, "nothing is drawn any more"
            self.read(0.1)

    def read(self, seconds):
        while select.select([self.master], [], [], seconds)[0]:
            self.pending += os.read(self.master, 65536)
            whole = self.pending
            cut = re.search(rb"(\x1b\[?[?0-9;]*|[\xc0-\xff][\x80-\xbf]{0,2})$", whole)  # a sequence or character that has not come yet
            keep = cut.start() if cut and not (cut.group()[0] >= 0xc0 and complete(cut.group())) else len(whole)
            self.screen.feed(whole[:keep].decode("utf-8", "strict"))
            self.pending = whole[keep:]
            seconds = 0.02

    def until(self, pattern, what=""):
        end = time.monotonic() + DEADLINE_S
        while not re.search(pattern, self.screen.text(), re.M):
            assert time.monotonic() < end, f"no {pattern!r} {what} on the screen:\n{self.screen.text()}"
            self.read(0.1)
        return self.screen.text()

    def key(self, text):
        os.write(self.master, text)

    def wait(self):
        status = self.process.wait(DEADLINE_S)
        self.read(0.1)
        return status

    def is_as_before(self):
        """The terminal is what it was: modes, cursor, the usual screen."""
        return termios.tcgetattr(self.slave) == self.before and not self.screen.alternate and self.screen.cursor

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def complete(text):
    try:
        text.decode()
        return True
    except UnicodeDecodeError:
        return False


@pytest.fixture
def top():
    made = []

    def run(daemon, *args, **more):
        admin = daemon if isinstance(daemon, str) else daemon.admin
        made.append(Terminal([f"{BIN}/sluice", "top", "--admin", admin, "--interval", "100ms", *args], **more))
        return made[-1]

    yield run
    for terminal in made:
        terminal.close()


class Traffic:
    """Batches of one body, again and again, until it is over."""

    def __init__(self, daemon, *keys):
        self.daemon, self.body, self.over = daemon, json.dumps([{"key": k} for k in keys]), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        connection = connect(self.daemon.http)
        while not self.over.wait(0.01):
            connection.request("POST", "/check", self.body)
            connection.getresponse().read()
        connection.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def test_a_screen_of_80_by_24(start, top):
    daemon = start(POLICY)
    with Traffic(daemon, *["busy"] * 60, *["knocker"] * 30, *["caf\u00e9 \u6f22\u5b57"] * 30, "x" * 300):
        terminal = top(daemon)
        terminal.until(r"^hot key .*type +ops/s  rejected key .* ops/s$")
        terminal.until(r"^busy +api_key +[\d,]+  knocker +api_key +[\d,]+$")
        terminal.until(r"^decisions [\d,]+/s  rejected [\d,]+/s \(2\d\.\d %\)  p50 [\d.]+ (ns|us)  p99 [\d.]+ (ns|us|ms)$")
    text = terminal.screen.text()
    assert re.search(r"^\d\d:\d\d:\d\dZ  sluiced \d+\.\d+\.\d+ at 127\.0\.0\.1:\d+  policy [0-9a-f]{12}, 2 limits$", terminal.screen.lines()[0]), text
    assert terminal.screen.lines()[2:4] == ["alarms: none", "q ends it"]
    assert "caf\u00e9 \u6f22\u5b57" in text
    assert terminal.screen.alternate and not terminal.screen.cursor
    terminal.key(b"q")
    assert terminal.wait() == 0 and terminal.is_as_before()


@pytest.mark.parametrize("leave, status", [(b"\x03", 0), (signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP), (b"xyzq", 0)],
                         ids=["ctrl-c", "sigint", "sigterm", "sighup", "q"])
def test_the_terminal_is_given_back(start, top, leave, status):
    terminal = top(start(POLICY))
    terminal.until(r"^alarms: none$")
    assert not terminal.is_as_before()
    terminal.key(leave) if isinstance(leave, bytes) else terminal.process.send_signal(leave)
    assert terminal.wait() == status
    assert terminal.is_as_before()


def test_ctrl_z_and_back(start, top):
    terminal = top(start(POLICY))
    terminal.until(r"^alarms: none$")
    terminal.process.send_signal(signal.SIGTSTP)
    eventually(lambda: "\nState:\tT" in open(f"/proc/{terminal.process.pid}/status").read(), "it is stopped")
    terminal.read(0.1)
    assert terminal.is_as_before()
    terminal.screen.resize(80, 24)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.until(r"^alarms: none$")
    assert terminal.screen.alternate
    terminal.key(b"q")
    assert terminal.wait() == 0 and terminal.is_as_before()


def test_it_follows_the_terminals_size(start, top):
    """Wide: one list beside the other; narrow: one above the other; tiny: what fits. Never a character beyond the edge."""
    daemon = start(POLICY)
    with Traffic(daemon, *["busy"] * 50, *["knocker"] * 50):
        terminal = top(daemon, columns=120, rows=40)
        terminal.until(r"^(busy|knocker) +api_key +[\d,]+  knocker +api_key +[\d,]+$")
        terminal.resize(50, 20)
        terminal.until(r"^knocker +api_key +[\d,]+$")
        assert "rejected key" in terminal.until(r"^rejected key")
        for columns, rows in ((20, 5), (72, 10), (71, 11), (200, 60), (80, 24)):
            terminal.resize(columns, rows)
            terminal.until(r"^\d\d:\d\d:\d\dZ  sl")
        terminal.until(r"^(busy|knocker) .*knocker")
    terminal.key(b"q")
    assert terminal.wait() == 0


def test_the_daemon_goes_and_comes_back(start, top, tmp_path, policy_file):
    address = f"unix:{tmp_path}/admin"
    path = policy_file(POLICY)
    daemon = start(path, "--listen", "127.0.0.1:0", "--admin", address, ports=False)
    terminal = top(address)
    terminal.until(r"^alarms: none$")
    assert daemon.stop() == 0
    text = terminal.until(r"^trying again: no answer from .*")
    assert "alarms: none" in text  # what was known stays
    start(path, "--listen", "127.0.0.1:0", "--admin", address, ports=False)
    terminal.until(r"^\d\d:\d\d:\d\dZ  sluiced")
    terminal.key(b"q")
    assert terminal.wait() == 0


def test_nobody_is_there(top, tmp_path):
    terminal = top(f"unix:{tmp_path}/nobody")
    terminal.until(r"^trying again: no answer from")
    terminal.key(b"\x03")
    assert terminal.wait() == 0 and terminal.is_as_before()


def test_alarms_are_shown(start, top):
    daemon = start("version: 1\nlimits: [{name: all, rate: 10/d}]\n", "--table-keys", "1000")
    for n in range(5):
        assert call(daemon.http, "POST", "/check", json.dumps([{"key": f"k{n}-{i}"} for i in range(1000)]))[0] == 200
    top(daemon).until(r"^alarms: table_full$")


def test_hostile_keys_do_not_move_the_cursor(start, top):
    daemon = start("version: 1\nidentity: {order: [api_key], headers: {api_key: X-Api-Key}}\nlimits: [{name: all, rate: blocked}]\n")
    over = threading.Event()

    def knock():
        connection = connect(daemon.http)
        while not over.wait(0.002):
            connection.putrequest("GET", "/auth/x")
            connection.putheader("X-Api-Key", b"a\xc2\x9b2J\xff\xe2\x80\xae" + b"\xfe" * 200)
            connection.endheaders()
            connection.getresponse().read()
        connection.close()

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    try:
        top(daemon).until("^a\ufffd2J\ufffd\ufffd\ufffd+\u2026 +api_key +[\\d.]+  a\ufffd2J")
    finally:
        over.set()
        thread.join()


# ---- without a terminal


def test_once(start, sluice):
    daemon = start(POLICY)
    with Traffic(daemon, *["busy"] * 60, *["knocker"] * 30):
        eventually(lambda: json.loads(call(daemon.admin, "GET", "/v1/top")[2])["rejected"], "somebody is rejected")
        done = sluice("top", "--admin", daemon.admin)
    assert done.returncode == 0 and "\x1b" not in done.stdout and done.stderr == ""
    assert re.search(r"^\d\d:\d\d:\d\dZ  sluiced .*  policy [0-9a-f]{12}, 2 limits$", done.stdout, re.M)
    assert re.search(r"^busy +api_key +[\d,.]+$", done.stdout, re.M)
    assert re.search(r"^rejected key +type +ops/s\nknocker +api_key", done.stdout, re.M)
    done = sluice("top", "--admin", daemon.admin, "--json", "--keys", "1")
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and len(answer["hot"]) == 1 and answer["policy"]["limits"] == 2
    assert set(answer) == {"sluiced", "policy", "decisions", "alarms", "hot", "rejected"}


@pytest.mark.parametrize("allowed,rejected,hot,said", [(0, 0, "(none)", "(none)"), (0.3, 0, "(too few to tell by the sample of one in 16)", "(none)"),
                                                       (0, 0.2, "(too few to tell by the sample of one in 16)", "(too few to tell by the sample of one in 16)")])
def test_what_the_sample_cannot_tell_is_not_none(sluice, other, allowed, rejected, hot, said):
    url = other(200, {"sluiced": "0", "policy": {"version": None, "hash": "", "limits": 1}, "alarms": [], "hot": [], "rejected": [],
                      "decisions": {"spanSeconds": 10, "allowedPerSecond": allowed, "rejectedPerSecond": rejected, "p50Us": None, "p99Us": None}})
    text = sluice("top", "--admin", url).stdout
    assert re.search("^hot key .*\n" + re.escape(hot) + "\n\nrejected key .*\n" + re.escape(said) + "\n$", text, re.M) and ", 1 limit\n" in text, text


def test_once_on_a_terminal(start, top):
    terminal = top(start(POLICY), "--once")
    assert terminal.process.wait(DEADLINE_S) == 0
    out = os.read(terminal.master, 65536).decode()
    assert "alarms: none" in out and "\x1b[?1049h" not in out


def test_mistakes(start, sluice):
    daemon = start(POLICY)
    for flags in (("--interval", "1ms"), ("--keys", "0"), ("--keys", "101"), ("word",)):
        assert sluice("top", "--admin", daemon.admin, *flags).returncode == 2
    daemon.stop()
    done = sluice("top", "--admin", daemon.admin)
    assert done.returncode == 3 and "no answer from" in done.stderr


def test_rejections_of_the_store_count_at_once(start, tmp_path):
    """Each key is rejected once, by the store: nobody here knew before."""
    store = Redis(tmp_path).start()
    try:
        daemon = start(SHARED.replace("100/h", "1/h"), "--store", store.url, "--timeout", "2s")
        eventually_shared(daemon)

        def rejected():
            for _ in range(30):
                assert call(daemon.admin, "DELETE", "/v1/buckets?key=k")[0] == 200
                daemon.check("k")
                verdict = daemon.check("k")[1]
                assert (verdict["allowed"], verdict["source"]) == (False, "shared")
            return json.loads(call(daemon.admin, "GET", "/v1/top")[2])["rejected"]

        assert eventually(rejected, "they are counted")[0]["key"] == "k"
    finally:
        store.kill()
