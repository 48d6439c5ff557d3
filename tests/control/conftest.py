"""Fixtures: what a fleet is made of, and the command line on its store."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from command import POLICY, Command  # noqa: E402
from fleet import Fleet  # noqa: E402

@pytest.fixture
def fleet(tmp_path):
    with Fleet(tmp_path) as one:
        yield one


@pytest.fixture
def redis(fleet):
    return fleet.redis()


@pytest.fixture
def sluice(redis):
    return Command(redis.url)


@pytest.fixture
def policy(fleet):
    """policy(100) -> the path of a file with one limit of 100 an hour."""
    return lambda rate: fleet.policy(POLICY % rate)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" and report.failed and "fleet" in getattr(item, "funcargs", {}):
        report.sections.append(("logs of the fleet", item.funcargs["fleet"].logs()))
