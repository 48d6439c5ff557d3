"""What README.md shows is what the programs print, apart from times and random names."""
import json
import os
import re

from conftest import TOP, call

EXAMPLE = os.path.join(TOP, "deploy/policy.example.yaml")


def readme():
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        return f.read()


def test_the_first_check_is_answered_as_shown(start):
    body, shown = re.search(r"\$ curl -s -d '(\{.*?\})' http://127\.0\.0\.1:8080/check\n(\{.*\})\n", readme()).groups()
    _, _, answer = call(start(EXAMPLE).http, "POST", "/check", body, {"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.decode().startswith(shown[:60])
    shown, answer = json.loads(shown), json.loads(answer)
    shown.pop("resetAt"), answer.pop("resetAt")
    assert answer == shown


def test_the_sixth_login_is_rejected_as_shown(start):
    daemon = start(EXAMPLE)
    shown = re.search(r"# the sixth time\nHTTP/1.1 429 Too Many Requests\n(.*?)\n\n(\{.*?\})\n", readme(), re.S)
    for _ in range(11):  # a new window may begin between two of them
        status, headers, body = call(daemon.http, "POST", "/auth/login", None, {"X-User-Id": "ada"})
        if status != 200:
            break
    assert status == 429
    for line in shown.group(1).splitlines():
        name, value = line.split(": ", 1)
        if name in ("RateLimit-Reset", "Retry-After"):  # to the end of a window
            assert 0 < int(headers[name.lower()]) <= int(value)
        else:
            assert headers[name.lower()] == value
    assert set(json.loads(body)["error"]) == set(json.loads(shown.group(2))["error"])


def test_the_explanation_is_the_one_shown(sluice):
    shown = re.search(r"\$ sluice policy explain deploy/policy.example.yaml (\S+) (\S+)\n(.*?)\n\.\.\.\n", readme(), re.S)
    run = sluice("policy", "explain", EXAMPLE, shown.group(1), shown.group(2))
    assert run.stdout.startswith(shown.group(3) + "\n")


def test_the_smallest_policy_is_valid_without_a_warning(sluice, policy_file):
    text = re.search(r"```yaml\n(version: 1\n.*?)```", readme(), re.S).group(1)
    run = sluice("policy", "check", "--strict", policy_file(text))
    assert run.returncode == 0, run.stderr
