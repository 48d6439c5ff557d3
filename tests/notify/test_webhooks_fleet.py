"""Instances that share a store tell of a bucket once, all together; and what they do when the store does not say."""
import json
import threading

from fleet import until, wait_count
from test_webhooks import described, spend, told, wait_told

SHARED = """\
version: 1
defaults: {on_store_failure: local, coordination: shared}
limits: [{name: thousand, rate: 10000/d, warn_at: 10%}]
"""


def two(start, redis, *receivers, policy=SHARED):
    members = [start(policy, *receivers, store=redis.url, flags=["--instances", "2", "--timeout", "2s"], wait=False) for _ in range(2)]
    for one in members:
        one.wait_ready().wait_shared()
    wait_count(members, 2)
    return members


def spend_together(members, n, key):
    """n requests on each of them at once."""
    body = json.dumps([{"key": key}] * 100)

    def run(one):
        for _ in range(n // 100):
            assert one.ask(one.http, "POST", "/check", body)[0] == 200

    threads = [threading.Thread(target=run, args=(one,)) for one in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait_settled(members, n):
    """Until n buckets have been told of or found told of."""
    until(lambda: sum(told(one, "delivered") + told(one, "deduplicated") for one in members) == n,
          lambda: f"{n} are settled: {[(told(one, 'delivered'), told(one, 'deduplicated')) for one in members]}")


def warned_keys(redis):
    return [key for key in redis.keys() if key.endswith(b":warned")]


def test_two_instances_tell_once(start, fleet, receive):
    receiver = receive()
    redis = fleet.redis()
    members = two(start, redis, receiver)
    for i, key in enumerate(("acct_8812", "acct_8813"), 1):
        spend_together(members, 1000, key)
        wait_settled(members, 2 * i)
        assert [d.body["bucket"]["key"] for d in receiver.deliveries][i - 1:] == [key]
    assert sum(told(one, "deduplicated") for one in members) == 2
    assert len({d.body["instance"] for d in receiver.deliveries} | {d.body["instance"].rsplit("/", 1)[1] for d in receiver.deliveries}) >= 2
    keys = warned_keys(redis)
    assert len(keys) == 2 and not any(b"acct" in key for key in keys)
    for key in keys:
        assert 86400_000 - 60_000 < redis.do("PTTL", key) <= 86400_000


def test_whoever_lost_may_tell_when_the_window_ends(start, fleet, receive):
    """The store's time counts, not when somebody happened to ask."""
    receiver = receive()
    redis = fleet.redis()
    members = two(start, redis, receiver)
    spend(members[0], 1, cost=1000)
    receiver.wait(1)
    (key,) = warned_keys(redis)
    redis.do("PEXPIRE", key, 1500)
    spend(members[1], 1)
    wait_told(members[1], 1, "deduplicated")
    until(lambda: not warned_keys(redis), "the window has ended")
    until(lambda: spend(members[1], 1) and len(receiver.deliveries) == 2, "it tells")
    spend(members[0], 3)  # it told itself, and remembers
    assert len(receiver.deliveries) == 2


def test_without_the_store_each_tells_for_itself(start, fleet, receive):
    """Rather twice than never."""
    receiver = receive()
    redis = fleet.redis()
    members = two(start, redis, receiver, policy=SHARED.replace("10000/d", "100/d"))
    redis.kill()
    for one in members:
        until(lambda: one.source() == "degraded", "the store is lost")
        for _ in range(2):
            spend(one, 5)
    assert {d.body["source"] for d in receiver.wait(2, "limit_warning")} == {"degraded"}
    for one in members:
        wait_told(one, 1)
    assert len(receiver.of("limit_warning")) == 2


def test_an_alarm_is_told_of_when_it_begins_and_ends(start, fleet, receive):
    receiver = receive()
    redis = fleet.redis()
    daemon = start(SHARED, receiver, store=redis.url).wait_shared()
    redis.kill()
    begun = next(d.body for d in receiver.wait(1, "alarm") if d.body["event"] == "alarm")
    assert described("AlarmNews") == (set(begun), set(begun))
    assert begun["alarm"] == "store_unavailable" or begun["alarm"] == "breaker_open"
    assert begun["state"] == "raised" and begun["since"] == begun["time"]
    assert begun["runbook"] == f"docs/runbook.md#{begun['alarm']}" and begun["sentence"]
    redis.start()
    until(lambda: any(d.body["state"] == "ended" and d.body["alarm"] == begun["alarm"] for d in receiver.of("alarm")), "it is over")
    over = next(d.body for d in receiver.of("alarm") if d.body["state"] == "ended" and d.body["alarm"] == begun["alarm"])
    assert abs(int(over["since"][17:19]) - int(begun["since"][17:19])) in (0, 1, 59) and over["time"] > over["since"]
    assert told(daemon, "delivered", "alarm") >= 2


STORED = """\
version: 1
tiers: {default: free, keys_store: true}
defaults: {on_store_failure: local}
limits:
  - {name: free, tier: free, rate: 1000/h, warn_at: 90%}
  - {name: gold, tier: gold, rate: 100/h, warn_at: 50%}
"""


def test_a_key_whose_tier_the_store_says(start, fleet, receive):
    receiver = receive()
    redis = fleet.redis()
    redis.do("HSET", "sluice:{keys}", "acme", "gold")
    one = start(STORED, receiver, store=redis.url)
    until(lambda: one.verdict("acme", cost=0)["policy"] == "gold", "its tier is known")
    assert one.verdict("acme", cost=60)["warning"]
    receiver.wait(1)
    assert receiver.deliveries[0].body["policy"] == "gold"
    assert receiver.deliveries[0].body["bucket"]["key"] == "acme"
