"""`sluice policy push | history | diff | rollback | show` on a real store, without a daemon."""
import concurrent.futures
import hashlib
import json
import os

from fleet import outside
from stores import Resp


def test_nothing_is_there_at_first(sluice, policy):
    assert "no version yet" in sluice("policy", "history").stdout
    assert sluice.history() == {"current": None, "versions": [], "instances": [], "unheard": 0}
    assert "no version" in sluice("policy", "rollback", status=1).stderr
    assert "no version" in sluice("policy", "show", "@current", status=1).stderr


def test_a_push_and_what_the_history_says_of_it(sluice, policy):
    path = policy(100)
    run = sluice("policy", "push", path, "--author", "ann", "--comment", "größer")
    assert "version 1 is current" in run.stdout
    sluice("policy", "push", policy(200))
    history = sluice.history()
    newest, first = history["versions"]
    with open(path, "rb") as f:
        assert first["hash"] == hashlib.sha256(f.read()).hexdigest()
    assert (first["version"], first["author"], first["comment"], first["rollbackOf"]) == (1, "ann", "größer", None)
    assert history["current"] == newest["version"] == 2 and newest["author"]
    lines = sluice("policy", "history").stdout.splitlines()
    assert lines[1].startswith("* 2 ") and lines[2].startswith("  1 ") and "größer" in lines[2]
    assert [v["version"] for v in sluice.history("--before", "2")["versions"]] == [1]
    assert [v["version"] for v in sluice.history("--count", "1")["versions"]] == [2]


def test_a_push_says_what_it_changes(sluice, policy):
    sluice("policy", "push", policy(100))
    text = sluice("policy", "push", policy(200)).stdout
    assert "1 change against version 1" in text and "[100/h] -> [200/h]" in text
    pushed = sluice.json("policy", "push", policy(300))
    assert pushed["pushed"] and pushed["changes"][0]["name"] == "all" and pushed["version"]["version"] == 3


def test_what_is_current_is_not_pushed_again(sluice, policy):
    path = policy(100)
    sluice("policy", "push", path)
    assert "nothing to do" in sluice("policy", "push", path).stdout
    assert not sluice.json("policy", "push", path)["pushed"]
    assert len(sluice.history()["versions"]) == 1


def test_a_broken_policy_is_not_pushed(sluice, fleet):
    path = fleet.policy("version: 1\nlimits:\n  - {name: a, rate: 100/m, brust: 5}\n")
    run = sluice("policy", "push", path, status=1)
    assert f"{path}:3:" in run.stderr and "burst" in run.stderr and "nothing was changed" in run.stderr
    assert sluice.history()["versions"] == []
    assert sluice("policy", "push", path + ".none", status=1).stderr


TIERS = """\
version: 1
tiers: {default: free}
limits:
  - {name: free, tier: %s, rate: 100/m, on_store_failure: local}
"""


def test_a_misspelt_name_is_not_pushed(sluice, fleet):
    """`fre` is nobody's tier: with it every customer would be without a limit."""
    path = fleet.policy(TIERS % "fre")
    run = sluice("policy", "push", path, status=1)
    assert "did you mean `free`" in run.stderr and "--allow-warnings" in run.stderr and sluice.history()["versions"] == []
    sluice("policy", "push", path, "--strict", "--allow-warnings", status=2)
    assert "pushed with 1 warning" in sluice("policy", "push", path, "--allow-warnings").stdout
    sluice("policy", "push", fleet.policy(TIERS % "free"))
    assert sluice.json("policy", "rollback")["version"]["rollbackOf"] == 1, "the way back is never barred"


def test_strict_refuses_every_warning(sluice, fleet):
    path = fleet.policy(TIERS % "enterprise")
    assert "--strict" in sluice("policy", "push", path, "--strict", status=1).stderr and sluice.history()["versions"] == []
    run = sluice("policy", "push", path)
    assert "no key has tier" in run.stderr and "pushed with 1 warning; --strict refuses them" in run.stdout


def test_two_pushes_cannot_overwrite_each_other_silently(sluice, policy):
    sluice("policy", "push", policy(100), "--author", "ann")
    sluice("policy", "push", policy(200), "--author", "bob", "--comment", "more")
    run = sluice("policy", "push", policy(300), "--expect", "1", status=1)
    assert "version 2 by bob" in run.stderr and "more" in run.stderr
    answer = sluice.json("policy", "push", policy(300), "--expect", "1", status=1)
    assert not answer["pushed"] and answer["current"]["author"] == "bob"
    assert len(sluice.history()["versions"]) == 2
    assert sluice.push(policy(300), "--expect", "2") == 3


def test_many_who_push_at_once(sluice, policy):
    """Each expects version 0: exactly one of them makes version 1, and every other is told who did."""
    paths = [policy(100 + i) for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda i: sluice("policy", "push", paths[i], "--expect", "0", "--author", f"author{i}", status=None), range(8)))
    winners = [i for i, run in enumerate(runs) if run.returncode == 0]
    assert len(winners) == 1 and all(run.returncode in (0, 1) for run in runs)
    assert all(f"version 1 by author{winners[0]}" in run.stderr for run in runs if run.returncode)
    history = sluice.history()
    assert history["current"] == 1 and history["versions"][0]["author"] == f"author{winners[0]}"


def test_versions_are_compared_and_shown(sluice, policy):
    path = policy(100)
    sluice("policy", "push", path)
    sluice("policy", "push", policy(200))
    assert "[100/h] -> [200/h]" in sluice("policy", "diff", "@1", "@2", status=1).stdout
    assert "no change" in sluice("policy", "diff", path, "@1").stdout
    assert "[200/h] -> [100/h]" in sluice("policy", "diff", "@current", path, status=1).stdout
    assert "200/h" in sluice("policy", "show", "@current").stdout and "100/h" in sluice("policy", "show", "@1").stdout
    with open(path) as f:
        assert sluice("policy", "show", "@1", "--text", "policy").stdout == f.read()
    assert "100/h" in sluice("policy", "explain", "@1", "k").stdout
    assert "no version 9" in sluice("policy", "diff", "@9", path, status=1).stderr
    assert "--text" in sluice("policy", "show", path, "--text", "policy", status=2).stderr


