"""What webhooks are told, from outside: payload and signature, retries, receivers that misbehave, and that no decision waits for one."""
import os
import re
import subprocess
import time

import yaml
from conftest import DIRECT
from fleet import TOP, make_certificate, outside, until
from receiver import SECRET

TEN = "version: 1\nlimits: [{name: ten, rate: 10/h, warn_at: 80%}]\n"


def described(name):
    """(required, all) members of a body, as docs/openapi.yaml has them."""
    with open(os.path.join(TOP, "docs/openapi.yaml"), encoding="utf-8") as f:
        schema = yaml.safe_load(f)["components"]["schemas"][name]
    return set(schema["required"]), set(schema["properties"])


def spend(daemon, n, key="k", **more):
    return [daemon.verdict(key, **more) for _ in range(n)]


def told(daemon, result, event="limit_warning"):
    return daemon.sum("sluice_notifications_total", event=event, result=result)


def wait_told(daemon, n, result="delivered", event="limit_warning"):
    until(lambda: told(daemon, result, event) == n, lambda: f"{n} are {result}, not {told(daemon, result, event)}: {daemon.log}")


def test_a_bucket_past_its_mark_is_told_of_once(start, receive):
    receiver = receive()
    daemon = start(TEN, receiver)
    began = time.time()
    verdicts = spend(daemon, 9, "acct_8812")
    assert [v["warning"] for v in verdicts] == [False] * 7 + [True] * 2
    (first,) = receiver.wait(1)
    body = first.body
    assert described("LimitWarning") == (set(body), set(body))
    assert re.fullmatch(r"ntf_[0-9a-f]{32}", body["id"])
    assert body["event"] == "limit_warning"
    assert body["policy"] == "ten" and body["bucket"] == {"key": "acct_8812", "keyType": "api_key"}
    assert (body["limit"], body["remaining"], body["usedPercent"], body["warnAtPercent"]) == (10, 2, 80, 80)
    assert body["periodMs"] == 3600000 and body["source"] == "local" and body["resetAt"] == verdicts[7]["resetAt"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["time"])
    assert body["instance"].endswith(f"/{daemon.process.pid}")
    assert first.headers["sluice-event"] == "limit_warning" and first.headers["sluice-delivery"] == body["id"]
    assert first.headers["content-type"] == "application/json"
    assert first.signed_at is not None and began - 2 <= first.signed_at <= time.time() + 2
    spend(daemon, 5, "acct_8812")  # rejections warn too, and are not told of again
    spend(daemon, 8, "another")
    second = receiver.wait(2)[1]
    assert second.body["bucket"]["key"] == "another" and second.body["id"] != body["id"]
    wait_told(daemon, 2)
    assert len(receiver.deliveries) == 2 and told(daemon, "deduplicated") == 0
    until(lambda: daemon.sum("sluice_notifications_queued") == 0, "nothing is under way")


def test_one_that_takes_every_other_notification_fills_no_log(start, receive):
    """It fails and recovers twenty times within a moment: that is told of once."""
    receiver = receive(*[404, 204] * 20)
    daemon = start(TEN, receiver)
    for i in range(40):
        spend(daemon, 1, f"k{i}", cost=9)
    receiver.wait(40)
    wait_told(daemon, 20)
    wait_told(daemon, 20, "failed")
    assert daemon.log.count("takes no notifications: it answered with status 404") == 1
    assert daemon.log.count("takes notifications again") == 1


