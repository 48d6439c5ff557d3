"""`sluice bench`: what it prints is whole and consistent. How fast anything is, is not tested here."""
import json
import re

import pytest
from conftest import POLICY


def test_core_measures_every_subject_and_says_where(sluice):
    run = sluice("bench", "core", "--keys", "1000", "--rounds", "3", "--ms", "1", "--json")
    answer = json.loads(run.stdout)
    assert run.returncode == 0
    assert set(answer["subjects"]) == {"floor", "hot", "rejected", "hotFollowed", "rejectedFollowed", "tenLimits", "tenLimitsFollowed",
                                       "tenThousandLimits", "batchFloor", "batch", "remembered", "rememberedNew", "rememberedTurns"}
    for subject in answer["subjects"].values():
        assert len(subject["rounds"]) == 3 and subject["ns"] == sorted(subject["rounds"])[1] > 0
    assert set(answer["ratios"]) == {"hotToFloor", "batchToFloor", "rejectedToAllowed", "tenThousandLimitsToTen", "hotFollowedToNot",
                                     "rejectedFollowedToNot", "turnsFollowedToNot"}
    assert {"cpu", "cores", "kernel", "compiler", "version"} <= set(answer["machine"])
    text = sluice("bench", "core", "--keys", "1000", "--rounds", "1", "--ms", "1").stdout
    assert "hot key, allowed" in text and "rejection to acceptance" in text


def test_table_measures_in_memory_and_in_a_file(sluice, tmp_path):
    for where in ((), ("--file", str(tmp_path / "table"))):
        run = sluice("bench", "table", "--keys", "1000", "--rounds", "1", "--ms", "1", "--json", *where)
        answer = json.loads(run.stdout)
        assert run.returncode == 0 and answer["bytesPerKey"] > 16 and set(answer["threaded"]) == {"hotNs", "singleNs"}
    assert "evictions" in sluice("bench", "table", "--keys", "1000", "--rounds", "1", "--ms", "1").stdout


BODY = '{"key":"k{n}","cost":0}'


def load(sluice, daemon, *args):
    run = sluice("bench", "http", f"http://{daemon.http}/check", "--body", BODY, "--keys", "7", "--warm-up", "20ms", "--duration",
                 "200ms", "--connections", "4", "--pid", str(daemon.process.pid), "--json", *args)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["runs"]


def test_http_closed_loop_counts_answers_and_cpu(sluice, daemon):
    closed, = load(sluice, daemon)
    assert closed["loop"] == "closed" and closed["answers"] == closed["ok"] == closed["latencyNs"]["n"] > 0
    assert closed["other"] == closed["limited"] == 0
    assert closed["latencyNs"]["p50"] <= closed["latencyNs"]["p99"] <= closed["latencyNs"]["max"]
    assert closed["serverCpuNsPerAnswer"] >= 0


def test_http_open_loop_keeps_its_schedule(sluice, daemon):
    run, = load(sluice, daemon, "--mode", "open", "--rate", "500")
    assert run["loop"] == "open" and run["rate"] == 500
    # Each arrival is answered, late or not, or counted as unanswered; 200 ms of 500/s are 100 arrivals.
    assert 100 - 10 <= run["answers"] + run["unanswered"] <= 100 + 10


def test_http_half_is_a_closed_run_and_an_open_one(sluice, daemon):
    first, second = load(sluice, daemon, "--mode", "half")
    assert (first["loop"], second["loop"]) == ("closed", "open")
    assert second["rate"] == pytest.approx(first["answersPerSecond"] / 2)


def test_http_rejections_and_other_answers_are_told_apart(sluice, start):
    daemon = start("version: 1\nidentity: {order: [api_key], headers: {api_key: X-Api-Key}}\n"
                   "limits: [{name: all, algorithm: fixed_window, rate: 5/d}]\n")
    run = sluice("bench", "http", f"http://{daemon.http}/auth/x", "--header", "X-Api-Key: same", "--warm-up", "0s", "--duration",
                 "100ms", "--connections", "2", "--json")
    answers = json.loads(run.stdout)["runs"][0]
    assert answers["ok"] <= 10 and answers["limited"] == answers["answers"] - answers["ok"] > 0
    run = sluice("bench", "http", f"http://{daemon.http}/nowhere", "--warm-up", "0s", "--duration", "50ms", "--json")
    answers = json.loads(run.stdout)["runs"][0]
    assert answers["other"] == answers["answers"] > 0 and answers["others"] == {"404": answers["other"]}
    run = sluice("bench", "http", f"http://{daemon.http}/nowhere", "--warm-up", "0s", "--duration", "50ms")
    assert re.search(r"others: \d+ of 404", run.stdout)


def test_http_for_reading_says_what_and_where(sluice, daemon):
    text = sluice("bench", "http", f"http://{daemon.http}/check", "--body", BODY, "--warm-up", "0s", "--duration", "50ms").stdout
    assert re.search(r"\d+ answers/s", text) and "latency, us: p50" in text and "cores, Linux" in text


def test_http_nobody_there_is_status_3(sluice):
    run = sluice("bench", "http", "http://127.0.0.1:1/check", "--duration", "50ms")
    assert run.returncode == 3 and "cannot connect" in run.stderr
