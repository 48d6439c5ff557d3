"""/metrics as others read it: promtool, a strict reader of each format, and whether docs/metrics.md, the rules and the dashboard name what is there. All
of it on a daemon with a store that has seen requests of every kind; and the two tokens of the admin listener."""
import json
import os
import re
import shutil
import subprocess

import pytest
import yaml
from conftest import SLUICED, TOP, call, clean_environment, eventually
from prometheus_client import parser as plain
from prometheus_client.openmetrics import parser as openmetrics
from test_daemon_store import Redis

OPEN = "application/openmetrics-text; version=1.0.0"
RULES = os.path.join(TOP, "deploy/prometheus/sluice.rules.yaml")
DASHBOARD = os.path.join(TOP, "deploy/grafana/sluice.json")
POLICY = """\
version: 1
defaults: {coordination: shared, on_store_failure: local}
identity: {order: [address], trusted_proxies: [127.0.0.0/8], forwarded: x-forwarded-for}
limits:
  - {name: all, rate: 50/h}
  - {name: here, layer: here, rate: 2000/h, coordination: local}
  - {name: leased, key: busy, rate: 100000/s, coordination: leased}
  - {name: addresses, key_type: address, rate: 3/h}
  - {name: log, key: logged, rate: 4/h, algorithm: sliding_window_log, coordination: local}
  - {name: tried, layer: tried, rate: 1/h, mode: dry_run}
"""


def promtool():
    path = os.environ.get("PROMTOOL") or shutil.which("promtool")
    return path or pytest.skip("no promtool here (package prometheus)")


def run_promtool(*args, given=None):
    done = subprocess.run([promtool(), *args], input=given, capture_output=True, timeout=120, cwd=os.path.dirname(RULES))
    return done.returncode, (done.stdout + done.stderr).decode()


def scrape(daemon, accept=None):
    """(content type, text)."""
    status, headers, body = call(daemon.admin, "GET", "/metrics", headers={"Accept": accept} if accept else {})
    assert status == 200
    return headers["content-type"], body.decode()


@pytest.fixture
def loaded(start, tmp_path):
    """A daemon with a store, after requests of every kind: allowed, rejected, degraded, leased, anonymous, unmatched, malformed."""
    folder = tmp_path / "redis"
    folder.mkdir()
    store = Redis(folder).start()
    try:
        daemon = start(POLICY, "--store", store.url)
        eventually(lambda: daemon.check("first")[1]["source"] == "shared", "decisions are shared")
        for key in ("k", "busy", "logged", "un\\usual \"é\""):
            body = json.dumps([{"key": key}] * 200)
            assert call(daemon.http, "POST", "/check", body)[0] == 200
        for i in range(8):
            daemon.check("192.0.2.1", keyType="address")
            call(daemon.http, "GET", "/auth/x", headers={"X-Forwarded-For": f"192.0.2.{i}, nonsense"})
        call(daemon.http, "POST", "/check", "{")
        call(daemon.http, "GET", "/nowhere")
        with open(daemon.policy, "a", encoding="utf-8") as f:
            f.write("nonsense: [\n")
        eventually(lambda: daemon.metric("sluice_policy_last_reload_failed") == 1, "a reload that failed")
        yield daemon
    finally:
        store.kill()


# ---- the two formats


def test_promtool_finds_nothing_on_a_loaded_daemon_with_a_store(loaded):
    assert run_promtool("check", "metrics", given=scrape(loaded)[1].encode()) == (0, "")


def read_plain(text):
    """Families by name as [(sample name, labels, value)], with what Prometheus would let pass but should not be."""
    families, seen = {}, set()
    for family in plain.text_string_to_metric_families(text):
        assert family.name not in families and family.documentation and family.type != "unknown", family.name
        families[family.name] = family
        for s in family.samples:
            row = (s.name, tuple(sorted(s.labels.items())))
            assert row not in seen, row
            seen.add(row)
    return families


def test_the_older_format(loaded):
    content_type, text = scrape(loaded)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8" and "# EOF" not in text and "# UNIT" not in text
    assert len(read_plain(text)) > 40
    assert scrape(loaded, "*/*")[0] == content_type
    assert scrape(loaded, "text/plain, " + OPEN + ";q=0.9")[0] == content_type
    assert scrape(loaded, "application/openmetrics-text; version=3.0.0")[0] == content_type


def check_histogram(family):
    """Bounds in canonical form and rising, buckets that never fall, and _count equal to the last."""
    rows = {}
    for s in family.samples:
        rows.setdefault(tuple(sorted((k, v) for k, v in s.labels.items() if k != "le")), []).append(s)
    for samples in rows.values():
        bounds = [s.labels["le"] for s in samples if s.name.endswith("_bucket")]
        counts = [s.value for s in samples if s.name.endswith("_bucket")]
        assert bounds[-1] == "+Inf" and all(re.fullmatch(r"\d+\.\d+|\d(\.\d+)?e-\d\d", b) for b in bounds[:-1]), bounds
        assert [float(b) for b in bounds] == sorted(set(map(float, bounds)))
        assert counts == sorted(counts)
        assert [s.value for s in samples if s.name.endswith("_count")] == [counts[-1]]


