"""A daemon and its store: one that is there, comes late, goes away, asks for another password; addresses with mistakes; and secrets, which are shown
nowhere and remembered in --state."""
import os
import re
import socket
import stat
import signal
import subprocess

import pytest
from conftest import SLUICED, SLUICE, TOP, call, clean_environment, eventually

SHARED = """\
version: 1
defaults: {coordination: shared, on_store_failure: local}
limits:
  - {name: all, rate: 100/h}
"""
SECRET = "sluice:{fleet}:secret"
INSTANCES = "sluice:{fleet}:instances"


class Redis:
    """A redis-server on a UNIX socket in a folder of its own, which can be killed and started again in the same place."""

    def __init__(self, folder, *options):
        self.folder, self.options, self.process = str(folder), options, None
        self.socket = os.path.join(self.folder, "socket")
        self.url = f"redis+unix://{self.socket}"

    def start(self):
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self.folder,
                                         "--logfile", os.path.join(self.folder, "log"), *self.options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self.answers, "redis-server answers")
        return self

    def answers(self):
        try:
            return self.do("PING") is not None
        except OSError:
            return False

    def do(self, *words):
        """What it answers to one command, as text."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(self.socket)
            s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(x).encode() for x in words)))
            answer = s.makefile("rb")
            line = answer.readline().decode().rstrip()
            if line[0] == "$" and line != "$-1":
                return answer.read(int(line[1:])).decode()
            return None if line == "$-1" else line[1:] if line[0] in ":+" else line

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def redis(tmp_path):
    made = []

    def make(*options):
        folder = tmp_path / f"redis{len(made)}"
        folder.mkdir()
        made.append(Redis(folder, *options))
        return made[-1]

    yield make
    for server in made:
        server.kill()


def shared(daemon, key="k"):
    """The source of one decision."""
    return daemon.check(key)[1]["source"]


def eventually_shared(daemon):
    eventually(lambda: shared(daemon) == "shared", "decisions come from the store:\n" + daemon.log)


def fail(*flags, env=None):
    """The one line of a start that must fail with status 2, and nothing else."""
    done = subprocess.run([SLUICED, *flags], env=clean_environment(**(env or {})), capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and done.stdout == "", done
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("sluiced: "), done.stderr
    return lines[0][len("sluiced: "):]


# ---- a store that is there


def test_two_daemons_share_one_limit(start, redis):
    store = redis().start()
    a, b = (start(SHARED, "--store", store.url) for _ in range(2))
    eventually_shared(a)
    eventually_shared(b)
    before = a.remaining("customer")
    for i in range(10):
        (a if i % 2 else b).check("customer")
    assert before == 100 and a.remaining("customer") == 90 and b.remaining("customer") == 90
    assert store.do("ZCARD", INSTANCES) == "2"
    assert len(store.do("GET", SECRET)) == 32
    assert b.stop() == 0
    assert store.do("ZCARD", INSTANCES) == "1"  # it has said goodbye


def test_daemons_that_start_together_on_an_empty_store_agree(start, redis):
    store = redis().start()
    first = start(SHARED, "--store", store.url, "--workers", "2", wait=False)
    daemons = [first, *(start(first.policy, "--store", store.url, "--workers", "2", wait=False) for _ in range(3))]  # the file is not written again
    for daemon in daemons:
        eventually_shared(daemon.wait_ready())
    for daemon in daemons:
        daemon.check("customer")
    assert [daemon.remaining("customer") for daemon in daemons] == [96] * 4
    eventually(lambda: store.do("ZCARD", INSTANCES) == "4", "four instances")


def test_what_is_said_of_the_store_at_the_start(start, redis):
    daemon = start(SHARED, "--store", redis().start().url, "--namespace", "other")
    daemon.wait_log(r"limits are shared on redis\+unix://\S+, namespace other")
    daemon.wait_log(r"level=info msg=\"store redis\+unix://\S+: connected")


def test_namespaces_keep_fleets_apart(start, redis):
    store = redis().start()
    a, b = (start(SHARED, "--store", store.url, "--namespace", name) for name in ("one", "two"))
    eventually_shared(a)
    eventually_shared(b)
    a.check("customer")
    assert a.remaining("customer") == 99 and b.remaining("customer") == 100
    assert store.do("GET", "one:{fleet}:secret") != store.do("GET", "two:{fleet}:secret")


def test_settings_of_the_store_from_environment_and_file(start, redis, tmp_path):
    store = redis().start()
    config = tmp_path / "sluiced.yaml"
    address = tmp_path / "address"
    address.write_text(store.url + "\n")
    config.write_text(f'store: "@{address}"\nnamespace: filed\ntimeout: 500ms\n')
    eventually_shared(start(SHARED, "--config", str(config)))
    eventually_shared(start(SHARED, env={"SLUICE_STORE": store.url, "SLUICE_NAMESPACE": "environs"}))
    assert store.do("EXISTS", "filed:{fleet}:secret", "environs:{fleet}:secret") == "2"


# ---- a store that is not


def test_b181_a_start_without_a_store_is_up_and_takes_it_up_when_it_comes(start, redis):
    store = redis()
    daemon = start(SHARED, "--store", store.url)
    daemon.wait_log(r"level=error msg=\"store redis\+unix://\S+: no connection \(unreachable\)")
    assert call(daemon.http, "GET", "/healthz")[0] == 200
    eventually(lambda: call(daemon.http, "GET", "/readyz")[0] == 200, "ready without the store after 2 s")
    status, verdict = daemon.check("customer")
    assert status == 200 and verdict["allowed"] and verdict["source"] == "degraded"
    store.start()
    eventually_shared(daemon)
    daemon.wait_log(r"level=info msg=\"store redis\+unix://\S+: connected")


def test_a_store_that_goes_away_is_an_alarm_until_it_is_back(start, redis):
    store = redis().start()
    daemon = start(SHARED, "--store", store.url)
    eventually_shared(daemon)
    name = 'sluice_alarm{kind="store_unavailable"}'
    assert daemon.metric(name) == 0
    store.kill()
    eventually(lambda: shared(daemon) == "degraded", "decided without the store")
    eventually(lambda: daemon.metric(name) == 1, "the alarm")
    daemon.wait_log(r"level=error msg=\"alarm store_unavailable: ")
    store.start()
    eventually_shared(daemon)
    eventually(lambda: daemon.metric(name) == 0, "the end of the alarm")
    daemon.wait_log(r"level=info msg=\"alarm store_unavailable is over")
    # One line at each change, whatever the number of workers.
    assert len(re.findall(r"store redis\S+: no connection", daemon.log)) == 1
    assert len(re.findall(r"store redis\S+: connected", daemon.log)) == 2


def test_a_store_that_stands_still_opens_the_breaker_and_is_taken_up_again(start, redis):
    store = redis().start()
    daemon = start(SHARED, "--store", store.url)
    eventually_shared(daemon)
    name = 'sluice_alarm{kind="breaker_open"}'
    store.process.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: shared(daemon) == "degraded" and daemon.metric(name) == 1, "the breaker's alarm")
        daemon.wait_log(r"level=error msg=\"store redis\S+: fails or is too slow: the breaker is open")
    finally:
        store.process.send_signal(signal.SIGCONT)
    eventually_shared(daemon)
    daemon.wait_log(r"level=info msg=\"store redis\S+: answers again: the breaker is closed")
    daemon.wait_log("alarm breaker_open is over")
    assert daemon.metric(name) == 0 and daemon.metric('sluice_alarms_raised_total{kind="breaker_open"}') == 1


def test_a_user_with_few_rights_is_enough(start, redis, tmp_path):
    """The rights that docs/runbook.md names."""
    with open(os.path.join(TOP, "docs/runbook.md"), encoding="utf-8") as f:
        rights = re.search(r"`(~NAMESPACE:\* [^`]+)`", f.read()).group(1).replace("NAMESPACE", "sluice").split()
    store = redis().start()
    assert store.do("ACL", "SETUSER", "limiter", "on", ">pw", *rights) == "OK"
    daemon = start(SHARED, "--store", f"redis+unix://limiter:pw@{store.socket}")
    eventually_shared(daemon)
    assert "level=error" not in daemon.log and "level=warning" not in daemon.log
    assert store.do("ACL", "LOG") == "*0"


def test_a_store_that_lost_everything_gets_the_secret_back(start, redis):
    store = redis().start()
    daemon = start(SHARED, "--store", store.url)
    eventually_shared(daemon)
    secret = store.do("GET", SECRET)
    store.do("FLUSHALL")
    eventually(lambda: store.do("GET", SECRET) == secret, "the same secret again")
    assert daemon.log.count("the instances' secret is known") == 0  # it was known all the time


def test_another_secret_in_the_store_is_taken_over(start, redis):
    store = redis().start()
    daemon = start(SHARED, "--store", store.url)
    eventually_shared(daemon)
    daemon.check("customer")
    store.do("SET", SECRET, "0123456789abcdef0123456789abcdef")
    daemon.wait_log(r"the instances' secret is known: policy [0-9a-f]{12} is in force, 1 limits")
    eventually_shared(daemon)
    assert daemon.remaining("customer") == 100  # another name, another bucket


def test_foreign_data_under_the_secrets_name_is_told_and_left_alone(start, redis):
    store = redis().start()
    store.do("SET", SECRET, "somebody else's")
    daemon = start(SHARED, "--store", store.url)
    daemon.wait_log(r"level=error msg=\"store \S+: the key sluice:\{fleet\}:secret holds something that is not this fleet's secret")
    assert shared(daemon) == "degraded"
    assert store.do("GET", SECRET) == "somebody else's"
    store.do("DEL", SECRET)
    eventually_shared(daemon)


# ---- passwords


def test_b135_a_wrong_password_is_told_plainly_and_shown_nowhere(start, redis):
    store = redis("--requirepass", "right-horse").start()
    wrong = f"redis+unix://:wr0ng-s3cret@{store.socket}"
    daemon = start(SHARED, "--store", wrong)
    daemon.wait_log(r"level=error msg=\"store redis\+unix://\S+: no connection \(wrongpass\)")
    assert shared(daemon) == "degraded"
    assert "wr0ng-s3cret" not in daemon.log
    assert "wr0ng-s3cret" not in call(daemon.admin, "GET", "/metrics")[2].decode()


def test_b125_a_password_file_and_a_user(start, redis, tmp_path):
    (tmp_path / "acl").write_text("user default off\nuser limiter on >p@s:s/w#d%?&+= ~* &* +@all\n")
    (tmp_path / "password").write_text("p@s:s/w#d%?&+=\n")
    store = redis("--aclfile", str(tmp_path / "acl"))
    store.answers = lambda: os.path.exists(store.socket)  # nobody but the limiter is let in
    store.start()
    daemon = start(SHARED, "--store", f"redis+unix://limiter@{store.socket}?password_file={tmp_path}/password")
    eventually_shared(daemon)
    assert "s:s/w" not in daemon.log


def test_the_command_line_does_not_keep_the_password(start, redis):
    store = redis("--requirepass", "right-horse").start()
    daemon = start(SHARED, "--store", f"redis+unix://:right-horse@{store.socket}", "--admin-token", "t0ken-of-mine")
    with open(f"/proc/{daemon.process.pid}/cmdline", encoding="utf-8") as f:
        line = f.read()
    assert "--store" in line and "right-horse" not in line and "t0ken-of-mine" not in line


# ---- addresses with mistakes


@pytest.mark.parametrize("address, said", [
    ("reddis://u:s3cr3t@h", "scheme"), ("redis://u:s3cr3t@", "host"), ("redis://u:s3cr3t@h:0", "port"), ("redis://u:s3cr3t@h:70000", "port"),
    ("redis://u:s3cr3t@h:6379/x", "database"), ("redis://u:s3cr3t@h?pasword_file=x", "option"), ("redis://u:s3cr3t%zz@h", "%"),
    ("redis://u:s3cr3t@[::1", "]"), ("redis+sentinel://u:s3cr3t@h1,h2", "master"), ("redis+cluster://u:s3cr3t@h/3", "Cluster"),
    ("rediss://u:s3cr3t@h?verify=maybe", "verify"), ("redis+unix://u:s3cr3t@relative", "path"), ("memory", "scheme"), ("s3cr3t", "scheme")])
def test_a_bad_address_names_its_part_and_shows_no_secret(policy_file, address, said):
    for flags, env in ((("--store", address), {}), ((), {"SLUICE_STORE": address})):
        line = fail("--policy", policy_file(), *flags, env=env)
        assert "store" in line.lower() and said.lower() in line.lower(), line
        assert "s3cr3t" not in line


def test_an_address_alone_shows_no_secret(policy_file):
    assert fail("--policy", policy_file(), "redis://u:s3cr3t@h") == "an address alone is no option; is it that of --store?"


def test_a_password_file_that_is_not_there(policy_file, tmp_path):
    line = fail("--policy", policy_file(), "--store", f"redis://h?password_file={tmp_path}/none")
    assert f"{tmp_path}/none" in line and line.startswith("--store: ")


def test_namespace_and_timeout_have_their_ranges(policy_file):
    policy = ("--policy", policy_file())
    for wrong in ("a{b", "}", "", "x" * 33, "a\tb", "ä"):
        assert fail(*policy, "--namespace", wrong).startswith("--namespace: "), wrong
    for wrong in ("0s", "999us", "61s", "10", "soon"):
        assert "from 1ms to 1m" in fail(*policy, "--timeout", wrong), wrong


# ---- remembering


def secrets_in(state):
    """Without what is being written."""
    return [os.path.join(state, name) for name in os.listdir(state) if name.startswith("secret-") and not name.endswith(".next")]


def kept_secret(state, secret):
    """The one file, when it has come to hold that."""
    def holds():
        names = secrets_in(state)
        if len(names) != 1:
            return None
        with open(names[0], encoding="ascii") as f:
            return names[0] if f.read() == secret + "\n" else None

    return eventually(holds, f"{secret} in {state}")


def test_state_remembers_the_secret(start, redis, tmp_path, policy_file):
    store, state, policy = redis().start(), str(tmp_path / "state"), policy_file(SHARED)
    store.do("SET", SECRET, "0123456789abcdef0123456789abcdef")
    first = start(policy, "--store", store.url, "--state", state)
    first.wait_log("the instances' secret is known")  # another than the one it made up
    eventually_shared(first)
    first.check("customer")
    kept = kept_secret(state, "0123456789abcdef0123456789abcdef")
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert first.stop() == 0
    second = start(policy, "--store", store.url, "--state", state)
    eventually_shared(second)
    assert second.remaining("customer") == 99
    assert "the instances' secret is known" not in second.log  # nothing had to be compiled anew
    # A store that has lost it gets the one that was kept, even when it is the first start after.
    assert second.stop() == 0
    store.do("FLUSHALL")
    eventually_shared(start(policy, "--store", store.url, "--state", state))
    assert store.do("GET", SECRET) == "0123456789abcdef0123456789abcdef"


def test_a_damaged_memory_is_told_and_made_anew(start, redis, tmp_path, policy_file):
    store, state, policy = redis().start(), str(tmp_path / "state"), policy_file(SHARED)
    first = start(policy, "--store", store.url, "--state", state)
    eventually_shared(first)
    assert first.stop() == 0
    (kept,) = secrets_in(state)
    with open(kept, "w", encoding="ascii") as f:
        f.write("nonsense\n")
    second = start(policy, "--store", store.url, "--state", state)
    assert kept in second.wait_log(r"level=warning msg=\"the instances' secret that was kept cannot be used: (.*)").group(1)
    eventually_shared(second)
    secret = store.do("GET", SECRET)
    eventually(lambda: open(kept, encoding="ascii").read() == secret + "\n", "the secret of the store")


# ---- what kind of store it is


def test_b124_an_evicting_store_is_warned_of(start, redis):
    store = redis("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").start()
    daemon = start(SHARED, "--store", store.url)
    daemon.wait_log(r"level=warning msg=\"store \S+: it may evict keys \(maxmemory-policy allkeys-lru\)")
    eventually_shared(daemon)


def test_b124_a_store_that_does_not_tell_is_no_trouble(start, redis):
    store = redis().start()
    store.do("ACL", "SETUSER", "default", "-config", "-info", "-command")
    daemon = start(SHARED, "--store", store.url)
    eventually_shared(daemon)
    assert "level=warning" not in daemon.log and "level=error" not in daemon.log


def doctor(*flags):
    done = subprocess.run([SLUICE, "doctor", *flags], env=clean_environment(), capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout + done.stderr


def test_doctor_looks_at_a_store(start, redis):
    store = redis("--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru").start()
    daemon = start(SHARED, "--store", store.url)
    eventually_shared(daemon)
    eventually(lambda: call(daemon.http, "GET", "/readyz")[0] == 200, "every worker has reached the store")
    doors = ("--server", f"http://{daemon.http}", "--admin", f"http://{daemon.admin}")
    status, text = doctor("--store", store.url, *doors)
    assert status == 0, text
    assert re.search(r"^ok +store +redis\+unix://\S+ answers in \d+\.\d+ ms", text, re.M), text
    assert re.search(r"^ok +version +[Rr]edis \d+\.\d+", text, re.M), text
    assert re.search(r"^ok +script +", text, re.M), text
    assert re.search(r"^odd +eviction +.*volatile-lru", text, re.M), text
    assert re.search(r"^ok +store clock +", text, re.M), text
    assert re.search(r"^ok +instances +1 ", text, re.M), text
    assert store.do("GET", SECRET) not in text


def test_doctor_and_a_user_without_rights_to_the_namespace(redis):
    store = redis().start()
    store.do("ACL", "SETUSER", "other", "on", ">pass", "~other:*", "+@all")
    url = f"redis+unix://other:pass@{store.socket}"
    status, text = doctor("--store", url)
    assert status == 1, text
    for what in ("secret", "instances"):
        assert re.search(rf"^bad +{what} +sluice:\{{fleet\}}:{what} cannot be read: the user may not do this", text, re.M), text
    assert not re.search(r"^bad ", doctor("--store", url, "--namespace", "other")[1], re.M)


def test_doctor_and_a_store_that_is_away_or_wants_a_password(redis):
    store = redis("--requirepass", "right-horse")
    status, text = doctor("--store", store.url)
    assert status == 3 and re.search(r"^away +store +", text, re.M), text
    store.start()
    status, text = doctor("--store", f"redis+unix://:wr0ng-s3cret@{store.socket}")
    assert status == 1 and re.search(r"^bad +store +.*wrongpass", text, re.M), text
    assert "wr0ng-s3cret" not in text
    status, text = doctor("--store", "redis://u:s3cr3t@h:0")
    assert status == 2 and "s3cr3t" not in text and "port" in text
