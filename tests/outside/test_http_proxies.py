"""Real proxies in front of /auth: nginx auth_request, Caddy forward_auth, HAProxy. Each asks with its own headers; the limits are kept for the client
behind it, and what a client forges changes nothing."""
import contextlib
import http.server
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest

from conftest import TOP, call

POLICY = """version: 1
identity: {order: [api_key, address], headers: {api_key: X-Api-Key}, trusted_proxies: [127.0.0.0/8]}
endpoints: {login: {match: ["POST /login"]}}
limits:
  - {name: all, rate: 3/h, on_store_failure: local}
  - {name: login, endpoint: login, rate: 1/h, on_store_failure: closed}
"""


class Origin(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = answer

    def log_message(self, *args):
        pass


@pytest.fixture
def origin():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def proxy(argv, port, **more):
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    drain = []
    reader = threading.Thread(target=lambda: drain.append(process.stdout.read()), daemon=True)
    reader.start()
    try:
        end = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            assert process.poll() is None and time.monotonic() < end, drain
            time.sleep(0.02)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def program(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if not path:
        pytest.skip(f"{name} is not installed")
    return path


def expect_limits(address, denied=429):
    """Three requests of a key an hour, one login; paths have one spelling; forged headers are of no use."""
    key = {"X-Api-Key": "proxied"}
    assert call(address, "POST", "/login", "x", key)[0] == 200
    status, headers, _ = call(address, "POST", "//x/../%6cogin?again", "x",
                              {**key, "X-Forwarded-Uri": "/elsewhere", "X-Original-URI": "/elsewhere", "X-Forwarded-Method": "GET"})
    assert status == denied
    codes = [call(address, "GET", f"/page{i}?x", headers=key)[0] for i in range(4)]
    assert codes == [200, 200, 200, denied]
    forged = [call(address, "GET", "/", headers={"X-Forwarded-For": f"203.0.113.{i}"})[0] for i in range(4)]
    assert forged == [200, 200, 200, denied]  # one client, whatever it claims
    return headers


def test_nginx_auth_request(start, origin, tmp_path):
    """deploy/nginx.conf as it stands, apart from its addresses."""
    nginx, port, daemon = program("nginx"), free_port(), start(POLICY)
    with open(os.path.join(TOP, "deploy/nginx.conf"), encoding="utf-8") as f:
        server = f.read()
    for there, here in (("server 127.0.0.1:8080;", f"server {daemon.http};"), ("listen 80;", f"listen 127.0.0.1:{port};"),
                        ("http://127.0.0.1:3000;", f"http://{origin};")):
        assert server.count(there) == 1
        server = server.replace(there, here)
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"""
worker_processes 1; daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {tmp_path}/b; proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f;
  uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
{server}
}}
""")
    with proxy([nginx, "-p", str(tmp_path), "-c", str(conf)], port) as address:
        headers = expect_limits(address)
        assert int(headers["retry-after"]) > 3000 and headers["ratelimit-limit"] == "1"
        status, headers, _ = call(address, "GET", "/", headers={"X-Api-Key": "another"})
        assert status == 200 and headers["ratelimit-remaining"] == "2"


def test_caddy_forward_auth(start, origin, tmp_path):
    caddy, port, daemon = program("caddy"), free_port(), start(POLICY)
    conf = tmp_path / "Caddyfile"
    conf.write_text(f"""{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  forward_auth {daemon.http} {{
    uri /auth
  }}
  reverse_proxy {origin}
}}
""")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with proxy([caddy, "run", "--config", str(conf), "--adapter", "caddyfile"], port, env=env) as address:
        headers = expect_limits(address)
        assert int(headers["retry-after"]) > 3000 and headers["ratelimit-limit"] == "1"


def test_haproxy_in_front(start, tmp_path):
    """HAProxy tells whom it serves with `option forwardfor`; the path below /auth is the scope."""
    haproxy, port, daemon = program("haproxy"), free_port(), start(POLICY)
    conf = tmp_path / "haproxy.cfg"
    conf.write_text(f"""
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend in
  bind 127.0.0.1:{port}
  http-request del-header X-Forwarded-For
  http-request del-header X-Forwarded-Uri
  http-request del-header X-Forwarded-Method
  http-request del-header X-Original-URI
  http-request set-path /auth%[path]
  option forwardfor
  default_backend sluice
backend sluice
  server s {daemon.http}
""")
    with proxy([haproxy, "-db", "-f", str(conf)], port) as address:
        headers = expect_limits(address)
        assert headers["ratelimit-limit"] == "1"
