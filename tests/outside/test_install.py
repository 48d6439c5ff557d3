"""What an installed tree holds besides programs and libraries: the module that a redis-server loads, documentation, examples."""
import os
import pathlib
import subprocess

import pytest
from conftest import TOP, eventually

BUILD = os.environ.get("SLUICE_BUILD", os.path.join(TOP, "build"))


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """sluice_redis.so where `cmake --install` puts it."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component", "sluice-redis"], check=True, capture_output=True, timeout=60)
    found = list(prefix.rglob("*.so"))
    assert [path.name for path in found] == ["sluice_redis.so"] and found[0].parent.name == "sluice"
    return found[0]


def redis_cli(path, *words):
    return subprocess.run(["redis-cli", "-s", path, *words], capture_output=True, text=True, timeout=20).stdout.strip()


@pytest.fixture
def server(tmp_path):
    """Starts redis-servers on UNIX sockets: server(word...) -> path; they end with the test."""
    started = []

    def start(*words):
        path = str(tmp_path / f"redis{len(started)}")
        argv = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", str(tmp_path), "--logfile", path + ".log", *words]
        started.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
        eventually(lambda: started[-1].poll() is not None or redis_cli(path, "PING") == "PONG", "redis-server answers")
        return path

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_redis_server_loads_the_installed_module(module, server):
    path = server("--loadmodule", str(module))
    assert redis_cli(path, "SLUICE.WIRE") == "1"
    assert "sluice" in redis_cli(path, "MODULE", "LIST")


def test_the_module_refuses_arguments_it_does_not_know(module, server):
    path = server("--loadmodule", str(module), "fast=yes")
    assert redis_cli(path, "PING") != "PONG"
    assert "sluice: takes no arguments" in pathlib.Path(path + ".log").read_text()


def test_the_module_can_be_loaded_into_a_running_server(module, server):
    path = server("--enable-module-command", "yes")
    assert redis_cli(path, "MODULE", "LOAD", str(module)) == "OK"
    assert redis_cli(path, "SLUICE.WIRE") == "1"


def test_documentation_is_packed(tmp_path):
    """What the packed README links to lies beside it."""
    environment = dict(os.environ, DESTDIR=str(tmp_path))
    subprocess.run(["cmake", "--install", BUILD, "--component", "Unspecified"], check=True, capture_output=True, timeout=60, env=environment)
    readme = next(path for path in tmp_path.rglob("README.md") if path.parent.name != "docs")
    for name in ("docs/README.md", "docs/store.md", "examples/minimal.c", "examples/race/run", "LICENSE",
                 "deploy/prometheus/sluice.rules.yaml", "deploy/grafana/sluice.json"):
        assert (readme.parent / name).is_file(), name
    assert os.access(readme.parent / "examples/race/run", os.X_OK)
