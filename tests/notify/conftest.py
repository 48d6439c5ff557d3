"""Fixtures: a fleet of daemons on one redis-server, and receivers of webhooks."""
import contextlib
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "fleet_outside")]

from fleet import Fleet  # noqa: E402
from receiver import SECRET, Receiver  # noqa: E402

# Whatever proxy this machine has is not for loopback.
DIRECT = {"no_proxy": "*", "NO_PROXY": "*"}


@pytest.fixture
def fleet(tmp_path):
    with Fleet(tmp_path) as one:
        yield one


@pytest.fixture
def receive():
    """receive(503, 204) -> a Receiver that ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(*answers, **more):
            receiver = Receiver(*answers, **more)
            stack.callback(receiver.close)
            return receiver

        yield start


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return f"@{path}"


@pytest.fixture
def start(fleet, secret_file):
    """start(policy_text, receiver, ..., store=URL, flags=[]) -> a Daemon that tells them."""

    def run(policy, *receivers, store="memory:", flags=(), wait=True):
        hooks = [flag for receiver in receivers for flag in ("--webhook", receiver.url)]
        return fleet.daemon(fleet.policy(policy), store, *hooks, "--webhook-secret", secret_file, *flags, env=DIRECT, wait=wait)

    return run


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" and report.failed and "fleet" in getattr(item, "funcargs", {}):
        report.sections.append(("logs of the fleet", item.funcargs["fleet"].logs()))
