"""Policies that mean harm, and stores that go away in the middle: what is pushed is in force whole, or nothing has changed, and whoever pushed knows which."""
import json
import os
import signal
import socket

import pytest
from command import Command
from fleet import outside
from stores import until
from test_instances import limit, put, version, wait_limit, wait_version

HEAD = "version: 1\ndefaults: {on_store_failure: local}\n"
ONE = "  - {name: all, rate: 1/s}\n"

# What is pushed, and the place that has to be named. A file's own name stands before it.
HOSTILE = {
    "aliases": (HEAD + "limits:\n  - &a {name: a, rate: 1/s}\n  - *a\n", "5:5"),
    "merge-key": (HEAD + "limits:\n  - &a {name: a, rate: 1/s}\n  - {<<: *a, name: b}\n", "5:10"),
    "deep": (HEAD + "limits:\n" + " [\n" * 10000, "35:2"),
    "long-line": (HEAD + "# " + "x" * (1 << 20) + "\nlimits:\n" + ONE, "3:65537"),
    "nul": (HEAD + "limits:\n" + ONE + "# \0\n", "5:3"),
    "not-utf-8": ((HEAD + "limits:\n" + ONE).encode() + b"# \xc3\x28\n", "5:3"),
    "utf-16": ((HEAD + "limits:\n" + ONE).encode("utf-16"), "1:1"),
    "duplicate": (HEAD + "limits:\n" + ONE + "limits:\n" + ONE, "5:1"),
    "huge": (HEAD + "limits:\n  - {name: a, rate: 98765432198765432198765/h}\n", "4:21"),
    "many-findings": (HEAD + "limits:\n" + ONE + "".join(f"x{i}: 1\n" for i in range(100000)), "5:1"),
    "empty-lines": ("\n" * (3 << 20), "1:1"),
}


@pytest.fixture
def one(fleet, redis, policy):
    return fleet.daemon(policy(100), redis.url).wait_shared()


def names_of_the_policy(redis):
    """What there is in the store of the control plane's, without what instances say of themselves."""
    return sorted(name for name in redis.do("KEYS", "*policy*") if b"instances" not in name)


def test_hostile_policies_by_every_way(one, redis, sluice, fleet):
    """As a file that is reloaded, by the command, and by the admin listener: refused with the place, and nothing has changed."""
    before = names_of_the_policy(redis)
    for name, (text, place) in HOSTILE.items():
        data = text if isinstance(text, bytes) else text.encode()
        path = os.path.join(fleet.folder, name + ".yaml")
        with open(path, "wb") as f:
            f.write(data)
        run = sluice("policy", "push", path, status=1)
        assert f"{path}:{place}" in run.stderr and "nothing was changed" in run.stderr, (name, run.stderr[:500])
        assert len(run.stderr) < 1 << 17, name
        status, answer, _ = put(one, data, {"If-Match": "*"})
        assert status == 422 and f":{place}" in answer["detail"] and len(answer["detail"]) < 4096, (name, answer)
        os.rename(path, one.policy)
        status, _, body = outside.call(one.admin, "POST", "/v1/reload")
        assert status == 422 and f"{one.policy}:{place}" in json.loads(body)["detail"], (name, body)
        assert limit(one) == 100 and version(one) == 0
    assert names_of_the_policy(redis) == before
    assert sluice.history()["versions"] == []


KEYS = {
    "long-line": (b"ok,t\n" + b"x" * (1 << 20) + b",t\n", "2:1"),
    "nul": (b"ok,t\na\0b,t\n", "2:4"),
    "two-tiers": (b"a,t\nb,t\na,u\n", "3:1"),
    "no-tiers": (b"ok,t\n" + b"no-tier\n" * 100000, "2:8"),
}


@pytest.mark.parametrize("name", KEYS)
def test_hostile_keys_files(one, sluice, fleet, name):
    data, place = KEYS[name]
    path = fleet.policy(HEAD + "tiers: {default: t, keys_file: keys.csv}\nlimits:\n  - {name: all, tier: t, rate: 1/s}\n")
    with open(os.path.join(fleet.folder, "keys.csv"), "wb") as f:
        f.write(data)
    run = sluice("policy", "push", path, status=1)
    assert f"keys.csv:{place}" in run.stderr and "nothing was changed" in run.stderr
    with open(path) as f:
        text = f.read()
    body = json.dumps({"policy": text, "keys": data.decode("latin-1")})
    status, answer, _ = put(one, body, {"If-Match": "*", "Content-Type": "application/json"})
    assert status in (400, 422) and answer["detail"]
    assert limit(one) == 100 and sluice.history()["versions"] == []


