"""What holds for every subcommand: help, exit statuses, --json, colours."""
import os
import pty
import re
import select
import subprocess

import pytest
from conftest import SLUICE, clean_environment

COMMANDS = ["check", "policy check", "policy show", "policy explain", "policy diff", "replay", "buckets show", "buckets reset",
            "alarms", "bench core", "bench table", "bench http", "doctor"]


def test_the_overview_lists_every_command_and_teaches(sluice):
    run = sluice("--help")
    assert run.returncode == 0 and run.stderr == ""
    listed = re.findall(r"^  (\w+(?: \w+)?)  +\S", run.stdout, re.M)
    assert [c for c in listed if c in COMMANDS] == COMMANDS
    assert "Exit status: 0 done, 1 the answer is no, 2 usage, 3 could not reach" in run.stdout
    assert sluice("help").stdout == run.stdout
    nothing = sluice()
    assert nothing.returncode == 2 and nothing.stderr == run.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(sluice, command):
    run = sluice(*command.split(), "--help")
    assert run.returncode == 0 and run.stderr == ""
    assert run.stdout.startswith(f"sluice {command}: ")
    assert f"Usage: sluice {command}" in run.stdout
    assert re.search(rf"^  (?:.*\| )?sluice {command}", run.stdout, re.M), "an example"
    assert "  --json\n" in run.stdout
    assert sluice("help", *command.split()).stdout == run.stdout


def test_version(sluice):
    assert re.fullmatch(r"sluice \d+\.\d+\.\d+\n", sluice("--version").stdout)


@pytest.mark.parametrize("args, message", [
    (["chekc", "k"], "no command `chekc`; did you mean `check`?"),
    (["frobnicate"], "no command `frobnicate`; `sluice --help` lists them"),
    (["policy"], "`policy` needs one of these words"),
    (["polcy"], "no command `polcy`; did you mean `policy`?"),
    (["polcy", "check", "x.yaml"], "no command `polcy`; did you mean `policy check`?"),
    (["policy", "chekc"], "no command `policy chekc`; did you mean `policy check`?"),
    (["check"], "check takes KEY [SCOPE]; `sluice check --help` has examples"),
    (["check", "a", "b", "c"], "check takes KEY [SCOPE]; `sluice check --help` has examples"),
    (["doctor", "x"], "doctor takes no arguments; `sluice doctor --help` has examples"),
    (["check", "k", "--csot", "1"], "check: no option --csot; did you mean --cost?"),
    (["check", "k", "--cost", "-1"], "check: --cost: `-1`: must be a whole number from 0 to 1000000000"),
    (["check", "k", "--cost"], "check: --cost needs a value: --cost N"),
    (["check", "k", "--label", "novalue"], "--label: `novalue`: write NAME=VALUE"),
    (["replay", "log"], "replay needs --policy FILE"),
    (["bench", "http", "ftp://x"], "`ftp://x`: write http://HOST:PORT/PATH"),
    (["bench", "http", "http://127.0.0.1/", "--mode", "open"], "an open loop needs --rate"),
])
def test_usage_is_status_2_with_one_sentence(sluice, args, message):
    run = sluice(*args)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.splitlines()[-1] == f"sluice: {message}"


def test_the_environment_is_read_and_checked(sluice):
    run = sluice("check", "k", env={"SLUICE_SERVER": "127.0.0.1:1"})
    assert run.returncode == 3 and "no answer from 127.0.0.1:1" in run.stderr
    run = sluice("policy", "show", env={"SLUICE_ADMIN": "127.0.0.1:1"})
    assert run.returncode == 3 and "no answer from 127.0.0.1:1" in run.stderr and "SLUICE_ADMIN" in run.stderr
    # A flag beats it, and what is no daemon's business is not read from it.
    run = sluice("check", "k", "--server", "127.0.0.1:2", env={"SLUICE_SERVER": "127.0.0.1:1", "SLUICE_COST": "x"})
    assert run.returncode == 3 and "no answer from 127.0.0.1:2" in run.stderr


def on_terminal(*args, **env):
    """Standard output of a run whose output is a terminal."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen([SLUICE, *args], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL,
                           env=clean_environment(TERM="xterm", **env))
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    run.wait(60)
    return text.decode()


def test_colours_only_on_a_terminal_and_not_with_no_color(sluice, policy_file):
    args = ("check", "k", "--policy", policy_file())
    os.environ.pop("NO_COLOR", None)
    assert "\033[" not in sluice(*args).stdout
    assert "\033[" in sluice(*args, "--color", "always").stdout
    assert "\033[32mallowed" in on_terminal(*args)
    assert "\033[" not in on_terminal(*args, NO_COLOR="1")
    assert "\033[" not in on_terminal(*args, "--color", "never")


@pytest.mark.parametrize("command", [("policy", "show"), ("policy", "show", "--json"), ("policy", "check"), ("policy", "explain", "k")], ids="-".join)
def test_an_answer_that_found_no_room_is_no_success(policy_file, command):
    """`sluice policy show ... > file` on a full disk leaves half of it: a script must not go on with that."""
    with open("/dev/full", "wb") as full:
        run = subprocess.run([SLUICE, *command[:2], policy_file(), *command[2:]], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                             env=clean_environment())
    assert run.returncode == 2 and run.stderr.count("cannot write the answer") == 1, (run.returncode, run.stderr)
