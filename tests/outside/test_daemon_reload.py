"""A policy takes the place of another whole or not at all, however its file came to change, and traffic never notices."""
import json
import os
import shutil
import signal
import threading

import pytest
from conftest import POLICY, call, connect, eventually


def with_rate(rate, extra=""):
    return f"version: 1\ndefaults: {{on_store_failure: local}}\nlimits:\n  - {{name: all, rate: {rate}}}\n{extra}"


def write_in_place(path, text):
    with open(path, "w") as f:
        f.write(text)


def rename_over(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def delete_and_create(path, text):
    os.unlink(path)
    write_in_place(path, text)


class Traffic:
    """Checks on one keep-alive connection until stopped; remembers every status and every limit it was told."""

    def __init__(self, daemon):
        self.daemon, self.stopping, self.statuses, self.limits, self.error = daemon, False, {}, set(), None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        connection = connect(self.daemon.http)
        try:
            while not self.stopping:
                connection.request("POST", "/check", '{"key":"traffic","cost":0}', {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = json.loads(answer.read())
                self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
                self.limits.add(body.get("limit"))
        except Exception as e:  # whatever it is, the test must see it
            self.error = e
        finally:
            connection.close()

    def __enter__(self):
        self.thread.start()
        eventually(lambda: self.statuses or self.error, "traffic flows")
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()
        assert self.error is None and set(self.statuses) == {200}


@pytest.mark.parametrize("replace", [write_in_place, rename_over, delete_and_create])
def test_b91_every_way_to_replace_the_file_is_noticed(start, replace):
    daemon = start(with_rate("100/h"))
    with Traffic(daemon):
        for version in range(1, 6):
            replace(daemon.policy, with_rate(f"{100 + version}/h"))
            eventually(lambda: daemon.limit() == 100 + version, f"version {version} in force")


def test_b91_a_configmap_swap_is_noticed_each_time(start, tmp_path):
    """The layout of a Kubernetes ConfigMap: policy.yaml -> ..data/policy.yaml, ..data -> a dated folder that is renamed into place."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def publish(version):
        folder = mount / f"..2026_01_0{version}"
        folder.mkdir()
        (folder / "policy.yaml").write_text(with_rate(f"{100 + version}/h"))
        (mount / "..data_tmp").symlink_to(folder.name)
        os.rename(mount / "..data_tmp", mount / "..data")

    publish(0)
    (mount / "policy.yaml").symlink_to("..data/policy.yaml")
    daemon = start(str(mount / "policy.yaml"))
    assert daemon.limit() == 100
    for version in range(1, 6):
        publish(version)
        eventually(lambda: daemon.limit() == 100 + version, f"version {version} in force")
        shutil.rmtree(mount / f"..2026_01_0{version - 1}")
    daemon.wait_log("is in force", 6)
    assert daemon.log.count("is in force") == 6


def test_b91_a_link_whose_target_lives_elsewhere_is_followed(start, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.yaml").write_text(with_rate("100/h"))
    (tmp_path / "link.yaml").symlink_to("elsewhere/real.yaml")
    daemon = start(str(tmp_path / "link.yaml"))
    write_in_place(str(elsewhere / "real.yaml"), with_rate("200/h"))
    eventually(lambda: daemon.limit() == 200, "the target's change in force")


def test_b93_files_beside_the_policy_are_not_read(start, tmp_path):
    daemon = start(with_rate("100/h"))
    for name in (".policy.yaml.swp", "policy.yaml~", "#policy.yaml#", "policy.yaml.tmp", "4913"):
        (tmp_path / name).write_text(with_rate("1/h"))
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "y.yaml").mkdir()
    rename_over(daemon.policy, with_rate("300/h"))
    eventually(lambda: daemon.limit() == 300, "the real change in force")
    daemon.wait_log("is in force", 2)  # the line follows a moment after
    assert daemon.log.count("is in force") == 2


def test_a_touch_without_a_change_is_no_reload(start):
    daemon = start(with_rate("100/h"))
    before = daemon.metric("sluice_policy_version")
    os.utime(daemon.policy)
    daemon.wait_log("the file changed: the policy is the one in force")
    assert daemon.metric("sluice_policy_version") == before


BROKEN = {
    "a list where a mapping is wanted": "- a\n- b\n",
    "a key that is missing": "version: 1\nlimits:\n  - {name: all}\n",
    "a fraction for a whole number": "version: 1\nlimits:\n  - {name: all, rate: 100/h, burst: 0.9}\n",
    "tabs": "version: 1\nlimits:\n\t- {name: all, rate: 1/h}\n",
    "empty": "",
    "one byte": "x",
    "not UTF-8": b"version: 1\nlimits:\n  - {name: \xff\xfe, rate: 1/h}\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_b95_a_broken_file_leaves_the_old_policy_in_force(start, policy_file, kind):
    daemon = start(with_rate("100/h"))
    with Traffic(daemon) as traffic:
        policy_file(BROKEN[kind])
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("the policy was not taken; the one in force stays")
        assert daemon.process.poll() is None
        status, _, body = call(daemon.admin, "POST", "/v1/reload")
        assert status >= 400 and daemon.policy in json.loads(body)["detail"]
        assert daemon.limit() == 100
        policy_file(with_rate("500/h"))
        eventually(lambda: daemon.limit() == 500, "a good file in force")
    assert traffic.limits <= {100, 500}


def test_b97_a_failed_reload_shows_until_a_good_one(start, policy_file):
    daemon = start(with_rate("100/h"))

    def reloads(result):
        return daemon.metric(f'sluice_policy_reloads_total{{result="{result}"}}') or 0

    assert reloads("failed") == 0
    policy_file(with_rate("0/s"))
    daemon.signal(signal.SIGHUP)
    eventually(lambda: reloads("failed") > 0, "the failure is counted")
    assert call(daemon.http, "GET", "/readyz")[0] == 200
    assert daemon.metric("sluice_policy_last_reload_failed") == 1
    policy_file(with_rate("101/h"))
    daemon.signal(signal.SIGHUP)
    eventually(lambda: daemon.metric("sluice_policy_last_reload_failed") == 0, "the good one clears it")
    assert daemon.limit() == 101


def test_b98_a_new_limit_holds_at_once_for_buckets_in_use(start, policy_file):
    window = "version: 1\nlimits: [{name: all, algorithm: fixed_window, rate: %d/d}]\n"
    daemon = start(window % 100)
    daemon.check("few")
    for _ in range(50):
        daemon.check("many")
    policy_file(window % 10)
    eventually(lambda: daemon.limit() == 10, "the new limit in force")
    assert daemon.check("few")[1]["remaining"] == 8
    body = daemon.check("many")[1]
    assert (body["allowed"], body["limit"], body["remaining"]) == (False, 10, 0)


def test_b100_counts_do_not_jump_on_reloads(start, policy_file):
    daemon = start(with_rate("100/d"))
    for _ in range(3):
        daemon.check("k")
    for round_ in range(1, 21):
        policy_file(with_rate("100/d", f"  - {{name: other-{round_}, key: nobody, rate: 1/s}}\n"))
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("is in force", round_ + 1)
        assert daemon.remaining("k") == 97


def test_sighup_takes_a_changed_keys_file(start, tmp_path):
    (tmp_path / "tiers.csv").write_text("acct,free\n")
    daemon = start("version: 1\ntiers: {default: free, keys_file: tiers.csv}\nlimits:\n"
                   "  - {name: free, tier: free, rate: 10/h}\n  - {name: pro, tier: pro, rate: 1000/h}\n")
    assert daemon.limit("acct") == 10
    (tmp_path / "tiers.csv").write_text("acct,pro\n")
    daemon.signal(signal.SIGHUP)
    eventually(lambda: daemon.limit("acct") == 1000, "the new tier in force")


KEYED = """version: 1
tiers: {default: free, keys_file: %s}
limits:
  - {name: free, tier: free, rate: 10/h, on_store_failure: local}
  - {name: pro, tier: pro, rate: 1000/h, on_store_failure: local}
"""


def wait_tier(daemon, limit):
    eventually(lambda: daemon.limit("acct") == limit, f"the tier with {limit} in force")


@pytest.mark.parametrize("replace", [write_in_place, rename_over, delete_and_create])
def test_a_changed_keys_file_alone_is_noticed(start, tmp_path, replace):
    keys = str(tmp_path / "tiers.csv")
    write_in_place(keys, "acct,free\n")
    daemon = start(KEYED % "tiers.csv")
    with Traffic(daemon):
        for tier, limit in (("pro", 1000), ("free", 10), ("pro", 1000)):
            replace(keys, f"acct,{tier}\n")
            wait_tier(daemon, limit)


def test_a_keys_file_elsewhere_and_behind_links(start, tmp_path):
    """Swapped as a ConfigMap is, in a folder that is not the policy's."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def publish(version, tier):
        (mount / f"..{version}").mkdir()
        (mount / f"..{version}" / "tiers.csv").write_text(f"acct,{tier}\n")
        os.symlink(f"..{version}", mount / "..next")
        os.rename(mount / "..next", mount / "..data")

    publish(1, "free")
    os.symlink("..data/tiers.csv", mount / "tiers.csv")
    daemon = start(KEYED % (mount / "tiers.csv"))
    assert daemon.limit("acct") == 10
    publish(2, "pro")
    wait_tier(daemon, 1000)
    publish(3, "free")
    wait_tier(daemon, 10)


def test_a_keys_file_that_vanished_or_is_broken_changes_nothing(start, tmp_path):
    keys = tmp_path / "tiers.csv"
    keys.write_text("acct,pro\n")
    daemon = start(KEYED % "tiers.csv")
    keys.unlink()
    daemon.wait_log("was not taken")
    assert daemon.limit("acct") == 1000
    keys.write_text("acct\n")
    daemon.wait_log("was not taken", 2)
    assert daemon.limit("acct") == 1000
    keys.write_text("acct,free\n")
    wait_tier(daemon, 10)


def test_the_keys_file_of_the_next_policy_is_watched(start, tmp_path):
    for name, tier in (("old.csv", "free"), ("new.csv", "free")):
        (tmp_path / name).write_text(f"acct,{tier}\n")
    daemon = start(KEYED % "old.csv")
    rename_over(daemon.policy, KEYED % "new.csv")
    daemon.wait_log("is in force", 2)
    (tmp_path / "old.csv").write_text("acct,pro\n")
    (tmp_path / "new.csv").write_text("acct,pro\n# and more\n")
    wait_tier(daemon, 1000)
    rename_over(daemon.policy, with_rate("77/h"))
    eventually(lambda: daemon.limit("acct") == 77, "no keys_file")
    rename_over(daemon.policy, KEYED % "old.csv")
    wait_tier(daemon, 1000)
