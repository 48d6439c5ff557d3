"""Whatever becomes of the policy's file, under a load whose every answer is known: the whole new policy or the whole old one, and not one answer that neither
explains. Buckets keep their state throughout."""
import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
import threading

import pytest
from conftest import SLUICED, Daemon, call, clean_environment, eventually
from steady import Steady, policy

REFUSED = "the policy was not taken; the one in force stays"


def rename_over(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def in_place(path, text):
    with open(path, "w") as f:
        f.write(text)


def failures(daemon):
    return daemon.metric('sluice_policy_reloads_total{result="failed"}')


def wait_refused(daemon, before):
    """A change was noticed and refused, and every place where one would look says so."""
    eventually(lambda: failures(daemon) > before, "the refusal is counted")
    assert daemon.metric("sluice_policy_last_reload_failed") == 1
    daemon.wait_log(REFUSED)
    status, _, body = call(daemon.http, "GET", "/readyz")
    assert status == 200 and b"refused" in body


def hash_of(daemon):
    return json.loads(call(daemon.admin, "GET", "/v1/policy")[2])["hash"]


@pytest.mark.parametrize("replace", [in_place, rename_over])
def test_replaced_under_load(start, replace):
    daemon = start(policy(0))
    with Steady(daemon) as load:
        for version in range(1, 4):
            replace(daemon.policy, policy(version))
            load.wait_version(version)
    assert load.versions == [0, 1, 2, 3]


def test_written_in_pieces_with_a_long_wait_between(start):
    """The file stands half-written for so long that it is looked at: that is a policy that is not valid, and nothing of it is taken."""
    daemon = start(policy(0))
    text = policy(1)
    with Steady(daemon) as load, open(daemon.policy, "w") as f:
        f.write(text[:len(text) - 20])
        f.flush()
        wait_refused(daemon, 0)
        load.more()
        f.write(text[len(text) - 20:])
        f.flush()
        load.wait_version(1)
    assert load.versions == [0, 1]
    assert daemon.metric("sluice_policy_last_reload_failed") == 0
    assert call(daemon.http, "GET", "/readyz")[2] == b"ready\n"


def test_written_byte_by_byte_is_read_once_it_is_whole(start):
    """Never still for as long as it takes to be looked at, so no half of it is read."""
    daemon = start(policy(0))
    with Steady(daemon) as load, open(daemon.policy, "w") as f:
        for byte in policy(1):
            f.write(byte)
            f.flush()
        load.wait_version(1)
    assert load.versions == [0, 1]


@pytest.mark.parametrize("cut", [lambda path: in_place(path, ""), lambda path: os.truncate(path, 100), os.unlink],
                         ids=["empty", "truncated", "vanished"])
def test_gone_and_come_back(start, cut):
    daemon = start(policy(0))
    before = hash_of(daemon)
    with Steady(daemon) as load:
        cut(daemon.policy)
        wait_refused(daemon, 0)
        assert re.search(r"level=error .*" + re.escape(daemon.policy), daemon.log)
        assert hash_of(daemon) == before
        load.more()
        in_place(daemon.policy, policy(0))  # as it was: no reload, and the failure is over
        eventually(lambda: daemon.metric("sluice_policy_last_reload_failed") == 0, "the refusal is over")
        rename_over(daemon.policy, policy(1))
        load.wait_version(1)
    assert load.versions == [0, 1]


def test_b91_b94_a_configmap_and_its_keys_file_swap_as_one(start, tmp_path):
    """Kubernetes puts a new folder in place by one rename and removes the old one: policy and keys_file are of the same folder, always. The same file stands
    there three times, as itself, through ..data and in its dated folder: it is one policy."""
    mount = tmp_path / "mount"
    mount.mkdir()
    tiers = ("tiers: {keys_file: keys.csv}\n")

    def publish(version):
        folder = mount / f"..2026_11_30_{version}"
        folder.mkdir()
        (folder / "policy.yaml").write_text(policy(version, f"  - {{name: tier-{version}, layer: tier, tier: t{version}, rate: {version + 7}/d}}\n") + tiers)
        (folder / "keys.csv").write_text(f"member,t{version}\n")
        (mount / "..data_tmp").symlink_to(folder.name)
        os.rename(mount / "..data_tmp", mount / "..data")

    publish(0)
    for name in ("policy.yaml", "keys.csv"):
        (mount / name).symlink_to("..data/" + name)
    daemon = start(str(mount / "policy.yaml"))
    with Steady(daemon) as load:
        for version in range(1, 4):
            publish(version)
            shutil.rmtree(mount / f"..2026_11_30_{version - 1}")
            load.wait_version(version)
            assert daemon.check("member")[1]["policy"] == f"tier-{version}"
    assert load.versions == [0, 1, 2, 3]
    assert failures(daemon) == 0 and "level=error" not in daemon.log


def test_no_policy_meets_the_keys_file_of_another(start, tmp_path):
    """Folder after folder is put in place while the daemon reads: a key's tier is always one that the policy in force knows."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def publish(version):
        folder = mount / f"..{version}"
        folder.mkdir()
        (folder / "policy.yaml").write_text("version: 1\ndefaults: {on_store_failure: local}\ntiers: {keys_file: keys.csv}\nlimits:\n"
                                            f"  - {{name: tier-{version}, tier: t{version}, rate: 1000/s}}\n")
        (folder / "keys.csv").write_text("".join(f"other{i},t{version}\n" for i in range(20000)) + f"member,t{version}\n")
        (mount / "..data_tmp").symlink_to(folder.name)
        os.rename(mount / "..data_tmp", mount / "..data")
        if version:
            shutil.rmtree(mount / f"..{version - 1}")

    publish(0)
    for name in ("policy.yaml", "keys.csv"):
        (mount / name).symlink_to("..data/" + name)
    daemon = start(str(mount / "policy.yaml"))
    found, stopping = [], threading.Event()

    def ask():
        while not stopping.is_set():
            found.append(daemon.check("member")[1]["policy"])

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for version in range(1, 61):
            publish(version)
            daemon.signal(signal.SIGHUP)
        eventually(lambda: daemon.check("member")[1]["policy"] == "tier-60", "the last version in force")
    finally:
        stopping.set()
        thread.join()
    assert all(name.startswith("tier-") for name in found), sorted(set(found))


def test_the_folder_is_replaced(start, tmp_path):
    """As deployments do it that rename a whole folder: what was watched is elsewhere now, and the path counts."""
    here, aside, coming = tmp_path / "etc", tmp_path / "etc.old", tmp_path / "etc.new"
    here.mkdir()
    (here / "policy.yaml").write_text(policy(0))
    daemon = start(str(here / "policy.yaml"))
    with Steady(daemon) as load:
        coming.mkdir()
        (coming / "policy.yaml").write_text(policy(1))
        os.rename(here, aside)
        os.rename(coming, here)
        load.wait_version(1)
        rename_over(str(aside / "policy.yaml"), policy(9))  # nobody's any more
        rename_over(str(here / "policy.yaml"), policy(2))
        load.wait_version(2)
    assert load.versions == [0, 1, 2]


@pytest.fixture
def unprivileged():
    """Starts a daemon as somebody who is not root, on a folder of its own that everybody may enter: unprivileged(text) -> Daemon."""
    if os.geteuid() != 0:
        pytest.skip("only root can start it as somebody else")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-"))
        os.chmod(folder, 0o755)

        def run(text, *flags):
            path = os.path.join(folder, "policy.yaml")
            in_place(path, text)
            os.chmod(path, 0o644)
            argv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--", SLUICED, "--policy", path, "--listen", "127.0.0.1:0",
                    "--admin", "127.0.0.1:0", *flags]
            daemon = Daemon(argv, clean_environment())
            daemon.policy = path
            stack.callback(daemon.cut)
            return daemon.wait_ready()

        yield run


def test_permission_lost_and_back(unprivileged):
    daemon = unprivileged(policy(0))
    with Steady(daemon) as load:
        os.chmod(daemon.policy, 0)
        wait_refused(daemon, 0)
        assert "Permission denied" in daemon.log
        rename_over(daemon.policy, policy(1))
        os.chmod(daemon.policy, 0o600)
        daemon.signal(signal.SIGHUP)
        load.more()
        os.chmod(daemon.policy, 0o644)
        load.wait_version(1)
    assert load.versions[0] == 0 and load.versions[-1] == 1
    assert daemon.metric("sluice_policy_last_reload_failed") == 0


def test_the_folder_may_not_be_entered(unprivileged):
    daemon = unprivileged(policy(0))
    folder = os.path.dirname(daemon.policy)
    with Steady(daemon) as load:
        os.chmod(folder, 0)
        wait_refused(daemon, 0)
        load.more()
        os.chmod(folder, 0o755)
        eventually(lambda: daemon.metric("sluice_policy_last_reload_failed") == 0, "the refusal is over")
    assert load.versions == [0]


def put_a_fifo(path):
    os.mkfifo(path)


def put_a_device(path):
    os.symlink("/dev/zero", path)


def put_a_loop(path):
    os.symlink(os.path.basename(path), path)


def put_too_much(path):
    """Over 64 MiB, on a file system that does not store the zeros."""
    with open(path, "wb") as f:
        f.truncate((64 << 20) + 1)


@pytest.mark.parametrize("put, why", [(put_a_fifo, "not a regular file"), (os.mkdir, "not a regular file"), (put_a_device, "not a regular file"),
                                      (put_a_loop, "symbolic links"), (put_too_much, "too large")],
                         ids=["fifo", "folder", "device", "loop", "too-large"])
def test_what_is_no_policy_is_refused_and_not_waited_for(start, tmp_path, put, why):
    """In the place of the policy, and behind a link in its place."""
    daemon = start(policy(0))
    other = str(tmp_path / "other")
    put(other)
    with Steady(daemon) as load:
        os.symlink(other, daemon.policy + ".new")
        os.rename(daemon.policy + ".new", daemon.policy)
        wait_refused(daemon, 0)
        assert re.search(r"level=error .*" + why, daemon.log)
        rename_over(daemon.policy, policy(1))
        load.wait_version(1)
        if not os.path.isdir(other):
            before = failures(daemon)
            os.rename(other, daemon.policy)
            wait_refused(daemon, before)
        load.more()
    assert load.versions == [0, 1]


def test_a_flood_of_hangups(start):
    """Each means: read it now. Most find what is in force; all are answered by a policy that is whole."""
    daemon = start(policy(0))
    with Steady(daemon) as load:
        for version in range(1, 41):
            rename_over(daemon.policy, policy(version))
            for _ in range(10):
                daemon.signal(signal.SIGHUP)
        load.wait_version(40)
    assert load.versions == sorted(set(load.versions))
    assert failures(daemon) == 0


def test_reloads_that_race(start):
    """Four who ask at once, while two policies take turns: every answer names one of the two, and the last one stays."""
    daemon = start(policy(0), "--workers", "2")
    answers = []

    def ask():
        for _ in range(15):
            answers.append(call(daemon.admin, "POST", "/v1/reload"))

    with Steady(daemon) as load:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        hashes = {hash_of(daemon)}
        for version in range(1, 21):
            rename_over(daemon.policy, policy(version % 2))
            daemon.signal(signal.SIGHUP)
        rename_over(daemon.policy, policy(7))
        for thread in threads:
            thread.join()
        daemon.signal(signal.SIGHUP)
        load.wait_version(7)
    assert set(load.versions) <= {0, 1, 7}
    assert {status for status, _, _ in answers} == {200}
    hashes |= {json.loads(body)["hash"] for _, _, body in answers}
    assert len(hashes) <= 3


def test_many_reloads_keep_memory_where_it_was(start):
    """What a policy took is given back when the next one is in force, whichever thread it was that freed it."""
    with open(SLUICED, "rb") as f:
        if re.search(rb"__[at]san_init", f.read()):
            pytest.skip("a sanitizer keeps what was freed")
    daemon = start(policy(0))
    extra = ["".join(f"  - {{name: l{i}, key: k{i}, rate: {i + half + 1}/m}}\n" for i in range(1000)) for half in range(2)]

    def resident_kb():
        with open(f"/proc/{daemon.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def reload(n):
        for version in range(n):
            rename_over(daemon.policy, policy(version, extra[version % 2]))
            assert call(daemon.admin, "POST", "/v1/reload")[0] == 200

    reload(10)
    before = resident_kb()
    reload(60)
    assert resident_kb() < before + 16 * 1024


@pytest.mark.parametrize("broken, why", [("version: 1\nlimits:\n  - {name: all, rate: 0/s}\n", "policy.yaml:3:"), ("", "empty"), (None, "No such file")],
                         ids=["invalid", "empty", "missing"])
def test_the_last_good_policy_survives_a_restart_and_says_so(start, tmp_path, sluice, broken, why):
    state = str(tmp_path / "state")
    first = start(policy(0), "--state", state)
    in_force = hash_of(first)
    assert first.stop() == 0
    os.unlink(first.policy) if broken is None else in_place(first.policy, broken)
    second = start(first.policy, "--state", state)
    assert re.search(r"level=error .*" + re.escape(why), second.log)
    assert re.search(r"level=error .*started on the last good policy", second.log)
    assert second.metric("sluice_policy_last_reload_failed") == 1 and failures(second) == 1
    assert hash_of(second) == in_force
    assert call(second.http, "GET", "/readyz")[2].startswith(b"ready, on the last good policy")
    shown = sluice("policy", "show", "--admin", "http://" + second.admin)
    assert shown.returncode == 0 and in_force in shown.stdout and "refused" in shown.stdout
    assert why in shown.stdout and "the copy in --state" in shown.stdout and "version  none" in shown.stdout
    with Steady(second) as load:
        in_place(first.policy, policy(1))
        load.wait_version(1)
    shown = sluice("policy", "show", "--admin", "http://" + second.admin)
    assert shown.returncode == 0 and hash_of(second) in shown.stdout and "refused" not in shown.stdout and "--state" not in shown.stdout
    assert json.loads(call(second.admin, "GET", "/v1/policy")[2])["refused"] is None


def test_the_policy_in_force_is_told_everywhere(start, sluice, policy_file):
    """Number and hash: the metrics, the admin API, the command line."""
    daemon = start(policy(0))
    for number in (1, 2):
        answer = json.loads(call(daemon.admin, "GET", "/v1/policy")[2])
        assert answer["version"] == number and answer["source"] == "file" and answer["lastReloadFailed"] is False
        assert daemon.metric("sluice_policy_version") == number
        assert daemon.metric(f'sluice_policy_info{{hash="{answer["hash"]}",source="file"}}') == 1
        shown = json.loads(sluice("policy", "show", "--json", "--admin", "http://" + daemon.admin).stdout)
        assert (shown["version"], shown["hash"]) == (number, answer["hash"])
        assert answer["hash"] == json.loads(sluice("policy", "check", "--json", daemon.policy).stdout)[0]["hash"]
        policy_file(policy(1))
        assert call(daemon.admin, "POST", "/v1/reload")[0] == 200