def test_buckets_of_one_limit_are_told_apart(start, receive):
    receiver = receive()
    daemon = start("""\
version: 1
endpoints: {read: {match: ["GET /*"]}, write: {match: ["PUT /*"]}}
limits:
  - {name: per-endpoint, per: [key, endpoint], rates: [1000/s, 10/d], warn_at: 50%}
  - {name: everybody, layer: all, per: [], rate: 100/d, warn_at: 12%}
""", receiver)
    spend(daemon, 5, scope="GET /x")
    spend(daemon, 5, scope="PUT /x")
    spend(daemon, 2, "other")  # of whom only the limit of everybody is past its mark
    receiver.wait(3)
    bodies = {(d.body["policy"], d.body["bucket"].get("endpoint")): d.body for d in receiver.deliveries}
    assert set(bodies) == {("per-endpoint", "read"), ("per-endpoint", "write"), ("everybody", None)}
    assert len(receiver.deliveries) == 3
    assert bodies["per-endpoint", "read"]["periodMs"] == 86400000 and bodies["per-endpoint", "read"]["limit"] == 10
    assert bodies["everybody", None]["bucket"] == {}


def test_what_fails_for_now_is_tried_again(start, receive):
    """No answer, 408, 429 and 5xx; the same delivery each time, signed anew. Each receiver has its own tries."""
    receivers = [receive(answer, 204) for answer in ("close", 408, (429, {"Retry-After": "1"}), 500, 503)]
    dead = receive()
    dead.close()  # nobody listens there
    daemon = start(TEN, *receivers, dead)
    spend(daemon, 8)
    for receiver in receivers:
        first, second = receiver.wait(2)
        assert first.raw == second.raw and first.headers["sluice-delivery"] == second.headers["sluice-delivery"]
        assert first.signed_at is not None and second.signed_at > first.signed_at  # a second passed at least
    wait_told(daemon, 5)
    assert told(daemon, "retried") >= 6 and told(daemon, "failed") == 0
    assert daemon.sum("sluice_notifications_queued") == 1
    assert f"webhook http://127.0.0.1:{dead.port} takes no notifications: " in daemon.log
    daemon.wait_log(f"webhook http://127.0.0.1:{receivers[4].port} takes no notifications: it answered with status 503")
    daemon.wait_log(f"webhook http://127.0.0.1:{receivers[4].port} takes notifications again")
    assert "for=ops" not in daemon.log and SECRET not in daemon.log


def test_what_will_not_become_better_is_given_up(start, receive):
    elsewhere = receive()
    receivers = [receive(404), receive((307, {"Location": elsewhere.url})), receive(401)]
    daemon = start(TEN, *receivers)
    spend(daemon, 8)
    wait_told(daemon, 3, "failed")
    assert [len(r.deliveries) for r in receivers] == [1, 1, 1] and not elsewhere.deliveries
    daemon.wait_log(f"webhook http://127.0.0.1:{receivers[1].port}: 1 notifications were given up, the last because it answered with status 307")
    assert told(daemon, "retried") == 0


def test_no_decision_waits_for_a_receiver(start, receive):
    """It holds its connection for as long as it likes; meanwhile every decision is answered."""
    receiver = receive("hang", 204)
    daemon = start(TEN, receiver)
    spend(daemon, 8)
    receiver.wait(1)
    for i in range(200):
        assert [v["allowed"] for v in spend(daemon, 10, f"k{i}")] == [True] * 10  # the last three with a warning
    assert told(daemon, "delivered") < 200 + 1
    receiver.release()
    wait_told(daemon, 201)
    assert len({d.body["id"] for d in receiver.deliveries}) == 201


def test_more_than_there_is_room_for_is_dropped_and_counted(start, receive):
    receiver = receive("hang")
    daemon = start(TEN, receiver)
    for i in range(300):
        assert all(v["allowed"] for v in spend(daemon, 1, f"k{i}", cost=8))
    until(lambda: daemon.sum("sluice_notifications_queued") == 224 and told(daemon, "dropped") == 300 - 224,
          lambda: f"all were looked at: {daemon.sum('sluice_notifications_queued')} wait, {told(daemon, 'dropped')} were dropped")
    receiver.wait(4)  # under way at once
    assert len(receiver.deliveries) == 4
    receiver.release()
    wait_told(daemon, 224)


