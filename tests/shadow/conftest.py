"""Fixtures: daemons, a store, policies, and the command line on an admin listener."""
import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "fleet_outside"))
sys.path.insert(0, os.path.join(TESTS, "shadow"))

from fleet import Fleet, outside  # noqa: E402
from stores import until  # noqa: E402


class Shadow:
    """The candidate of one daemon: over its admin listener, and with the command line."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.env = outside.clean_environment(SLUICE_ADMIN="http://" + daemon.admin)

    def ask(self, method, path="/v1/shadow", body=None, **headers):
        status, _, data = outside.call(self.daemon.admin, method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        return status, json.loads(data)

    def report(self):
        status, answer = self.ask("GET")
        assert status == 200, answer
        return answer

    def hash(self):
        return self.report().get("candidate", {}).get("hash")

    def start(self, text, query=""):
        """Runs `text` from now on; waits until it does."""
        status, answer = self.ask("PUT", "/v1/shadow" + query, text)
        assert status == 200, answer
        self.wait(answer["shadow"]["hash"])
        return answer["shadow"]

    def wait(self, wanted):
        until(lambda: self.hash() == wanted, lambda: f"the candidate is {self.hash()}, not {wanted}:\n{self.daemon.log}")

    def compared(self, n, whose=None):
        """The report (or its part), once so many decisions have been compared in it."""
        found = {}

        def there():
            found["report"] = self.report()
            found["part"] = found["report"].get(whose) if whose else found["report"]
            return found["part"] and found["part"]["decisions"] >= n

        until(there, lambda: f"{n} decisions: {found}\n{self.daemon.log}")
        return found["part"]

    def sluice(self, *args, status=0):
        run = subprocess.run([outside.SLUICE, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=self.env)
        assert run.returncode == status, (args, run.returncode, run.stdout, run.stderr)
        return run


def counts(report):
    return tuple(report[name] for name in ("allowed", "rejected", "newlyRejected", "newlyAllowed"))


def policy_text(rate, name="free", more=""):
    return f"version: 1\nlimits:\n  - {{name: {name}, rate: {rate}/h, on_store_failure: local{more}}}\n"


@pytest.fixture
def fleet(tmp_path):
    with Fleet(tmp_path) as one:
        yield one


@pytest.fixture
def redis(fleet):
    return fleet.redis()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" and report.failed and "fleet" in getattr(item, "funcargs", {}):
        report.sections.append(("logs of the fleet", item.funcargs["fleet"].logs()))
