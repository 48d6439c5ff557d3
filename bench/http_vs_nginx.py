#!/usr/bin/env python3
"""Server CPU per request of POST /check beside nginx `limit_req` with `return 200`.

The same wrk (64 keep-alive connections, one body) drives one worker of each, in alternating rounds; what is compared is user + system time of
the server's process divided by the requests it answered, so the client and whatever else the machine does cancel out. Also: /check rejections
against acceptances, /auth rejections against acceptances. Prints medians and ratios; --json for programs. Exit status 1 when a ratio is
above its bound and --enforce is given.

    bench/http_vs_nginx.py [--bin build/bin] [--seconds 3] [--rounds 5] [--json] [--enforce]
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

POLICY = """
version: 1
identity: {order: [api_key, address], headers: {api_key: X-Api-Key}}
endpoints:
  shut: {match: ["shut", "GET /shut"]}
limits:
  - {name: wide, rate: 1000000000/s, burst: 1000000000}
  - {name: narrow, endpoint: shut, rate: 1/366d, burst: 1}
"""

NGINX = """
worker_processes 1; daemon off; master_process off; pid %(dir)s/nginx.pid; error_log %(dir)s/error.log;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s;
  client_body_temp_path %(dir)s/b; proxy_temp_path %(dir)s/p; fastcgi_temp_path %(dir)s/f; uwsgi_temp_path %(dir)s/u; scgi_temp_path %(dir)s/s;
  limit_req_zone $binary_remote_addr zone=z:10m rate=1000000r/s;
  server { listen 127.0.0.1:%(port)d; location / { limit_req zone=z burst=1000000 nodelay; return 200 "ok"; } }
}
"""

POST = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"key":"acct_8812","scope":"%s"}'
"""
GET = 'wrk.headers["X-Api-Key"] = "acct_8812"\n'


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_listening(port, process):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise SystemExit(f"{process.args[0]} did not start")


@contextlib.contextmanager
def running(argv, port):
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_listening(port, process)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def drive(pid, url, script, seconds):
    """One wrk run: (CPU microseconds a request, requests a second)."""
    before = cpu_seconds(pid)
    wrk = ["wrk", "-t1", "-c64", f"-d{seconds}s", "-s", script, url]
    pin = ["taskset", "-c", "1"] if os.cpu_count() > 1 else []
    out = subprocess.run(pin + wrk, capture_output=True, text=True, timeout=seconds + 30, check=True).stdout
    used = cpu_seconds(pid) - before
    n, took = re.search(r"(\d+) requests in ([\d.]+)s", out).groups()
    return used * 1e6 / int(n), int(n) / float(took)


def written(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def measure(args, directory):
    http, web = free_port(), free_port()
    policy = written(directory, "policy.yaml", POLICY)
    conf = written(directory, "nginx.conf", NGINX % {"dir": directory, "port": web})
    accept = written(directory, "accept.lua", POST % "api:search")
    reject = written(directory, "reject.lua", POST % "shut")
    get = written(directory, "get.lua", GET)
    pin = ["taskset", "-c", "0"] if os.cpu_count() > 1 else []
    daemon = [os.path.join(args.bin, "sluiced"), "--workers", "1", "--policy", policy, "--listen",
              f"127.0.0.1:{http}", "--admin", f"127.0.0.1:{free_port()}"]
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    rows = {"nginx limit_req + return 200": [], "POST /check": [], "POST /check rejected": [], "/auth": [],
            "/auth rejected": []}
    with running(pin + daemon, http) as sluice, running(pin + [nginx, "-p", directory, "-c", conf], web) as other:
        plan = [("nginx limit_req + return 200", other, f"http://127.0.0.1:{web}/check", accept),
                ("POST /check", sluice, f"http://127.0.0.1:{http}/check", accept),
                ("POST /check rejected", sluice, f"http://127.0.0.1:{http}/check", reject),
                ("/auth", sluice, f"http://127.0.0.1:{http}/auth/open", get),
                ("/auth rejected", sluice, f"http://127.0.0.1:{http}/auth/shut", get)]
        for round_no in range(args.rounds + 1):  # the first one warms up
            for name, pid, url, script in plan:
                seconds = 1 if round_no == 0 else args.seconds
                result = drive(pid, url, script, seconds)
                if round_no:
                    rows[name].append(result)
            if sys.stderr.isatty():
                print(f"round {round_no} of {args.rounds}", file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--enforce", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rows = measure(args, directory)
    cpu = {name: [r[0] for r in results] for name, results in rows.items()}

    def ratio(a, b):
        return statistics.median(x / y for x, y in zip(cpu[a], cpu[b]))

    ratios = [("POST /check : nginx", ratio("POST /check", "nginx limit_req + return 200"), 1.10),
              ("/check rejected : accepted", ratio("POST /check rejected", "POST /check"), 1.10),
              ("/auth rejected : accepted", ratio("/auth rejected", "/auth"), 1.20)]
    if args.json:
        print(json.dumps({"cpu_us": cpu, "ratios": {name: {"median": r, "bound": b} for name, r, b in ratios}}))
    else:
        for name, results in rows.items():
            print(f"{name:30} {statistics.median(cpu[name]):6.2f} us CPU a request  "
                  f"{statistics.median(r[1] for r in results):8.0f} requests/s")
        for name, r, bound in ratios:
            print(f"{name:30} {r:6.2f}  (bound {bound:.2f})")
    sys.exit(1 if args.enforce and any(r > b for _, r, b in ratios) else 0)


main()