def test_open_metrics(loaded):
    content_type, text = scrape(loaded, OPEN)
    assert content_type == OPEN + "; charset=utf-8"
    assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
    families = {f.name: f for f in openmetrics.text_string_to_metric_families(text)}  # strict: raises at any fault
    for line in re.findall(r"^# (?:HELP|TYPE|UNIT) (\S+)", text, re.M):
        assert line in families
    for name, family in families.items():
        assert family.documentation and family.type in ("counter", "gauge", "histogram", "info"), name
        assert len(re.findall(rf"^# HELP {name} ", text, re.M)) == len(re.findall(rf"^# TYPE {name} ", text, re.M)) == 1
        assert not name.endswith("_total") and (family.type != "counter" or all(s.name == name + "_total" for s in family.samples))
        unit = re.search(r"_(seconds|bytes|ratio)$", name)
        assert family.unit == (unit.group(1) if unit else ""), name
        if family.type == "histogram":
            check_histogram(family)
    # The same samples in both formats.
    both = [{(s.name, tuple(sorted(s.labels))) for f in fs.values() for s in f.samples} for fs in (families, read_plain(scrape(loaded)[1]))]
    assert both[0] == both[1]


def test_prometheus_is_given_open_metrics(loaded):
    """Its Accept headers, before and after it learnt about weights."""
    for accept in ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                   "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"):
        assert scrape(loaded, accept)[0].startswith(OPEN)


def test_the_strict_reader_is_strict(loaded):
    text = scrape(loaded, OPEN)[1]
    for spoilt in (text.replace("# EOF\n", ""), text + "x 1\n", text.replace("sluice_unmatched_total ", "sluice_unmatched "), text.replace('le="+Inf"', 'le="9e9"'),
                   text.replace("# UNIT sluice_table_bytes bytes", "# UNIT sluice_table_bytes seconds"), text.replace("# TYPE sluice_buckets", "# TYPE sluice_alarm")):
        assert spoilt != text
        with pytest.raises(ValueError):
            list(openmetrics.text_string_to_metric_families(spoilt))


# ---- what names metrics


def told(daemon):
    """Sample name -> label names, of a scrape; histograms also by their family's name, without le."""
    names = {}
    for family in read_plain(scrape(daemon)[1]).values():
        for s in family.samples:
            names.setdefault(s.name, set()).update(s.labels)
        if family.type == "histogram":
            names[family.name] = {label for s in family.samples for label in s.labels} - {"le"}
    return names


def described():
    """Name -> label names, of docs/metrics.md."""
    with open(os.path.join(TOP, "docs/metrics.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `(sluice_\w+)` \| (\w+) \| ([^|]*) \| \S[^|]* \|$", f.read(), re.M)
    assert len({name for name, _, _ in rows}) == len(rows)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_the_page_lists_every_metric_and_no_other(loaded):
    families = {}
    for family in read_plain(scrape(loaded)[1]).values():
        name = family.name + "_total" if family.type == "counter" else family.name
        kind = "info" if name.endswith("_info") else family.type
        families[name] = (kind, {label for s in family.samples for label in s.labels} - {"le"})
    assert described() == families


def alarm_kinds():
    with open(os.path.join(TOP, "src/observe/alarm.h"), encoding="utf-8") as f:
        kinds = re.findall(r'X\([A-Z_]+, "(\w+)", \d+', f.read())
    assert len(kinds) >= 10
    return kinds


def rules():
    with open(RULES, encoding="utf-8") as f:
        return [rule for group in yaml.safe_load(f)["groups"] for rule in group["rules"]]


def check_expression(expr, names, recorded=()):
    """Every metric of it is told, with the labels it is selected by."""
    found = re.findall(r"\b((?:\w+:)*sluice\w*(?::\w+)*)(?:\{([^}]*)\})?", re.sub(r'job="sluice"', "", expr))
    for name, selector in found:
        if ":" in name:
            assert name in recorded, f"{name} in {expr}"
            continue
        assert name in names, f"{name} in {expr}"
        labels = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', selector)) - {"job", "instance"}
        assert labels <= names[name], f"{labels} of {name} in {expr}"
    return len(found)


def test_the_rules_name_what_is_there(loaded):
    names, recorded = told(loaded), {r["record"] for r in rules() if "record" in r}
    for rule in rules():
        assert check_expression(rule["expr"], names, recorded) or "up{" in rule["expr"], rule


def test_the_dashboard_names_what_is_there(loaded):
    with open(DASHBOARD, encoding="utf-8") as f:
        dashboard = json.load(f)
    names, panels = told(loaded), [p for p in dashboard["panels"] if p["type"] != "row"]
    assert len({p["id"] for p in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert check_expression(target["expr"], names) > 0, panel["title"]
    for other in [a["expr"] for a in dashboard["annotations"]["list"]] + [v["definition"] for v in dashboard["templating"]["list"] if v["type"] == "query"]:
        assert check_expression(other, names) > 0, other


def test_the_dashboard_asks_what_prometheus_understands(tmp_path):
    with open(DASHBOARD, encoding="utf-8") as f:
        exprs = [t["expr"] for p in json.load(f)["panels"] for t in p.get("targets", [])]
    assert len(exprs) > 40
    rules_file = tmp_path / "dashboard.yaml"
    rules_file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [
        {"record": f"x{i}", "expr": e.replace("$__rate_interval", "5m")} for i, e in enumerate(exprs)]}]}))
    status, text = run_promtool("check", "rules", str(rules_file))
    assert status == 0, text


