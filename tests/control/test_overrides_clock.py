"""Overrides and a wall clock that is set: what ended by mistake is in force again."""
import datetime
import json
import struct

from fleet import CLOCK_SHIFT, outside
from stores import until

POLICY = """\
version: 1
limits:
  - {name: all, rate: 100/h, on_store_failure: local}
"""


def test_an_end_that_a_wrong_clock_brought_is_taken_back(fleet, tmp_path):
    """An hour ahead for a moment, as after a machine was woken: the override ends, and is there again without anybody setting it once more."""
    shift = tmp_path / "clock"
    shift.write_bytes(struct.pack("=q", 0))
    one = fleet.daemon(POLICY, "memory:", env={"LD_PRELOAD": CLOCK_SHIFT, "CLOCK_SHIFT_FILE": str(shift), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=10)
    body = {"key": "k", "rate": "9000/h", "until": end.isoformat(timespec="seconds").replace("+00:00", "Z")}
    assert outside.call(one.admin, "PUT", "/v1/overrides", json.dumps(body))[0] == 200

    def set_clock(ahead_s, wanted):
        with open(shift, "r+b") as f:
            f.write(struct.pack("=q", ahead_s))
        until(lambda: one.verdict("k", cost=0)["limit"] == wanted, lambda: f"the limit becomes {wanted}: {one.log}")

    assert one.verdict("k", cost=0)["limit"] == 9000
    set_clock(3600, 100)
    assert "1 override ended" in one.log
    set_clock(0, 9000)
    one.wait_log("the clock was set back: 1 override that had ended is in force again")
