"""`sluice alarms`: what lasts, what is over, and a policy that was refused as the alarm that is easily had."""
import json
import os
import re
import subprocess

import pytest
from conftest import SLUICED, TOP, call, clean_environment, eventually

GOOD = "version: 1\nlimits: [{name: all, rate: 10/s}]\n"
BROKEN = "version: 1\nlimits: [{name: all, rate: 10/s, \"bur\\x1bst\": 3}]\n"


def alarms(sluice, daemon, *args):
    return sluice("alarms", "--admin", "http://" + daemon.admin, *args)


def listed(sluice, daemon):
    run = alarms(sluice, daemon, "--history", "--json")
    return run.returncode, json.loads(run.stdout)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def test_a_refused_policy_from_beginning_to_end(start, sluice):
    daemon = start(GOOD)
    run = alarms(sluice, daemon)
    assert (run.returncode, run.stdout, run.stderr) == (0, "no alarm is raised\n", "")
    assert listed(sluice, daemon) == (0, {"raised": [], "past": []})
    write(daemon.policy, BROKEN)
    daemon.wait_log(r"alarm policy_rejected: .*yaml:2:\d+: .*; docs/runbook.md")
    run = alarms(sluice, daemon)
    assert run.returncode == 1 and run.stderr == ""
    assert re.fullmatch(r"policy_rejected  since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z, for [^\n]+\n"
                        r"  the latest policy was refused, [^\n]+yaml:2:\d+: [^\n]+\n  what to do: docs/runbook.md#policy_rejected\n", run.stdout)
    assert "\x1b" not in run.stdout
    assert "past" not in json.loads(alarms(sluice, daemon, "--json").stdout)
    status, answer = listed(sluice, daemon)
    (alarm,) = answer["raised"]
    assert (status, alarm["kind"], alarm["times"], answer["past"]) == (1, "policy_rejected", 1, [])
    assert alarm["sentence"].endswith(": " + alarm["detail"]) and alarm["began"] == alarm["detail"]
    assert daemon.check("k")[0] == 200
    write(daemon.policy, GOOD)
    daemon.wait_log("alarm policy_rejected is over")
    run = alarms(sluice, daemon, "--history")
    assert run.returncode == 0
    assert re.match(r"no alarm is raised\n\nOver:\npolicy_rejected  from \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z, for [\d.]+ s\n  the latest", run.stdout), run.stdout
    status, answer = listed(sluice, daemon)
    (over,) = answer["past"]
    assert (status, answer["raised"], over["kind"], over["detail"]) == (0, [], "policy_rejected", alarm["detail"])
    assert over["from"] == alarm["since"] < over["to"] and over["seconds"] >= 5


def test_the_doctor_asks_for_alarms(start, sluice):
    """A daemon that answers and is alarmed is odd, with where to read what to do; without the token it is said that nobody knows."""
    daemon = start(GOOD, "--admin-token", "write", "--admin-read-token", "read")

    def doctor(*args):
        run = sluice("doctor", "--server", "http://" + daemon.http, "--admin", "http://" + daemon.admin, "--json", *args)
        return run.returncode, [(c["check"], c["state"], c["detail"]) for c in json.loads(run.stdout)["checks"] if c["check"].startswith("alarm")]

    assert doctor("--admin-token", "read") == (0, [("alarms", "ok", "none is raised")])
    status, ((name, state, detail),) = doctor()
    assert (status, name, state) == (0, "alarms", "odd") and detail.startswith("not known: ") and "--admin-token" in detail
    write(daemon.policy, BROKEN)
    daemon.wait_log("alarm policy_rejected: ")
    status, ((name, state, detail),) = doctor("--admin-token", "write")
    assert (status, name, state) == (0, "alarm", "odd")
    assert detail.startswith("policy_rejected: the latest policy was refused") and detail.endswith("; what to do: docs/runbook.md#policy_rejected")


def test_a_start_on_the_last_good_policy(start, sluice, tmp_path):
    state = str(tmp_path / "state")
    first = start(GOOD, "--state", state)
    path = first.policy
    assert first.stop() == 0
    write(path, BROKEN)
    daemon = start(path, "--state", state)
    status, answer = listed(sluice, daemon)
    assert (status, [a["kind"] for a in answer["raised"]]) == (1, ["policy_rejected"])
    assert re.search(r"yaml:2:\d+: ", answer["raised"][0]["detail"])


def test_nobody_answers(start, sluice):
    daemon = start(GOOD, "--admin-read-token", "l00k")
    assert alarms(sluice, daemon).returncode == 3
    assert alarms(sluice, daemon, "--admin-token", "l00k").returncode == 0
    daemon.stop()
    run = alarms(sluice, daemon, "--admin-token", "l00k")
    assert (run.returncode, run.stdout) == (3, "")
    assert "no answer from" in run.stderr


@pytest.mark.parametrize("budget", ["0", "2h", "fast", "-1ms", "1us"])
def test_a_budget_that_is_none(policy_file, budget):
    run = subprocess.run([SLUICED, "--policy", policy_file(), "--latency-budget", budget], env=clean_environment(), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert f"--latency-budget: `{budget}`: a budget is `auto`, `off` or a duration from `1ms` to `1h`" in run.stderr


@pytest.mark.parametrize("budget", ["auto", "off", "3ms"])
def test_a_budget_that_is_one(start, budget):
    daemon = start(GOOD, "--latency-budget", budget)
    eventually(lambda: daemon.metric('sluice_alarm{kind="decision_slow"}') == 0, "the daemon runs")


def test_every_kind_is_told_and_has_its_page(start):
    """One list: src/observe/alarm.h, /metrics, the runbook, each with its hold."""
    with open(os.path.join(TOP, "src/observe/alarm.h"), encoding="utf-8") as f:
        holds = dict(re.findall(r'X\([A-Z_]+, "(\w+)", (\d+),', f.read()))
    with open(os.path.join(TOP, "docs/runbook.md"), encoding="utf-8") as f:
        sections = f.read().split("\n# Alerts that are no alarms")[0].split("\n## ")[1:]
    assert re.findall(r'sluice_alarm\{kind="(\w+)"\}', call(start(GOOD).admin, "GET", "/metrics")[2].decode()) == list(holds)
    assert [section.split("\n")[0] for section in sections] == list(holds)
    for section in sections:
        kind, _, meaning = section.split("\n")[:3]
        assert meaning.startswith("*") and "- **" in section, kind  # what it means, then what to do
        assert re.search(rf"\b[Hh]old {holds[kind]} s\b", section), kind
