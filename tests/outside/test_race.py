"""The race that examples/race shows: a read-then-write limiter admits everybody who read in time, sluice admits the limit."""
import json
import os
import subprocess

from conftest import BIN, TOP, clean_environment

RUN = os.path.join(TOP, "examples/race/run")


def race(*flags):
    run = subprocess.run(["/usr/bin/python3", RUN, "--bin", BIN, *flags], capture_output=True, text=True, timeout=300,
                         env=clean_environment(PYTHONDONTWRITEBYTECODE="1"))
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_forty_at_98_of_100_are_138_with_the_race_and_exactly_100_without():
    found = json.loads(race("--json"))
    assert found == {"limit": 100, "used": 98, "at_once": 40, "racy": 138, "racy_counter": 99, "sluice": 100}


def test_eight_daemons_on_one_store_admit_the_limit_too():
    assert json.loads(race("--json", "--daemons", "8"))["sluice"] == 100


def test_it_prints_both_numbers_and_why():
    text = race()
    assert "admitted  138" in text and "admitted  100" in text
    assert "Why 138" in text and "Why 100" in text and "The barrier" in text
    for name in ("README.md", "docs/race.md"):  # they show these lines
        with open(os.path.join(TOP, name), encoding="utf-8") as f:
            shown = f.read()
        assert all(line in shown for line in text.splitlines() if "admitted" in line)


def test_without_the_barrier_chance_decides_how_many_too_many():
    found = json.loads(race("--json", "--no-barrier"))
    assert 100 <= found["racy"] <= 138 and found["sluice"] == 100
