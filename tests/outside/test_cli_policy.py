"""`sluice policy check | show | explain | diff`."""
import json
import os

from conftest import POLICY, TOP

BROKEN = "version: 1\nlimits:\n  - {name: a, rate: 100/m, brust: 5}\n  - {name: b, key: k, rate: 0/s}\n"


def test_the_example_is_valid_and_without_a_warning(sluice):
    run = sluice("policy", "check", "--strict", os.path.join(TOP, "deploy/policy.example.yaml"))
    assert run.returncode == 0, run.stderr
    assert ": valid, " in run.stdout and run.stdout.endswith(" limits, 0 warnings\n")


def test_all_errors_in_one_pass_with_their_places(sluice, policy_file):
    good, bad = policy_file(), policy_file(BROKEN, "bad.yaml")
    run = sluice("policy", "check", good, bad)
    assert run.returncode == 1
    assert run.stdout.splitlines()[-1].startswith(f"{bad}: not valid, 2 errors")
    assert f"{bad}:3:28: error: limits[0].brust: " in run.stderr and "did you mean `burst`?" in run.stderr
    assert f"{bad}:4:" in run.stderr and "limits[1].rate" in run.stderr


def test_one_of_a_kind_is_counted_in_the_singular(sluice, policy_file):
    one = policy_file("version: 1\nlimits: [{name: a, rate: 1/s, on_store_failure: local}]\n")
    assert sluice("policy", "check", one).stdout == f"{one}: valid, 1 limit, 0 warnings\n"
    bad = policy_file("version: 1\nlimits: [{name: a, rate: 0/s, on_store_failure: local}]\n", "bad.yaml")
    assert sluice("policy", "check", bad).stdout == f"{bad}: not valid, 1 error, 0 warnings\n"


def test_findings_as_json(sluice, policy_file):
    good, bad = policy_file(), policy_file(BROKEN, "bad.yaml")
    run = sluice("policy", "check", "--json", good, bad)
    first, second = json.loads(run.stdout)
    assert run.returncode == 1 and run.stderr == ""
    assert first["valid"] and first["limits"] == 1 and len(first["hash"]) == 64 and first["errors"] == 0
    assert not second["valid"] and second["hash"] is None and second["errors"] == 2
    finding = next(f for f in second["findings"] if f["severity"] == "error")
    assert finding["file"] == bad and (finding["line"], finding["column"]) == (3, 28)
    assert finding["severity"] == "error" and finding["field"] == "limits[0].brust" and "burst" in finding["message"]


def test_a_warning_fails_only_when_strict(sluice, policy_file):
    path = policy_file("version: 1\nlimits: [{name: a, tier: nobody-has-it, rate: 1/s}]\n")
    run = sluice("policy", "check", path)
    assert run.returncode == 0 and "warning" in run.stderr
    assert sluice("policy", "check", "--strict", path).returncode == 1


def test_a_file_that_is_not_there(sluice, tmp_path):
    run = sluice("policy", "check", str(tmp_path / "none.yaml"))
    assert run.returncode == 1 and "none.yaml" in run.stderr
    assert sluice("policy", "show", str(tmp_path / "none.yaml")).returncode == 1


def test_show(sluice, policy_file):
    path = policy_file()
    assert "all" in sluice("policy", "show", path).stdout
    shown = json.loads(sluice("policy", "show", path, "--json").stdout)
    assert shown["limits"][0]["name"] == "all"


def test_explain_names_the_winner_and_charges_nothing(sluice, policy_file):
    path = policy_file("version: 1\nendpoints: {search: {match: ['api:search'], cost: 10}}\nlimits:\n"
                       "  - {name: all, rate: 100/h}\n  - {name: search, endpoint: search, rate: 50/h}\n")
    text = sluice("policy", "explain", path, "acct", "api:search")
    assert text.returncode == 0 and "search" in text.stdout and "all" in text.stdout
    assert json.loads(sluice("policy", "explain", path, "acct", "api:search", "--json").stdout)
    run = sluice("policy", "explain", path, "")
    assert run.returncode == 2 and run.stderr.startswith("sluice: key: ")


def test_diff_is_status_1_when_policies_differ(sluice, policy_file):
    old = policy_file()
    new = policy_file(POLICY.replace("100/h", "200/h"), "new.yaml")
    same = policy_file(POLICY + "# a comment\n", "same.yaml")
    assert json.loads(sluice("policy", "diff", old, same, "--json").stdout) == {"changes": []}
    assert sluice("policy", "diff", old, same).returncode == 0
    run = sluice("policy", "diff", old, new)
    assert run.returncode == 1 and "200/h" in run.stdout
    assert json.loads(sluice("policy", "diff", old, new, "--json").stdout)["changes"]


def test_diff_of_what_cannot_be_read_is_no_difference(sluice, policy_file, tmp_path):
    good, bad = policy_file(), policy_file(BROKEN, "bad.yaml")
    for pair in [(good, str(tmp_path / "none.yaml")), (str(tmp_path / "none.yaml"), good), (good, bad)]:
        run = sluice("policy", "diff", *pair)
        assert run.returncode == 2 and run.stdout == "" and "error: " in run.stderr


def test_explain_puts_the_fleet_into_the_formulas(sluice, policy_file):
    path = policy_file("version: 1\nlimits: [{name: a, rate: 5000/m, coordination: leased, on_store_failure: local}]\n")
    store = ("--store", "redis://user:s3cret@cache", "--instances", "4")
    text = sluice("policy", "explain", path, "k", *store).stdout
    assert "= 4 x max(1, floor(2 % x 5000 / 4)): 100 tokens" in text and "4 x 1250 = 5000" in text
    told = json.loads(sluice("policy", "explain", path, "k", *store, "--json").stdout)
    assert told["instances"] == 4 and told["buckets"][0]["accuracy"]["tokens"] == 100
    alone = json.loads(sluice("policy", "explain", path, "k", "--json").stdout)
    assert alone["buckets"][0]["accuracy"]["kind"] == "exact" and "instances" not in alone
    memory = json.loads(sluice("policy", "explain", path, "k", "--json", "--store", "memory:").stdout)
    assert memory == alone
    for wrong in [("--store", "http://h"), ("--store", "redis://u:s3cret@h:x"), ("--instances", "0")]:
        run = sluice("policy", "explain", path, "k", *wrong)
        assert run.returncode == 2 and wrong[0] in run.stderr and "s3cret" not in run.stderr


def test_check_with_a_store_finds_what_only_a_store_makes_wrong(sluice, policy_file):
    path = policy_file("version: 1\nlimits:\n  - {name: a, rate: 10001/h, algorithm: sliding_window_log, on_store_failure: local}\n"
                       "dedicated: [{keys: [whale], store: \"redis://u:s3cret@h:x\"}]\n")
    alone, shared = sluice("policy", "check", path), sluice("policy", "check", path, "--store", "redis://cache")
    assert "dedicated[0].store" in alone.stderr and "s3cret" not in alone.stderr
    assert "limits[0].rate" not in alone.stderr
    assert shared.returncode == 1 and "at most 10000 entries" in shared.stderr
