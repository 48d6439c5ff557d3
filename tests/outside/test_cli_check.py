"""`sluice check`, `sluice buckets` and `sluice doctor`, with a daemon and without."""
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from conftest import POLICY

FIELDS = {"allowed", "limit", "remaining", "resetAt", "retryAfterMs", "resetAfterMs", "delayMs", "source", "policy", "warning"}


def asked(sluice, daemon, *args):
    run = sluice("check", *args, "--server", f"http://{daemon.http}", "--json")
    return run.returncode, json.loads(run.stdout)


def test_a_check_of_a_daemon_spends_and_says_what_is_left(sluice, daemon):
    status, verdict = asked(sluice, daemon, "acct", "api:search")
    assert status == 0 and set(verdict) == FIELDS
    assert (verdict["allowed"], verdict["limit"], verdict["remaining"], verdict["policy"]) == (True, 100, 90, "all")
    assert asked(sluice, daemon, "acct", "--cost", "0")[1]["remaining"] == 90
    assert daemon.remaining("acct") == 90


def test_a_rejection_is_status_1_in_both_forms(sluice, daemon):
    status, verdict = asked(sluice, daemon, "acct", "--cost", "101")
    assert status == 1 and not verdict["allowed"] and verdict["reason"] == "cost_exceeds_limit" and verdict["retryAfterMs"] == -1
    run = sluice("check", "acct", "--cost", "101", "--server", daemon.http)
    assert run.returncode == 1 and run.stdout.startswith("rejected (cost_exceeds_limit): no wait will help\n")
    sluice("check", "acct", "--cost", "100", "--server", daemon.http)
    run = sluice("check", "acct", "--server", daemon.http)
    assert run.returncode == 1 and run.stdout.startswith("rejected (rate_limited): retry in ")


def test_the_daemon_and_the_file_give_the_same_verdict(sluice, daemon):
    here = json.loads(sluice("check", "acct", "api:search", "--policy", daemon.policy, "--json").stdout)
    there = asked(sluice, daemon, "acct", "api:search")[1]
    for field in FIELDS - {"resetAt"}:
        assert here[field] == there[field], field


def test_every_part_of_a_request_arrives(sluice, start):
    daemon = start("version: 1\nlimits:\n"
                   "  - {name: labelled, labels: {region: eu-*}, rate: 5/h}\n"
                   "  - {name: gold, tier: gold, rate: 6/h}\n"
                   "  - {name: users, key_type: user, rate: 7/h}\n"
                   "  - {name: edge, layer: edge, per: [address], rate: 3/h}\n")
    assert asked(sluice, daemon, "k", "--label", "region=eu-1")[1]["policy"] == "labelled"
    assert asked(sluice, daemon, "k", "--tier", "gold")[1]["policy"] == "gold"
    assert asked(sluice, daemon, "k", "--key-type", "user")[1]["policy"] == "users"
    assert asked(sluice, daemon, "k", "--address", "192.0.2.1")[1]["policy"] == "edge"


@pytest.mark.parametrize("args, field", [(["x" * 600], "key"), (["a\nb"], "key"), (["nobody", "--key-type", "address"], "key"),
                                         (["k", "--address", "nowhere"], "address")])
def test_a_request_out_of_range_is_usage_with_and_without_a_daemon(sluice, daemon, args, field):
    for where in (("--server", daemon.http), ("--policy", daemon.policy)):
        run = sluice("check", *args, *where)
        assert run.returncode == 2 and run.stdout == ""
        assert run.stderr.startswith(f"sluice: {field}: "), run.stderr


def test_nobody_there_is_status_3(sluice):
    run = sluice("check", "k", "--server", "http://127.0.0.1:1")
    assert run.returncode == 3 and run.stdout == ""
    assert run.stderr.startswith("sluice: no answer from http://127.0.0.1:1: ")


def test_somebody_else_there_is_status_3(sluice):
    class Other(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        run = sluice("check", "k", "--server", f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert run.returncode == 3 and "is it a sluiced?" in run.stderr


def test_a_token_and_a_unix_socket(sluice, start, tmp_path):
    path = str(tmp_path / "s")
    (tmp_path / "token").write_text("s3cret\n")
    start(POLICY, "--listen", f"unix:{path}", "--admin", "127.0.0.1:0", "--check-token", "s3cret", ports=False)
    server = ("--server", f"unix:{path}")
    # Unix sockets are guarded by their permissions or by the token, as the daemon has it; with the token it always works.
    assert sluice("check", "k", *server, "--check-token", f"@{tmp_path / 'token'}").returncode == 0
    assert sluice("check", "k", *server, env={"SLUICE_CHECK_TOKEN": "s3cret"}).returncode == 0


def test_a_wrong_token_is_told_of(sluice, start):
    daemon = start(POLICY, "--check-token", "s3cret")
    run = sluice("check", "k", "--server", daemon.http, "--check-token", "wrong")
    assert run.returncode == 3 and run.stderr.startswith("sluice: ") and "s3cret" not in run.stderr
    assert sluice("check", "k", "--server", daemon.http, "--check-token", "s3cret").returncode == 0


def test_a_broken_policy_is_status_2_with_its_places(sluice, policy_file):
    path = policy_file("version: 1\nlimits: [{name: a, rate: 0/s}]\n")
    run = sluice("check", "k", "--policy", path)
    assert run.returncode == 2 and run.stderr.startswith(f"{path}:2:")


def test_buckets_are_shown_and_reset(sluice, daemon):
    admin = ("--admin", f"http://{daemon.admin}")
    run = sluice("buckets", "show", "acct", *admin)
    assert run.returncode == 0 and run.stdout.startswith("no live buckets")
    for _ in range(3):
        daemon.check("acct")
    answer = json.loads(sluice("buckets", "show", "acct", *admin, "--json").stdout)
    assert [(b["name"], b["limit"], b["remaining"]) for b in answer["buckets"]] == [("all", 100, 97)]
    text = sluice("buckets", "show", "acct", *admin).stdout
    assert text.startswith("LIMIT") and len(text.splitlines()) == 2 and " 97 " in text
    assert json.loads(sluice("buckets", "reset", "acct", *admin, "--json").stdout) == {"reset": 1}
    assert daemon.remaining("acct") == 100
    assert sluice("buckets", "reset", "acct", *admin).stdout == "0 buckets are whole again\n"
    daemon.check("acct")
    assert sluice("buckets", "reset", "acct", *admin).stdout == "1 bucket is whole again\n"
    run = sluice("buckets", "show", "x" * 600, *admin)
    assert run.returncode == 2 and run.stderr.startswith("sluice: key: ")
    assert sluice("buckets", "show", "k", "--admin", "127.0.0.1:1").returncode == 3


def test_doctor_looks_at_everything(sluice, daemon, policy_file):
    where = ("--server", f"http://{daemon.http}", "--admin", f"http://{daemon.admin}")
    run = sluice("doctor", *where, "--policy", daemon.policy, "--json")
    answer = json.loads(run.stdout)
    states = {c["check"]: c["state"] for c in answer["checks"]}
    assert states["daemon"] == states["admin"] == states["policy"] == "ok"
    assert run.returncode == 0 and answer["healthy"] or "bad" in states.values()
    away = sluice("doctor", "--server", "127.0.0.1:1", "--admin", "127.0.0.1:1")
    assert away.returncode == 3 and len([line for line in away.stdout.splitlines() if line.startswith("away")]) == 2
    broken = policy_file("version: 1\nlimits: 3\n", "broken.yaml")
    bad = sluice("doctor", *where, "--policy", broken)
    assert bad.returncode == 1 and "bad   policy" in bad.stdout