def test_old_versions_come_back(sluice, policy):
    for rate in (100, 200, 300):
        sluice("policy", "push", policy(rate))
    assert "version 4 is current" in sluice("policy", "rollback", "--comment", "too much").stdout
    newest = sluice.history()["versions"][0]
    assert (newest["version"], newest["rollbackOf"], newest["comment"]) == (4, 2, "too much")
    assert "no change" in sluice("policy", "diff", "@current", "@2").stdout
    assert sluice.json("policy", "rollback", "1")["version"]["rollbackOf"] == 1
    assert sluice.json("policy", "rollback", "@3")["version"]["version"] == 6
    assert "nothing to do" in sluice("policy", "rollback", "3").stdout
    assert sluice("policy", "rollback", "x", status=2).stderr
    assert "no version 70" in sluice("policy", "rollback", "70", status=1).stderr


def test_rollback_after_rollback_goes_on_back(sluice, policy):
    """1 2 3, then 4 [back to 2]: the next one is not 3 again, but 1; and what was pushed after a rollback goes back to that."""
    for rate in (100, 200, 300):
        sluice("policy", "push", policy(rate))
    back = lambda *args: sluice.json("policy", "rollback", *args)["version"]["rollbackOf"]  # noqa: E731
    assert "version 4 is current, back to 2:" in sluice("policy", "rollback").stdout
    assert back() == 1
    assert "none before it" in sluice("policy", "rollback", status=1).stderr
    assert back("3") == 3 and back() == 2
    assert sluice.push(policy(400)) == 8
    assert back() == 7 and back() == 1
    assert sluice.history()["current"] == 10


def test_the_keys_file_goes_with_the_policy(sluice, fleet):
    path = fleet.policy("version: 1\ntiers: {keys_file: keys.csv}\nlimits: [{name: pro, tier: pro, rate: 1/s, on_store_failure: local}]\n")
    keys = os.path.join(os.path.dirname(path), "keys.csv")
    with open(keys, "w") as f:
        f.write("acme,pro\n")
    sluice("policy", "push", path)
    os.unlink(keys)
    assert sluice("policy", "show", "@1", "--text", "keys").stdout == "acme,pro\n"
    assert json.loads(sluice("policy", "explain", "@1", "acme", "--json").stdout)["tier"]["name"] == "pro"
    assert sluice("policy", "push", path, status=1).stderr


def test_a_large_policy(sluice, fleet):
    """20,000 limits, some 2 MB: in several pieces."""
    limits = "".join(f"  - {{name: limit-{i}, key: key-{i}, rate: {i + 1}/m, burst: 5, note: {'x' * 40}, on_store_failure: local}}\n" for i in range(20000))
    path = fleet.policy("version: 1\nlimits:\n" + limits)
    assert os.path.getsize(path) > 1 << 21
    assert sluice.push(path) == 1
    with open(path) as f:
        assert sluice("policy", "show", "@1", "--text", "policy").stdout == f.read()


def test_a_store_that_is_not_there(sluice, policy, redis):
    redis.kill()
    assert "no connection" in sluice("policy", "history", status=3).stderr
    assert sluice("policy", "push", policy(1), status=3).stderr
    assert sluice("policy", "diff", "@1", "@2", status=3).stderr


def test_wrong_calls(sluice, policy):
    nowhere = {"SLUICE_STORE": ""}
    nobody = {**nowhere, "SLUICE_ADMIN": "http://127.0.0.1:1"}
    for command in (("history",), ("rollback",), ("push", policy(1)), ("show", "@1"), ("diff", "@1", "@2")):
        assert "SLUICE_ADMIN" in sluice("policy", *command, status=3, env=nobody).stderr, "without a store a daemon is asked"
    assert "SLUICE_STORE" in sluice("policy", "explain", "@1", "k", status=2, env=nowhere).stderr
    assert "memory:" in sluice("policy", "history", "--store", "memory:", status=2).stderr
    assert sluice("policy", "history", "--namespace", "a{b}", status=2).stderr
    assert sluice("policy", "push", policy(1), "--comment", "two\nlines", status=2).stderr
    assert sluice("policy", "push", policy(1), "--author", "", status=2).stderr
    assert sluice("policy", "push", status=2).stderr


def test_foreign_things_are_told_of_and_left_alone(sluice, policy, redis):
    store = Resp(redis.socket_path)
    store.call("SET", "sluice:{fleet}:policy:current", "hello")
    run = sluice("policy", "push", policy(1), status=1)
    assert "sluice:{fleet}:policy:current" in run.stderr and "left alone" in run.stderr
    assert sluice("policy", "history", status=1).stderr
    assert store.call("GET", "sluice:{fleet}:policy:current") == b"hello"
    store.close()


def test_namespaces_are_apart(sluice, policy):
    sluice("policy", "push", policy(1), "--namespace", "other")
    assert sluice.history()["versions"] == []
    assert len(sluice.history("--namespace", "other")["versions"]) == 1


def test_a_password_is_not_shown(policy, redis):
    run = outside.subprocess.run([outside.SLUICE, "policy", "history", "--store", f"redis://u:geheim@127.0.0.1:{redis.port}"],
                                 capture_output=True, text=True, timeout=60, env=outside.clean_environment())
    assert run.returncode == 3 and "geheim" not in run.stdout + run.stderr
