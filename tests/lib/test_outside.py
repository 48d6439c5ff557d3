"""libsluice as others meet it: what it exports, its header alone, an installed tree, and the example programs."""
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["SLUICE_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
CACHE = (BUILD / "CMakeCache.txt").read_text()
SANITIZED = bool(re.search(r"^SLUICE_SANITIZE:STRING=.+$", CACHE, re.M))
HEADER = SOURCE / "include/sluice/sluice.h"

not_sanitized = pytest.mark.skipif(SANITIZED, reason="a consumer is built without the sanitizers of this tree")


def run(*words, **more):
    more.setdefault("timeout", 300)
    r = subprocess.run([str(w) for w in words], capture_output=True, text=True, **more)
    assert r.returncode == 0, f"{words}: {r.returncode}\n{r.stdout}\n{r.stderr}"
    return r.stdout


def declared():
    """The functions that the header declares."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    return set(re.findall(r"SLUICE_API [^;(]*?\b(sluice_\w+)\(", text))


def test_the_shared_library_exports_what_the_header_declares_and_nothing_else():
    lines = run("nm", "-D", "--defined-only", BUILD / "lib/libsluice.so").splitlines()
    symbols = {line.split()[-1] for line in lines}
    versions = {s for s in symbols if s.startswith("SLUICE_")}
    assert {s.split("@")[0] for s in symbols - versions} == declared()
    assert all(s.endswith("@@SLUICE_0") for s in symbols - versions), symbols


def test_the_soname_is_stable():
    assert re.search(r"SONAME.*\[libsluice\.so\.0\]", run("readelf", "-d", BUILD / "lib/libsluice.so"))


def test_the_static_library_holds_everything():
    lines = run("nm", "-g", BUILD / "lib/libsluice.a").splitlines()
    defined = {l.split()[-1] for l in lines if len(l.split()) == 3 and l.split()[1] in "TDBRWV"}
    wanted = {l.split()[-1] for l in lines if len(l.split()) == 2 and l.split()[0] == "U"}
    assert {w for w in wanted if w.startswith(("sl_", "sluice_"))} <= defined
    assert declared() <= defined


@pytest.mark.parametrize("compiler, language", [
    ("gcc -std=c99", "c"), ("gcc -std=c17", "c"), ("clang -std=c11", "c"),
    ("g++ -std=c++98", "c++"), ("g++ -std=c++20", "c++"), ("clang++ -std=c++17", "c++")])
def test_the_header_compiles_alone(compiler, language, tmp_path):
    words = compiler.split()
    if not shutil.which(words[0]):
        pytest.skip(f"no {words[0]}")
    source = tmp_path / ("x.c" if language == "c" else "x.cc")
    source.write_text("#include <sluice/sluice.h>\n"
                      "int main(void) { struct sluice_options o = sluice_options_default();\n"
                      "struct sluice_request r = SLUICE_REQUEST_INIT; return o.struct_size == 0 || r.cost != -1; }\n")
    run(*words, "-pedantic", "-Wall", "-Wextra", "-Werror", "-I", SOURCE / "include", source, "-o", tmp_path / "x")
    run(tmp_path / "x")


def test_the_version_is_one():
    header = dict(re.findall(r"#define SLUICE_VERSION_(\w+) (\d+)", HEADER.read_text()))
    version = "{MAJOR}.{MINOR}.{PATCH}".format(**header)
    project = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", CACHE, re.M).group(1)
    assert project == version


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An installed tree: libraries, header, pkg-config file, CMake package."""
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "sluice-dev")
    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "sluice-lib")
    lib = next(p.parent for p in prefix.rglob("libsluice.so"))
    return prefix, lib


MINIMAL = ["request 1: allowed, 2 left", "request 2: allowed, 1 left", "request 3: allowed, 0 left",
           "request 4: rejected by per-customer, again in 20 s", "request 5: rejected by per-customer, again in 20 s"]


def expect_minimal(lines):
    assert [re.sub(r"again in (19|20) s", "again in 20 s", l) for l in lines] == MINIMAL


@not_sanitized
@pytest.mark.parametrize("static", [False, True])
def test_a_program_builds_with_pkg_config(installed, static, tmp_path):
    prefix, lib = installed
    # the tree was configured for another prefix: the file finds itself
    env = dict(os.environ, PKG_CONFIG_PATH=str(lib / "pkgconfig"), PKG_CONFIG_SYSROOT_DIR="")
    flags = run("pkg-config", "--cflags", "--libs", *(["--static"] if static else []), "sluice", env=env).split()
    assert {("-I", prefix / "include"), ("-L", lib)} <= {(f[:2], pathlib.Path(os.path.realpath(f[2:]))) for f in flags}
    if static:
        flags = [str(lib / "libsluice.a") if f == "-lsluice" else f for f in flags]
    run("gcc", SOURCE / "examples/minimal.c", *flags, "-o", tmp_path / "minimal")
    out = run(tmp_path / "minimal", env=dict(os.environ, LD_LIBRARY_PATH=str(lib)))
    expect_minimal(out.splitlines())
    needed = run("readelf", "-d", tmp_path / "minimal")
    assert ("libsluice.so.0" in needed) == (not static)


@not_sanitized
@pytest.mark.parametrize("target", ["sluice::sluice", "sluice::sluice_static"])
def test_a_program_builds_with_find_package(installed, target, tmp_path):
    prefix, _ = installed
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(consumer C)\nfind_package(sluice 0.1 REQUIRED)\n"
        f"add_executable(consumer {SOURCE}/examples/minimal.c)\ntarget_link_libraries(consumer PRIVATE {target})\n")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "b")
    expect_minimal(run(tmp_path / "b/consumer").splitlines())


