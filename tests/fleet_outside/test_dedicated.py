"""A very large customer's buckets are on a store of their own, and only there; one store's failure is not the other's."""
from fleet import PATIENT, until

POLICY = """\
version: 1
defaults: {{coordination: shared}}
endpoints: {{api: {{match: [api]}}, leased: {{match: [leased]}}, split: {{match: [split]}}, common: {{match: [common]}}}}
limits:
  - {{name: budget, rate: 100/h, on_store_failure: closed}}
  - {{name: api, endpoint: api, rate: 50/h, on_store_failure: open}}
  - {{name: leased, endpoint: leased, rate: 1000/h, coordination: leased, lease: {{block: 5, ttl: 1s}}, on_store_failure: closed}}
  - {{name: split, endpoint: split, rate: 1000/h, coordination: split, split: 4, on_store_failure: closed}}
  - {{name: all, layer: all, endpoint: common, per: [], rate: 10000/h, on_store_failure: closed}}
dedicated:
  - {{keys: [whale, orca], store: "{store}"}}
"""


def buckets(redis):
    return {k for k in redis.keys() if b"{fleet}" not in k}


def start(fleet, *flags):
    main, own = fleet.redis(module=True), fleet.redis()
    members = fleet.fleet(2, POLICY.format(store=own.url), main.url, *flags)
    until(lambda: members[0].source("whale") == "shared" and members[1].source("whale") == "shared", "the dedicated store answers")
    return main, own, members


def test_a_whales_buckets_are_on_its_store_alone(fleet, say):
    main, own, (one, other) = start(fleet, *PATIENT)
    one.verdict("minnow", scope="common")
    before = buckets(main)
    assert len(before) == 2 and not buckets(own), "the key's own and the one for all"
    assert one.verdict("whale", cost=30)["remaining"] == 70
    assert other.verdict("whale", cost=30)["remaining"] == 40
    for scope in ("api", "leased", "split", "common"):
        assert one.verdict("whale", scope=scope)["allowed"]
    assert buckets(main) == before, "nothing of the whale's is on the main store; the bucket for all is"
    assert len(buckets(own)) == 4
    say(f"{len(buckets(main))} buckets on the main store, {len(buckets(own))} on the whale's")
    assert one.verdict("orca", cost=100)["allowed"] and not other.verdict("orca")["allowed"]


def test_all_or_nothing_over_two_stores(fleet):
    """The key's limit is on one store, the one for all on another: a rejection by either gives the other's charge back."""
    _, _, (one, other) = start(fleet, *PATIENT)
    assert one.verdict("whale", cost=90, scope="common")["allowed"]
    for _ in range(20):
        assert not one.verdict("whale", cost=20, scope="common")["allowed"]
    # `all` has lost 90, not 490, once the charges of those that were rejected have come back in the background.
    until(lambda: other.verdict("nobody", cost=0, scope="common")["remaining"] == 9910, lambda: other.verdict("nobody", cost=0, scope="common"))


def test_one_store_fails_alone(fleet):
    """The whale's store stands still: the whale's limits follow their failure modes, everybody else notices nothing. And the other way round."""
    main, own, (one, _) = start(fleet, "--timeout", "200ms")
    own.freeze()
    until(lambda: one.verdict("whale", scope="api")["source"] == "degraded", "the whale's store is missed")
    for i in range(50):
        assert one.verdict(f"minnow{i}")["source"] == "shared"
        assert one.verdict("whale", scope="api")["allowed"]
    own.thaw()
    until(lambda: one.source("whale", scope="api") == "shared", "the whale's store is back")
    main.freeze()
    until(lambda: not one.verdict("minnow")["allowed"], "the main store is missed")
    for _ in range(10):
        assert one.verdict("whale")["source"] == "shared"
    main.thaw()
    one.wait_shared("minnow")


def test_unmatched_keys_of_the_same_prefix(fleet):
    main, own, (one, _) = start(fleet, *PATIENT)
    for key in ("whale2", "Whale", "whal", " whale"):
        one.verdict(key, cost=1)
    assert not buckets(own) and len(buckets(main)) >= 4
