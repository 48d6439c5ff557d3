"""What keeps sluiced from starting is one line on standard error and exit status 2, and leaves nothing behind."""
import os
import resource
import signal
import socket
import stat
import subprocess

import pytest
from conftest import POLICY, SLUICED, call, clean_environment, connect


def fail(*flags, env=None, preexec_fn=None):
    """Runs sluiced, which must not start; returns its one line."""
    run = subprocess.run([SLUICED, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                         env=clean_environment(**(env or {})), preexec_fn=preexec_fn)
    assert run.returncode == 2, (run.returncode, run.stderr)
    assert run.stdout == ""
    lines = run.stderr.splitlines()
    assert len(lines) == 1, run.stderr
    assert lines[0].startswith("sluiced: ")
    return lines[0][len("sluiced: "):]


def free(address="127.0.0.1"):
    """A port that nobody has at this moment, for checks that nobody listens on it afterwards."""
    with socket.socket() as s:
        s.bind((address, 0))
        return s.getsockname()[1]


def refuses(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


def test_help_and_version_say_what_is_there():
    env = clean_environment()
    text = subprocess.run([SLUICED, "--help"], capture_output=True, text=True, env=env, timeout=60).stdout
    for flag in ("--listen", "--admin", "--policy", "--store", "--workers", "--table", "--drain-timeout", "--config"):
        assert f"  {flag} " in text
    for door in ("--resp", "--grpc", "--envoy-config", "--usage-db"):
        assert door not in text
    version = subprocess.run([SLUICED, "--version"], capture_output=True, text=True, env=env, timeout=60)
    assert version.returncode == 0 and version.stdout.startswith("sluiced 0.")


def test_b181_a_broken_policy_is_one_line_with_its_place(policy_file):
    path = policy_file("version: 1\nlimits:\n  - {name: a, rate: 100/m, brust: 5}\n  - {name: b, key: k, rate: 0/s}\n")
    port = free()
    line = fail("--policy", path, "--listen", f"127.0.0.1:{port}")
    assert line.startswith(f"{path}:3:")
    assert "burst" in line and "(and 1 more; `sluice policy check` lists them)" in line
    assert refuses(port)


@pytest.mark.parametrize("text", ["", "\x00", "- a\n", "version: 1\nlimits: []\n\t- x\n", "limits: {a: b}\n"])
def test_b181_no_kind_of_broken_policy_is_taken(policy_file, text):
    path = policy_file(text)
    assert path in fail("--policy", path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")


def test_a_policy_that_cannot_be_read(tmp_path):
    assert "/none.yaml" in fail("--policy", str(tmp_path / "none.yaml"))
    assert str(tmp_path) in fail("--policy", str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in fail("--policy", str(tmp_path / "pipe"))
    assert fail() == "no policy: give --policy FILE"


def test_b181_a_port_in_use_leaves_no_listener_half_open(policy_file):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy, port = taken.getsockname()[1], free()
        line = fail("--policy", policy_file(), "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{busy}")
        assert f"127.0.0.1:{busy}" in line
        assert refuses(port)


def test_options_that_are_wrong_are_named(policy_file, tmp_path):
    policy = ("--policy", policy_file())
    assert fail(*policy, "--workres", "2") == "no option --workres; did you mean --workers?"
    assert fail(*policy, "--workers", "many").startswith("--workers: `many`: must be a whole number")
    assert fail(*policy, "--table-keys", "4294967295").startswith("--table-keys: `4294967295`: must be a whole number from 1000 to")
    assert fail(*policy, "extra") == "`extra` is no option; --help lists them"
    assert fail(*policy, "--store", "reddis://h").startswith("--store: ")
    assert "--tls-key is missing" in fail(*policy, "--tls-cert", "x.pem")
    assert fail(*policy, env={"SLUICE_DRAIN_TIMEOUT": "soon"}).startswith("SLUICE_DRAIN_TIMEOUT: `soon`: ")
    config = tmp_path / "sluiced.yaml"
    config.write_text("listen: 127.0.0.1:0\nworkres: 2\n")
    assert fail(*policy, "--config", str(config)) == f"{config}:2:1: error: workres: unknown setting; did you mean `workers`?"
    assert "none.yaml" in fail(*policy, "--config", str(tmp_path / "none.yaml"))


def test_an_admin_listener_beyond_loopback_needs_a_token(policy_file):
    assert "token" in fail("--policy", policy_file(), "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0")


def test_settings_come_from_flag_environment_and_file(start, tmp_path):
    config = tmp_path / "sluiced.yaml"
    config.write_text("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 3\nlog-format: json\ndrain_timeout: 1s\n")
    daemon = start(POLICY, "--config", str(config), env={"SLUICE_WORKERS": "2"}, ports=False)
    assert '"msg":"ready: 2 workers' in daemon.log
    assert daemon.check("k")[0] == 200


def test_a_table_file_keeps_the_counts_over_a_restart(start, tmp_path, policy_file):
    table, policy = str(tmp_path / "table"), policy_file()
    first = start(policy, "--table", table, "--table-keys", "1000")
    for _ in range(7):
        first.check("acct")
    assert first.stop() == 0
    second = start(policy, "--table", table, "--table-keys", "1000")
    assert second.remaining("acct") == 93
    second.signal(signal.SIGKILL)  # and over an end without a goodbye
    second.wait()
    assert start(policy, "--table", table, "--table-keys", "1000").remaining("acct") == 93
    assert stat.S_IMODE(os.stat(table).st_mode) == 0o600


def test_a_foreign_table_file_is_refused_and_left_alone(policy_file, tmp_path):
    table = tmp_path / "table"
    table.write_bytes(b"something else entirely" * 1000)
    assert str(table) in fail("--policy", policy_file(), "--table", str(table), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert table.read_bytes() == b"something else entirely" * 1000


def test_a_table_beyond_the_limit_of_file_sizes_is_one_line(start, policy_file, tmp_path):
    table, policy = str(tmp_path / "table"), policy_file()
    why = fail("--policy", policy, "--table", table, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
    assert table in why and os.path.getsize(table) == 0
    assert start(policy, "--table", table, "--table-keys", "1000").remaining("acct") == 100  # what is left of it does no harm


def test_b182_a_stale_unix_socket_is_taken_over_and_a_live_one_is_not(start, policy_file, tmp_path):
    path = str(tmp_path / "s")
    policy = policy_file()
    flags = ("--listen", f"unix:{path}", "--admin", "127.0.0.1:0", "--unix-mode", "0600")
    first = start(policy, *flags, ports=False)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert "another process listens there" in fail("--policy", policy, *flags) and call(first.http, "GET", "/readyz")[0] == 200
    first.signal(signal.SIGKILL)
    first.wait()
    assert os.path.exists(path)
    second = start(policy, *flags, ports=False)
    assert second.check("k")[0] == 200
    assert second.stop() == 0
    assert not os.path.exists(path)
    assert "107" in fail("--policy", policy, "--listen", "unix:/" + "x" * 120, "--admin", "127.0.0.1:0")


def test_a_token_from_a_file_is_asked_for(start, tmp_path):
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    daemon = start(POLICY, "--check-token", f"@{secret}")
    assert daemon.check("k")[0] == 401
    status, _, _ = call(daemon.http, "POST", "/check", '{"key":"k"}', {"Authorization": "Bearer s3cret"})
    assert status == 200
    assert "s3cret" not in daemon.log


def test_limits_of_the_listeners_come_from_the_options(start):
    daemon = start(POLICY, "--body-bytes", "1k", "--header-bytes", "1k", "--header-timeout", "200ms")
    assert call(daemon.http, "POST", "/check", b" " * 2000 + b'{"key":"k"}')[0] == 413
    assert call(daemon.http, "GET", "/readyz", None, {"X-Long": "x" * 2000})[0] == 431
    slow = connect(daemon.http)
    slow.connect()
    slow.sock.sendall(b"GET /readyz HTTP/1.1\r\n")
    answer = b""
    while True:  # ends when the daemon has had enough
        part = slow.sock.recv(4096)
        if not part:
            break
        answer += part
    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


def test_state_lets_a_restart_go_on_with_the_last_good_policy(start, policy_file, tmp_path):
    state = str(tmp_path / "state")
    policy = policy_file()
    first = start(policy, "--state", state)
    assert first.limit() == 100
    assert first.stop() == 0
    policy_file("version: 1\nlimits: [{name: all, rate: 0/s}]\n")
    second = start(policy, "--state", state)
    assert second.limit() == 100
    assert "started on the last good policy" in second.log
    assert second.stop() == 0
    os.rename(os.path.join(state, "policy.yaml"), os.path.join(state, "gone"))
    assert policy in fail("--policy", policy, "--state", state, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")


def test_state_keeps_the_keys_file_too(start, policy_file, tmp_path):
    state, folder = str(tmp_path / "state"), tmp_path
    (folder / "tiers.csv").write_text("acct,pro\n")
    text = ("version: 1\ntiers: {default: free, keys_file: tiers.csv}\nlimits:\n"
            "  - {name: free, tier: free, rate: 10/h}\n  - {name: pro, tier: pro, rate: 1000/h}\n")
    first = start(policy_file(text), "--state", state)
    assert first.limit("acct") == 1000
    assert first.stop() == 0
    (folder / "tiers.csv").write_text("acct;pro\nno commas here\n")
    second = start(policy_file(text), "--state", state)
    assert "started on the last good policy" in second.log and "tiers.csv:1:" in second.log
    assert second.limit("acct") == 1000


def test_a_state_folder_that_cannot_be_written(policy_file, tmp_path):
    (tmp_path / "file").write_text("")
    line = fail("--policy", policy_file(), "--state", str(tmp_path / "file" / "x"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert line.startswith("cannot write into the state folder ")
