"""`sluice replay`: the command around the engine (the engine has tests of its own)."""
import gzip
import json
import os
import pty
import select
import subprocess

from conftest import SLUICE, TOP, clean_environment

LOG = os.path.join(TOP, "tests/data/access-combined.log")
POLICY = "version: 1\nlimits:\n  - {name: addresses, key_type: address, rate: 30/m}\n"


def test_a_log_plain_gzipped_and_from_standard_input_gives_the_same(sluice, policy_file, tmp_path):
    policy = policy_file(POLICY)
    with open(LOG, "rb") as f:
        data = f.read()
    zipped = tmp_path / "log.gz"
    zipped.write_bytes(gzip.compress(data))
    plain = sluice("replay", "--policy", policy, "--json", LOG)
    assert plain.returncode == 0 and plain.stderr == ""
    summary = json.loads(plain.stdout)
    assert summary["events"] == summary["allowed"] + summary["rejected"] == 6000
    assert summary["rejected"] > 0 and summary["malformed"] == 0
    assert set(summary["limits"]) == {"addresses"}
    assert json.loads(sluice("replay", "--policy", policy, "--json", str(zipped)).stdout) == summary
    assert json.loads(sluice("replay", "--policy", policy, "--json", "-", stdin=data.decode("latin-1")).stdout) == summary


def test_the_summary_for_reading_has_the_totals_and_the_keys(sluice, policy_file):
    policy = policy_file(POLICY)
    summary = json.loads(sluice("replay", "--policy", policy, "--json", LOG).stdout)
    text = sluice("replay", "--policy", policy, LOG).stdout
    assert str(summary["allowed"]) in text and str(summary["rejected"]) in text
    assert summary["top_rejected"][0]["key"] in text


def test_verdicts_are_a_line_an_event(sluice, policy_file, tmp_path):
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps({"t_us": 1754003722145000 + i * 1000, "key": "k"}) + "\n" for i in range(5)))
    out = tmp_path / "verdicts.jsonl"
    policy = policy_file("version: 1\nlimits: [{name: all, rate: 3/h}]\n")
    run = sluice("replay", "--policy", policy, "--format", "jsonl", "--reorder", "0s", "--verdicts", str(out), str(events))
    assert run.returncode == 0
    verdicts = [json.loads(line) for line in out.read_text().splitlines()]
    assert [v["allowed"] for v in verdicts] == [True] * 3 + [False] * 2
    assert list(verdicts[0])[:3] == ["t_us", "key", "scope"]
    run = sluice("replay", "--policy", policy, "--format", "jsonl", "--verdicts", str(tmp_path / "no/such"), str(events))
    assert run.returncode == 2 and "no/such" in run.stderr


def test_a_second_policy_is_compared(sluice, policy_file):
    stricter = policy_file(POLICY.replace("30/m", "10/m"), "stricter.yaml")
    summary = json.loads(sluice("replay", "--policy", policy_file(POLICY), "--compare", stricter, "--json", LOG).stdout)
    assert summary["compare"]


def test_what_is_missing_or_broken_is_told_of(sluice, policy_file, tmp_path):
    run = sluice("replay", "--policy", policy_file(POLICY), str(tmp_path / "none.log"))
    assert run.returncode == 2 and "none.log" in run.stderr and run.stdout == ""
    run = sluice("replay", "--policy", policy_file("version: 1\nlimits: 3\n"), LOG)
    assert run.returncode == 1 and "policy.yaml:2:" in run.stderr


def test_verdicts_never_overwrite_what_is_read(sluice, policy_file, tmp_path):
    log, policy = tmp_path / "access.log", policy_file(POLICY)
    text = open(LOG).read()
    log.write_text(text)
    (tmp_path / "link").symlink_to(log)
    for name in (str(log), str(tmp_path / "link"), policy):
        run = sluice("replay", "--policy", policy, "--verdicts", name, str(log))
        assert run.returncode == 2 and f"--verdicts {name} would overwrite" in run.stderr and run.stdout == ""
    assert log.read_text() == text and open(policy).read() == POLICY


def test_malformed_lines_are_counted_and_shown_and_never_fatal(sluice, policy_file):
    """Unless there is nothing else: then nothing was replayed, and that is no success."""
    bad = "this is no log line\n"
    run = sluice("replay", "--policy", policy_file(POLICY), "--json", "-", stdin=bad + open(LOG).readline())
    summary = json.loads(run.stdout)
    assert run.returncode == 0 and (summary["events"], summary["malformed"]) == (1, 1)
    run = sluice("replay", "--policy", policy_file(POLICY), "--json", "-", stdin=bad)
    summary = json.loads(run.stdout)
    assert run.returncode == 1 and summary["events"] == 0 and summary["malformed"] == 1 and "not one line" in run.stderr


def test_progress_is_drawn_on_a_terminal_only(policy_file):
    ours, theirs = pty.openpty()
    run = subprocess.Popen([SLUICE, "replay", "--policy", policy_file(POLICY), "--json", LOG], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=theirs, env=clean_environment(TERM="xterm"), text=True)
    os.close(theirs)
    out = run.communicate(timeout=60)[0]
    drawn = b""
    while select.select([ours], [], [], 5)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert json.loads(out)["events"] == 6000
    assert b"100 %" in drawn and b"6,000 events" in drawn
    assert drawn.endswith(b"\r\x1b[K"), "the bar is gone when it is done"
