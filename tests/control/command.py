"""The command line on a store, and a policy whose only limit tells versions apart."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fleet_outside"))

from fleet import outside  # noqa: E402

POLICY = """\
version: 1
limits:
  - {name: all, rate: %d/h, on_store_failure: local}
"""


class Command:
    """`sluice` on one store: sluice("policy", "history", status=0) -> CompletedProcess."""

    def __init__(self, store):
        self.env = outside.clean_environment(SLUICE_STORE=store)

    def __call__(self, *args, status=0, env=None):
        run = subprocess.run([outside.SLUICE, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                             env={**self.env, **(env or {})})
        assert status is None or run.returncode == status, (args, run.returncode, run.stdout, run.stderr)
        return run

    def json(self, *args, status=0):
        return json.loads(self(*args, "--json", status=status).stdout)

    def push(self, path, *args):
        """The number of the new version."""
        return self.json("policy", "push", path, *args)["version"]["version"]

    def history(self, *args):
        return self.json("policy", "history", *args)
