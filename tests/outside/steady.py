"""A steady load on /check and /auth whose every answer is known beforehand: what tests of reloads run beside."""
import json
import threading
import time

from conftest import connect, eventually

BURST = 40
# A bucket that gives back one token in nine days: what is left of it is what was not spent, whatever happens meanwhile.
COUNTED = f"rate: {BURST}/366d, burst: {BURST}"


def policy(version, extra=""):
    """One of many: `told` says which, the counted buckets are the same in all of them."""
    return ("version: 1\n"
            "defaults: {on_store_failure: local}\n"
            "endpoints: {told: {match: [told]}}\n"
            "limits:\n"
            f"  - {{name: counted, {COUNTED}}}\n"
            f"  - {{name: told, endpoint: told, rate: {1000000 + version}/s}}\n"
            f"{extra}")


class Steady:
    """Requests on two kept connections until it is left. A key is asked for BURST + 2 times: each time one token less is left, then two rejections, then
    comes the next key. `versions`: what `told` said, in order, without repetitions. Leaving it checks all."""

    PAUSE_S = 0.001

    def __init__(self, daemon):
        self.daemon, self.stopping, self.errors, self.versions = daemon, False, [], []
        self.n_checks = self.n_auths = 0
        self.threads = [threading.Thread(target=self._run, args=(kind,)) for kind in (self._checks, self._auths)]

    def _run(self, kind):
        connection = connect(self.daemon.http)
        try:
            n = 0
            while not self.stopping:
                kind(connection, *divmod(n, BURST + 2))
                n += 1
                time.sleep(self.PAUSE_S)
        except Exception as e:  # whatever it is, the test must see it
            self.errors.append(repr(e))
        finally:
            connection.close()

    def _expect(self, what, found, wanted):
        if found != wanted:
            self.errors.append(f"{what}: {found}, not {wanted}")
            self.stopping = True

    def _post(self, connection, **body):
        connection.request("POST", "/check", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def _checks(self, connection, key, used):
        status, body = self._post(connection, key=f"check-{key}")
        left = max(0, BURST - used - 1)
        self._expect(f"request {used} of check-{key}",
                     (status, body.get("allowed"), body.get("remaining"), body.get("limit"), body.get("reason"), body.get("source")),
                     (200, used < BURST, left, BURST, None if used < BURST else "rate_limited", "local"))
        self.n_checks += 1
        status, body = self._post(connection, key="somebody", scope="told")
        version = body.get("limit", 0) - 1000000
        self._expect("told", (status, body.get("allowed")), (200, True))
        if not self.versions or self.versions[-1] != version:
            self.versions.append(version)

    def _auths(self, connection, key, used):
        connection.request("GET", "/auth/orders", headers={"X-Api-Key": f"auth-{key}"})
        answer = connection.getresponse()
        answer.read()
        self._expect(f"request {used} of auth-{key}", (answer.status, answer.getheader("RateLimit-Limit"), answer.getheader("RateLimit-Remaining")),
                     (200 if used < BURST else 429, str(BURST), str(max(0, BURST - used - 1))))
        self.n_auths += 1

    def more(self, n=20):
        """Waits until so many more of each kind have been answered."""
        checks, auths = self.n_checks + n, self.n_auths + n
        eventually(lambda: (self.n_checks >= checks and self.n_auths >= auths) or self.errors, "the load goes on")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.more()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.more()
        self.stopping = True
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors

    def wait_version(self, version):
        eventually(lambda: self.errors or (self.versions and self.versions[-1] == version), f"version {version} in force, not {self.versions}")