# ---- the rules


def test_the_rules_pass_their_own_tests():
    status, text = run_promtool("check", "rules", "sluice.rules.yaml")
    assert status == 0 and "SUCCESS" in text, text
    status, text = run_promtool("test", "rules", "sluice.rules.test.yaml")
    assert status == 0 and "FAILED" not in text, text


def test_every_alarm_has_its_alert_and_every_alert_its_heading_and_test():
    with open(os.path.join(TOP, "docs/runbook.md"), encoding="utf-8") as f:
        headings = set(re.findall(r"^## (\w+)$", f.read(), re.M))
    with open(os.path.join(os.path.dirname(RULES), "sluice.rules.test.yaml"), encoding="utf-8") as f:
        tested = f.read()
    alerts = [r for r in rules() if "alert" in r]
    for kind in alarm_kinds():
        name = "Sluice" + "".join(word.capitalize() for word in kind.split("_"))
        (alert,) = [r for r in alerts if r["alert"] == name]
        assert alert["expr"].startswith(f'sluice_alarm{{kind="{kind}"}} == 1')
        assert alert["annotations"]["runbook"] == f"docs/runbook.md#{kind}"
    for alert in alerts:
        page, heading = alert["annotations"]["runbook"].split("#")
        assert (page, heading in headings) == ("docs/runbook.md", True), alert["alert"]
        assert alert["labels"]["severity"] in ("page", "ticket") and alert["annotations"]["summary"]
        assert re.search(rf'\balertname[=:] ?"?{alert["alert"]}\b', tested), f"{alert['alert']} has no test"


# ---- who may read, who may change


def asked(daemon, method, path, token=None):
    return call(daemon.admin, method, path, headers={"Authorization": f"Bearer {token}"} if token else {})


@pytest.mark.parametrize("both", [True, False])
def test_a_token_that_may_only_read(start, both):
    daemon = start("version: 1\nlimits: [{name: all, rate: 10/h}]\n", "--admin-read-token", "l00k", *(("--admin-token", "ch4nge") if both else ()))
    daemon.check("k")
    for path in ("/metrics", "/v1/policy", "/v1/buckets?key=k", "/v1/top", "/v1/alarms"):
        assert asked(daemon, "GET", path, "l00k")[0] == asked(daemon, "HEAD", path, "l00k")[0] == 200
        assert asked(daemon, "GET", path)[0] == asked(daemon, "GET", path, "l00k!")[0] == 401
    for method, path in (("DELETE", "/v1/buckets?key=k"), ("POST", "/v1/reload"), ("PUT", "/v1/policy"), ("POST", "/v1/policy/rollback")):
        status, headers, body = asked(daemon, method, path, "l00k")
        assert (status, headers["content-type"], json.loads(body)["status"]) == (403, "application/problem+json", 403)
        assert headers["www-authenticate"].endswith('error="insufficient_scope"')
        assert asked(daemon, method, path)[0] == 401
    assert daemon.remaining("k") == 9  # nothing was reset
    status, _, body = asked(daemon, "DELETE", "/v1/buckets?key=k", "ch4nge")
    assert (status, daemon.remaining("k")) == ((200, 10) if both else (401, 9)), body
    assert asked(daemon, "GET", "/metrics", "ch4nge")[0] == (200 if both else 401)
    assert asked(daemon, "GET", "/healthz")[0] == 200
    with open(f"/proc/{daemon.process.pid}/cmdline", encoding="utf-8") as f:
        assert "l00k" not in f.read()


def refused(policy_file, *flags):
    done = subprocess.run([SLUICED, "--policy", policy_file(), "--listen", "127.0.0.1:0", *flags], env=clean_environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    return done.stderr.strip()


def test_off_loopback_one_of_the_tokens_is_needed(start, policy_file):
    sentence = refused(policy_file, "--admin", "0.0.0.0:0")
    assert "is not loopback and needs an admin token" in sentence and "--admin-read-token" in sentence and "SLUICE_ADMIN_TOKEN" in sentence
    for name in ("--admin-token", "--admin-read-token"):
        daemon = start(POLICY, "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0", name, "t", ports=False)
        assert daemon.admin.startswith("0.0.0.0:")
        assert "tokens travel there in the clear" in daemon.log
        daemon.cut()


def test_tokens_that_cannot_be(policy_file):
    assert "are the same" in refused(policy_file, "--admin", "127.0.0.1:0", "--admin-token", "t", "--admin-read-token", "t")
    line = refused(policy_file, "--admin", "127.0.0.1:0", "--admin-read-token", "a b")
    assert "admin read token" in line and "a b" not in line