def test_the_minimal_example_prints_what_it_should():
    expect_minimal(run(BUILD / "examples/example_minimal").splitlines())


class Store:
    """A redis-server of its own, on a UNIX socket."""

    def __init__(self, folder, *options):
        self.socket = folder / "socket"
        self.url = f"redis+unix://{self.socket}"
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", folder,
                                         "--save", "", "--appendonly", "no", *options],
                                        stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if "eady to accept connections" in line or "now ready to accept" in line:
                break
        else:
            raise AssertionError("redis-server does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(30)
        self.process.stdout.close()


@pytest.fixture
def store(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("s")) as s:
        yield s


def test_the_shared_example_counts_on_where_another_stopped(store):
    program = BUILD / "examples/example_minimal_shared"
    assert run(program, store.url).splitlines() == [
        "request 1: allowed (shared), 2 left", "request 2: allowed (shared), 1 left"]
    first, second = run(program, store.url).splitlines()
    assert first == "request 1: allowed (shared), 0 left"
    assert re.fullmatch(r"request 2: rejected \((shared|local)\): rate_limited, again in (19|20) s", second)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_the_shared_example_over_tls(tmp_path):
    cert, key, port = tmp_path / "cert.pem", tmp_path / "key.pem", free_port()
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert)
    with Store(tmp_path, "--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients",
               "no", "--bind", "127.0.0.1"):
        program, at = BUILD / "examples/example_minimal_shared", f"rediss://127.0.0.1:{port}"
        assert run(program, f"{at}?ca={cert}").splitlines() == [
            "request 1: allowed (shared), 2 left", "request 2: allowed (shared), 1 left"]
        # a certificate that nobody vouches for is no store
        untrusted = subprocess.run([program, at], capture_output=True, text=True, timeout=60)
        assert "(degraded)" in untrusted.stdout and "(shared)" not in untrusted.stdout
        assert "certificate" in untrusted.stderr


def test_the_shared_example_says_when_there_is_no_store(tmp_path):
    r = subprocess.run([BUILD / "examples/example_minimal_shared", f"redis+unix://{tmp_path}/nobody"],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and "was not reached within" in r.stderr
    assert [re.sub(r"again in \d+ s", "again in 1 s", l) for l in r.stdout.splitlines()] == [
        f"request {i}: rejected (degraded): store_unavailable, again in 1 s" for i in (1, 2)]


def test_the_poll_loop_example_answers_every_line(store, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nlimits:\n  - {name: a, rate: 100/300d, coordination: shared}\n")
    lines = ["one", "two"] * 500 + ["three"]
    r = subprocess.run([BUILD / "examples/example_shared_async", store.url, policy], input="\n".join(lines) + "\n",
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    answers = [l.split() for l in r.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert {k: sum(a[0] == k and a[1] == "allowed" for a in answers) for k in ("one", "two", "three")} == {
        "one": 100, "two": 100, "three": 1}
    assert r.stderr.splitlines()[-1] == "201 allowed, 800 rejected, 0 degraded"


class Server:
    """The example HTTP server on a port of its own."""

    def __init__(self, policy):
        self.process = subprocess.Popen([str(BUILD / "examples/example_http_server"), str(policy), "0"],
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.port = int(line.rsplit(":", 1)[1])

    def get(self, path="/", key=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        c.request("GET", path, headers={"X-Api-Key": key} if key else {})
        r = c.getresponse()
        body = r.read()
        c.close()
        return r.status, {k.lower(): v for k, v in r.getheaders()}, body

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        self.process.stdout.close()


def test_the_example_server_limits_real_requests():
    with Server(SOURCE / "examples/policy.yaml") as s:
        got = [s.get(key="acct_1") for _ in range(11)]
        assert [status for status, _, _ in got] == [200] * 10 + [429]
        assert [int(h["ratelimit-remaining"]) for _, h, _ in got][:3] == [9, 8, 7]
        status, headers, body = got[10]
        assert headers["ratelimit-limit"] == "10" and 1 <= int(headers["retry-after"]) <= 6
        assert body == b"Rate limit exceeded.\n" and "retry-after" not in got[0][1]
        status, headers, _ = s.get("/reports/1", key="acct_2")
        assert status == 200 and headers["ratelimit-remaining"] == "5"
        assert s.get(key="acct_8812")[1]["ratelimit-limit"] == "1000"
        assert [s.get()[0] for _ in range(4)] == [200] * 3 + [429]
        assert s.get(key="k" * 600)[0] == 400
        assert s.get("/" + "x" * 3000, key="acct_3")[0] == 414


def test_the_example_server_reloads_whole_or_not_at_all(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nlimits:\n  - {name: all, rate: 2/h}\n")
    with Server(policy) as s:
        assert [s.get(key="a")[0] for _ in range(3)] == [200, 200, 429]
        policy.write_text("version: 1\nlimits:\n  - {name: all, rate: nonsense}\n")
        s.process.send_signal(signal.SIGHUP)
        assert s.process.stdout.readline() == "policy kept as it was\n"
        assert s.get(key="a")[0] == 429
        policy.write_text("version: 1\nlimits:\n  - {name: everyone, rate: 5/h}\n")
        s.process.send_signal(signal.SIGHUP)
        assert s.process.stdout.readline() == "policy reloaded\n"
        assert s.get(key="a")[1]["ratelimit-remaining"] == "4"


def test_the_example_server_says_what_is_wrong(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nlimits:\n  - {name: all, rate: 0/s}\n")
    r = subprocess.run([str(BUILD / "examples/example_http_server"), str(policy), "0"], capture_output=True, text=True,
                       timeout=60)
    assert r.returncode == 2 and f"{policy}:3:" in r.stderr and r.stdout == ""
