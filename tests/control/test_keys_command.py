"""`sluice keys set | import` on a store with a policy: tiers that no limit would ever meet are not written unasked."""

POLICY = """\
version: 1
tiers: {default: free, keys_store: %s}
limits:
  - {name: free, tier: free, rate: 10/h}
  - {name: enterprise, tier: enterprise, rate: 1000/h}
"""


def push(sluice, fleet, keys_store="true"):
    sluice("policy", "push", fleet.policy(POLICY % keys_store))


def test_a_tier_that_the_policy_does_not_name(sluice, fleet):
    push(sluice, fleet)
    run = sluice("keys", "set", "u9", "enterprize", status=1)
    assert run.stderr == "sluice: version 1 of the policy has no tier `enterprize` (did you mean `enterprise`?); nothing was changed, --force does it all the same\n"
    assert sluice("keys", "get", "u9", status=1).stdout == ""
    assert "did you mean" not in sluice("keys", "set", "u9", "something", status=1).stderr
    assert sluice("keys", "set", "u9", "enterprise").stderr == ""
    sluice("keys", "set", "u9", "enterprize", "--force")
    assert sluice("keys", "get", "u9").stdout == "enterprize\n"


def test_one_bad_line_and_nothing_is_imported(sluice, fleet, tmp_path):
    push(sluice, fleet)
    path = tmp_path / "tiers.csv"
    path.write_text("u1,free\nu2,enterprize\n")
    assert "did you mean `enterprise`?" in sluice("keys", "import", str(path), status=1).stderr
    sluice("keys", "get", "u1", status=1)
    assert sluice("keys", "import", str(path), "--force").stdout.startswith("2 keys:")
    path.write_text("u3,free\n")
    assert sluice("keys", "import", str(path)).stdout.startswith("1 key:")
    assert sluice("keys", "get", "u3").stdout == "free\n"


def test_a_policy_that_does_not_look_there(sluice, fleet):
    push(sluice, fleet, "false")
    run = sluice("keys", "set", "u9", "enterprise")
    assert "warning" in run.stderr and "no instance looks there" in run.stderr


def test_a_store_without_a_policy(sluice):
    """There is nothing to hold it against: instances may have their policy from a file."""
    assert sluice("keys", "set", "u9", "whatever").stderr == ""
