"""Fixtures: a fleet for a test, one for a file, and a voice. What broke is told with what every program said last."""
import pytest

from fleet import Fleet


def _run(folder):
    fleet = Fleet(folder)
    with fleet:
        yield fleet


@pytest.fixture
def fleet(tmp_path):
    yield from _run(tmp_path)


@pytest.fixture(scope="module")
def common(tmp_path_factory):
    """The same for all tests of a file."""
    yield from _run(tmp_path_factory.mktemp("common"))


@pytest.fixture
def say(capsys, request):
    """Prints what was measured, whatever becomes of the test."""

    def tell(text):
        with capsys.disabled():
            print(f"\n  {request.node.name}: {text}", end="", flush=True)

    return tell


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        for name in ("fleet", "common"):
            if name in getattr(item, "funcargs", {}):
                report.sections.append((f"logs of {name}", item.funcargs[name].logs()))