def test_certificates_are_checked(start, receive, tmp_path):
    authority = make_certificate(tmp_path, "authority", ca=True)
    good = receive(certificate=make_certificate(tmp_path, "good", authority))
    bad = receive(certificate=make_certificate(tmp_path, "bad"))
    daemon = start(TEN, good, bad, flags=["--webhook-ca", authority[0]])
    spend(daemon, 8)
    assert good.wait(1)[0].signed_at is not None
    line = daemon.wait_log(f"webhook https://127.0.0.1:{bad.port} takes no notifications: (.*)").group(1)
    assert "certificate" in line and not bad.deliveries
    untrusting = start(TEN, good)
    spend(untrusting, 8)
    untrusting.wait_log(f"webhook https://127.0.0.1:{good.port} takes no notifications: .*certificate")
    assert len(good.deliveries) == 1


def test_the_end_delivers_what_it_can(start, receive):
    receiver = receive()
    daemon = start(TEN, receiver)
    spend(daemon, 8)
    assert daemon.stop() == 0
    assert len(receiver.deliveries) == 1 and "not delivered" not in daemon.log


def test_the_end_does_not_wait_for_ever(start, receive):
    receiver = receive("hang")
    daemon = start(TEN, receiver)
    for i in range(6):
        spend(daemon, 1, f"k{i}", cost=9)
    receiver.wait(4)
    assert daemon.stop() == 0
    daemon.wait_log("6 notifications were not delivered before the end")


def test_only_what_was_asked_for_is_told(start, receive):
    warnings, alarms = receive(), receive()
    daemon = start(TEN, alarms, flags=["--webhook-events", "alarms"])
    other = start(TEN, warnings, flags=["--webhook-events=warnings"])
    for one in (daemon, other):
        spend(one, 8)
    warnings.wait(1)
    assert told(daemon, "delivered") == 0 and not alarms.deliveries


def test_wrong_settings_are_told_of_without_their_secrets(fleet):
    def refused(*flags):
        one = fleet.daemon(TEN, "memory:", *flags, env=DIRECT, wait=False)
        assert one.wait() == 2
        return one.log

    secret = ("--webhook-secret", SECRET)
    for url in ("hooks.example.com/hush", "ftp://h/hush", "http://", "file:///etc/hush", "https://h:70000/hush", "http://h/#hush"):
        log = refused("--webhook", url, *secret)
        assert "--webhook" in log and "http://" in log or "#" in log, (url, log)
        assert "hush" not in log
    assert "--webhook needs --webhook-secret" in refused("--webhook", "https://h/x")
    assert "16 to 512 bytes" in refused("--webhook", "https://h/x", "--webhook-secret", "hush")
    assert "cannot be read" in refused("--webhook", "https://h/x", *secret, "--webhook-ca", "/nowhere")
    assert "more than 16 times" in refused(*["--webhook", "https://h/x"] * 17, *secret)


def test_the_command_line_tries_a_webhook(receive, secret_file):
    def sluice(*args, status):
        run = subprocess.run([outside.SLUICE, "webhook", "test", *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                             env=outside.clean_environment(**DIRECT))
        assert run.returncode == status, run
        return run.stdout + run.stderr

    receiver = receive(204, 403, "close")
    secret = ("--webhook-secret", secret_file)
    said = sluice(receiver.url, *secret, status=0)
    (delivery,) = receiver.deliveries
    assert f"127.0.0.1:{receiver.port} took {delivery.body['id']} with status 204" in said
    assert described("TestNotification") == (set(delivery.body), set(delivery.body))
    assert delivery.body["event"] == delivery.headers["sluice-event"] == "test"
    assert delivery.signed_at is not None and delivery.headers["sluice-delivery"] == delivery.body["id"]
    assert "answered with status 403" in sluice(receiver.url, *secret, status=1)
    assert '"taken":false,"status":0' in sluice(receiver.url, *secret, "--json", status=3).replace(" ", "").replace("\n", "")
    assert "no answer from http://127.0.0.1" in sluice(receiver.url, *secret, status=3)
    assert "begins with http://" in sluice("h/hush", *secret, status=2)
    assert "--webhook-secret is missing" in sluice(receiver.url, status=2)
    assert len(receiver.deliveries) == 4