def test_a_body_that_is_too_long_or_too_slow(fleet, redis, sluice, policy):
    """413 before it has all come; 408 when it does not come. Others are answered meanwhile."""
    one = fleet.daemon(policy(100), redis.url, "--request-timeout", "500ms").wait_shared()
    host, port = one.admin.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as slow:
        slow.sendall(b"PUT /v1/policy HTTP/1.1\r\nHost: x\r\nIf-Match: *\r\nContent-Length: 1000\r\n\r\nversion: 1\n")
        assert put(one, b"x" * ((4 << 20) + 1), {"If-Match": "*"})[0] == 413
        assert put(one, None, {}, "/v1/policy/history", "GET")[0] == 200
        assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection((host, int(port)), timeout=20) as gone:  # half a body, and no more
        gone.sendall(b"PUT /v1/policy HTTP/1.1\r\nHost: x\r\nIf-Match: *\r\nContent-Length: 47\r\n\r\nversion: 1\nlimits: [{name: a")
    assert limit(one) == 100 and sluice.history()["versions"] == []


def test_a_push_while_half_of_the_instances_are_cut_off(fleet, redis, sluice, policy):
    """It succeeds; those cut off keep what they have, are missing in the history, and catch up."""
    proxy = fleet.proxy(redis.port)
    near = [fleet.daemon(policy(100), redis.url) for _ in range(2)]
    far = [fleet.daemon(policy(100), proxy.url) for _ in range(2)]
    for daemon in near + far:
        daemon.wait_shared()
    sluice("policy", "push", policy(200))
    wait_limit(near + far, 200)
    proxy.set("drop")
    assert sluice.push(policy(300)) == 2
    wait_version(near, 2)
    assert [limit(d) for d in far] == [200, 200] and [version(d) for d in far] == [1, 1]
    for daemon in far:
        assert daemon.ask(daemon.http, "GET", "/readyz")[0] == 200
    until(lambda: [i["version"] for i in sluice.history()["instances"]] == [2, 2], "those that are silent are not told of")
    assert put(far[0], "version: 1\nlimits:\n" + ONE, {"If-Match": "*"})[0] == 503
    proxy.set("pass")
    wait_version(near + far, 2)
    until(lambda: [i["version"] for i in sluice.history()["instances"]] == [2] * 4, "all are told of again")


def test_a_push_into_silence_says_so_and_leaves_nothing_half_written(fleet, redis, sluice, policy):
    """Nobody answers, or the connection is reset after a part of the answers, at every place: status 3, or the push is whole."""
    proxy = fleet.proxy(redis.port)
    through = Command(proxy.url)
    extra = "".join(f"  - {{name: l{i}, key: k{i}, rate: {i + 1}/m}}\n" for i in range(3000))
    path = fleet.policy(HEAD + "limits:\n" + ONE + extra)
    proxy.set("drop")
    run = through("policy", "push", path, "--timeout", "300ms", status=3)
    assert run.stderr and sluice.history()["versions"] == []
    proxy.set("mute")  # what is asked arrives; whether it was done is not known
    run = through("policy", "push", path, "--timeout", "300ms", status=3)
    assert run.stderr
    versions = sluice.history()["versions"]
    assert len(versions) <= 1
    proxy.set("pass")
    for n, reply_bytes in enumerate((1, 40, 200, 1000, 4000)):
        path = fleet.policy(HEAD + "limits:\n" + ONE + extra + f"  - {{name: last, key: last, rate: {n + 1}/m}}\n")
        before = sluice.history()["versions"]
        with open(path) as f:
            text = f.read()
        one = fleet.proxy(redis.port)
        one.set(f"cut {reply_bytes}")
        run = Command(one.url)("policy", "push", path, "--timeout", "2s", status=None)
        assert run.returncode in (0, 3), (reply_bytes, run.stdout, run.stderr)
        after = sluice.history()["versions"]
        assert len(after) - len(before) in ((1,) if run.returncode == 0 else (0, 1))
        if len(after) > len(before):
            assert sluice("policy", "show", "@current", "--text", "policy").stdout == text
        else:
            assert after == before


def test_a_store_that_stands_still(fleet, redis, sluice, policy):
    """A push into a store that was stopped fails; when the store goes on, it has the push whole or not at all, and instances run what is current."""
    one = fleet.daemon(policy(100), redis.url).wait_shared()
    redis.process.send_signal(signal.SIGSTOP)
    try:
        assert sluice("policy", "push", policy(200), "--timeout", "300ms", status=3).stderr
        assert limit(one) == 100
    finally:
        redis.process.send_signal(signal.SIGCONT)
    versions = sluice.history()["versions"]
    assert len(versions) <= 1
    sluice("policy", "push", policy(300))
    wait_limit([one], 300)
    assert [v["version"] for v in sluice.history()["versions"]] == list(range(len(versions) + 1, 0, -1))
