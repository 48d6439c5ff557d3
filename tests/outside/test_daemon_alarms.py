"""What an operator is woken by, in a daemon of its own: one line in the log when an alarm begins and one when it is over, and the metrics between. And whom
/v1/top names."""
import json
import os
import shutil
import subprocess
import threading
import time

import pytest
from conftest import call, connect, eventually

PROXY = """\
version: 1
identity:
  order: [address]
  trusted_proxies: [{trusted}]
  forwarded: x-forwarded-for
limits:
  - {{name: anonymous, key_type: address, rate: 1000/s}}
"""


class Crowd:
    """Requests of many addresses behind one proxy, some hundred a second, until it is stopped."""

    def __init__(self, daemon):
        self.daemon, self.sent, self.over = daemon, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        connection = connect(self.daemon.http)
        while not self.over.wait(0.005):
            connection.request("GET", "/auth/x", headers={"X-Forwarded-For": f"192.0.{self.sent // 200 % 200}.{self.sent % 200}"})
            connection.getresponse().read()
            self.sent += 1
        connection.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def test_everyone_behind_the_proxy_becomes_one(start):
    """Row 7 of what goes wrong: the proxy falls out of trusted_proxies. Half a minute of normal traffic is enough to tell, though nobody is rejected."""
    daemon = start(PROXY.format(trusted="127.0.0.0/8"))
    with Crowd(daemon) as crowd:
        begun = time.monotonic()
        eventually(lambda: crowd.sent > 2000 and time.monotonic() - begun > 36, "the daemon knows what is usual", 120)
        assert "alarm" not in daemon.log
        with open(daemon.policy, "w") as f:
            f.write(PROXY.format(trusted=""))
        eventually(lambda: "alarm anonymous_everyone" in daemon.log, "the alarm is raised", 120)  # the average of hot keys follows within some 15 s
        daemon.wait_log(r"alarm anonymous_everyone: .* of the decisions about addresses are about a single one, usually .*; docs/runbook.md")
        assert daemon.metric('sluice_alarm{kind="anonymous_everyone"}') == 1
        assert daemon.metric('sluice_alarm{kind="rejection_ratio"}') == 0
        top = json.loads(call(daemon.admin, "GET", "/v1/top")[2])
        assert (top["hot"][0]["key"], top["hot"][0]["keyType"]) == ("127.0.0.1", "address")
    assert daemon.log.count("alarm anonymous_everyone") == 1


def test_a_table_that_is_too_small(start):
    daemon = start("version: 1\nlimits: [{name: all, rate: 10/d}]\n", "--table-keys", "1000")
    assert daemon.metric('sluice_alarm{kind="table_full"}') == 0
    for n in range(5):
        body = json.dumps([{"key": f"k{n}-{i}"} for i in range(1000)])
        assert call(daemon.http, "POST", "/check", body)[0] == 200
    daemon.wait_log(r"alarm table_full: .* live ones evicted in ten seconds; docs/runbook.md")
    assert daemon.metric('sluice_alarm{kind="table_full"}') == 1
    assert daemon.metric('sluice_alarms_raised_total{kind="table_full"}') == 1


def test_a_new_limit_that_lets_nothing_pass(start):
    """A mistake in a reload: the bucket holds less than what requests cost."""
    daemon = start("version: 1\nlimits: [{name: all, rate: 1000000/s}]\n")
    with open(daemon.policy, "w") as f:
        f.write("version: 1\nlimits: [{name: all, rate: 1000000/s}, {name: mistake, key: k, rate: 1/d, cost: 2}]\n")
    eventually(lambda: daemon.metric('sluice_rejection_ratio{limit="mistake"}') is not None, "the policy is in force")
    body = json.dumps([{"key": "k"}] * 1000)
    end = time.monotonic() + 20
    while "alarm all_rejected" not in daemon.log and time.monotonic() < end:
        assert call(daemon.http, "POST", "/check", body)[0] == 200
    daemon.wait_log(r"alarm all_rejected: .*`mistake` rejects 100.0 %")
    assert daemon.metric('sluice_rejection_ratio{limit="mistake"}') == 1


def test_top_names_who_is_hot_and_who_is_rejected(start):
    daemon = start("version: 1\nlimits: [{name: all, rate: 1000000/s}, {name: shut, key: knocker, rate: blocked}]\n")
    body = json.dumps([{"key": "busy \u00e9 \"quoted\""}] * 800 + [{"key": "knocker"}] * 200)

    def named():
        assert call(daemon.http, "POST", "/check", body)[0] == 200
        top = json.loads(call(daemon.admin, "GET", "/v1/top")[2])
        return top if len(top["hot"]) > 1 and top["rejected"] else None

    top = eventually(named, "the keys are counted")
    assert [k["key"] for k in top["hot"]] == ["busy \u00e9 \"quoted\"", "knocker"]
    assert [k["key"] for k in top["rejected"]] == ["knocker"]
    assert all(k["keyType"] == "api_key" and k["opsPerSecond"] > 0 for kind in ("hot", "rejected") for k in top[kind])
    assert daemon.metric('sluice_hot_key_ops{rank="1"}') > daemon.metric('sluice_hot_key_ops{rank="2"}') > 0
    assert daemon.metric('sluice_hot_key_ops{rank="10"}') == 0
    assert "knocker" not in call(daemon.admin, "GET", "/metrics")[2].decode()


def test_b146_promtool_finds_nothing(start):
    """A label that is not escaped, a family without its HELP or TYPE, a name that is none: with traffic of every kind."""
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not promtool:
        pytest.skip("no promtool here")
    daemon = start("version: 1\nlimits: [{name: all, rate: 5/d}, {name: addresses, key_type: address, rate: 2/d}, {name: dry, rate: 1/d, mode: dry_run}]\n")
    for i in range(10):
        daemon.check("k")
        daemon.check("192.0.2.1", keyType="address")
    text = call(daemon.admin, "GET", "/metrics")[2]
    run = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
