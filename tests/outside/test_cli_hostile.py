"""Commands that ask something that is no sluiced, or one that was taken over: nothing it says acts on the terminal, and no number is too large."""
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

EVIL = "EV\x1b[2J\u009b31m\u202eIL"
HUGE = 2**63 - 1
OVERRIDE = {"key": EVIL, "keyType": EVIL, "limit": EVIL, "rate": EVIL, "burst": HUGE, "until": EVIL, "author": EVIL, "comment": EVIL, "state": EVIL, "why": EVIL,
            "set": EVIL, "where": EVIL, "instead": EVIL, "limits": HUGE}
CHANGE = {"revision": HUGE, "time": EVIL, "op": EVIL, "author": EVIL, "comment": EVIL, "old": OVERRIDE, "new": OVERRIDE, "note": EVIL, "limits": HUGE, "instead": EVIL, "where": EVIL}
COUNTS = {"name": EVIL, "allowed": HUGE, "rejected": HUGE, "newlyRejected": HUGE, "newlyAllowed": HUGE, "dropped": HUGE, "undecided": HUGE, "refused": HUGE}
KEY = {"key": EVIL, "keyType": EVIL, "limit": EVIL, "atLeast": HUGE, "atMost": -HUGE}
SHADOW = {"active": True, "candidate": {"hash": EVIL, "limits": HUGE, "version": HUGE, "author": EVIL, "comment": EVIL, "longestMs": HUGE}, "liveChanged": True,
          "live": {"version": HUGE, "hash": EVIL}, "since": EVIL, "seconds": -HUGE, "decisions": HUGE, "limits": [COUNTS], "liveLimits": [COUNTS],
          "keys": {"newlyRejected": [KEY], "newlyAllowed": [KEY]}, **{k: v for k, v in COUNTS.items() if k != "name"}}
REJECTION = {"key": EVIL, "keyType": EVIL, "limit": EVIL, "scope": EVIL, "reason": EVIL, "first": "9999-12-31T23:59:59Z", "last": "9999-12-31T23:59:59Z", "times": HUGE,
             "retryAfterMs": HUGE, "remaining": HUGE, "cost": HUGE, "askedOf": EVIL, "overridden": True, "override": OVERRIDE}
BUCKET = {"policy": EVIL, "allowed": False, "source": EVIL, "limit": HUGE, "remaining": -HUGE, "nextMs": HUGE, "cost": HUGE, "overridden": True, "override": OVERRIDE}
DECISION = {"seq": 1, "time": EVIL, "scope": EVIL, "tier": EVIL, "endpoint": EVIL, "cost": HUGE, "overridden": True, "override": OVERRIDE, "buckets": [BUCKET],
            "verdict": {"allowed": False, "reason": EVIL, "policy": EVIL + "2", "source": EVIL, "limit": HUGE, "remaining": HUGE, "retryAfterMs": HUGE}}
ASKED = [
    (("override", "list"), {"overrides": [OVERRIDE]}),
    (("override", "history"), {"log": [CHANGE]}),
    (("override", "set", "k", "--rate", "5/h"), CHANGE),
    (("override", "remove", "k"), CHANGE),
    (("override", "remove", "k"), {**CHANGE, "old": EVIL, "new": HUGE}),
    (("buckets", "show", "k"), {"buckets": [{"name": EVIL, "layer": EVIL, "endpoint": EVIL, "algorithm": EVIL, "remaining": HUGE, "limit": HUGE, "resetAfterMs": HUGE}]}),
    (("policy", "show"), {"version": HUGE, "source": EVIL, "hash": EVIL, "limits": HUGE, "lastReloadFailed": True}),
    (("policy", "show"), {"version": HUGE, "source": EVIL, "keptCopy": True, "region": EVIL, "lastReloadFailed": True, "refused": EVIL}),
    (("policy", "history"), {"current": HUGE, "versions": [{"version": HUGE, "hash": EVIL, "time": EVIL, "author": EVIL, "comment": EVIL, "rollbackOf": HUGE}],
                             "instances": [{"instance": EVIL, "host": EVIL, "region": EVIL, "address": EVIL, "version": HUGE, "hash": EVIL, "source": EVIL,
                                            "refused": HUGE, "reason": EVIL}], "unheard": -HUGE}),
    (("policy", "rollback"), {"version": {"version": HUGE, "hash": EVIL, "time": EVIL, "author": EVIL, "comment": EVIL}, "policy": "version: 1\nlimits: [{name: a, rate: 1/s}]\n"}),
    (("policy", "shadow", "--once"), SHADOW),
    (("policy", "dry-run"), {"since": EVIL, "seconds": HUGE, "wouldReject": HUGE, "limits": [COUNTS], "keys": [KEY]}),
    (("policy", "promote"), {"active": True, "policy": EVIL, "decisions": HUGE, "version": {"version": HUGE, "hash": EVIL, "author": EVIL}}),
    (("trace", "k"), {"id": EVIL, "state": "complete", "recorded": 1, "decisions": [DECISION]}),
    (("doctor",), {"raised": [{"kind": EVIL, "sentence": EVIL, "runbook": EVIL}]}),
    (("why", "k"), {"reachesBackTo": "9999-12-31T23:59:59Z", "started": EVIL, "matching": -HUGE, "rejections": [REJECTION]}),
]
PROBLEM = {"type": "about:blank", "title": EVIL, "status": 422, "detail": EVIL + "\n" + EVIL, "field": EVIL}


@pytest.fixture
def other():
    """other(status, value) -> the address of who answers everything so."""
    answer = {}

    class Other(BaseHTTPRequestHandler):
        def serve(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(answer["status"])
            self.send_header("Content-Length", str(len(answer["body"])))
            self.end_headers()
            self.wfile.write(answer["body"])

        do_GET = do_PUT = do_POST = do_DELETE = serve

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()

    def set_answer(status, value):
        answer.update(status=status, body=json.dumps(value, ensure_ascii=False).encode())
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield set_answer
    server.shutdown()
    thread.join()
    server.server_close()


def fit(text):
    return not any(bad in text for bad in ("\x1b", "\u009b", "\u202e"))


@pytest.mark.parametrize("command, answer", ASKED, ids=lambda x: "-".join(x) if isinstance(x, tuple) else "")
def test_an_answer_is_made_fit_to_be_shown(sluice, other, command, answer):
    run = sluice(*command, "--admin", other(200, answer))
    assert run.returncode in (0, 1, 3), (run.stdout, run.stderr)
    assert "Sanitizer" not in run.stderr and "runtime error" not in run.stderr, run.stderr
    assert fit(run.stdout) and fit(run.stderr), (run.stdout, run.stderr)
    assert "IL" in run.stdout, "it is shown all the same"


@pytest.mark.parametrize("command", [command for command, _ in ASKED if command != ("doctor",)], ids="-".join)
def test_a_refusal_is_made_fit_to_be_shown(sluice, other, command):
    run = sluice(*command, "--admin", other(422, PROBLEM))
    assert run.returncode in (1, 3) and run.stdout == ""
    assert fit(run.stderr) and run.stderr.count("IL") == 3 and run.stderr.count("\n") == 2, "each line of it is a line"
