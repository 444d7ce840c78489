"""``rota service``: which files are written, and that systemd understands the units."""

import shutil
import stat
import subprocess
import sys

import pytest

from rota import config
from rota.cli.service import units
from tests.support.machine import missing

RUN = [sys.executable, "-m", "rota.cli.main", "service"]


def service(*words, expect=0, **more):
    done = subprocess.run([*RUN, *words], capture_output=True, text=True, check=False, **more)
    assert done.returncode == expect, done.stderr
    return done.stdout + done.stderr


def verified(path, *words):
    """What systemd has to say against a unit."""
    if shutil.which("systemd-analyze") is None:
        missing("no systemd-analyze on this machine")
    done = subprocess.run(
        ["systemd-analyze", *words, "verify", path], capture_output=True, text=True, check=False
    )
    return [line for line in done.stderr.splitlines() if path.name in line]


def a_unit(**changes):
    usual = {"command": ["/bin/true", "up"], "system": True, "what": "scheduler"}
    return units.unit(units.UnitOrder(**(usual | {"systemd": 252} | changes)))


@pytest.mark.parametrize("agent", [False, True])
def test_systemd_has_nothing_against_the_units(tmp_path, agent):
    command = ["/bin/true", "agent", "--join", "https://head:8082"] if agent else ["/bin/true"]
    path = tmp_path / (units.AGENT if agent else units.HEAD)
    path.write_text(a_unit(command=command, state_dir="/var/lib/rota"))

    assert verified(path) == []


def test_systemd_has_nothing_against_the_unit_of_one_person(tmp_path):
    path = tmp_path / units.HEAD
    path.write_text(a_unit(system=False))

    assert verified(path, "--user") == []


def test_a_restart_of_the_unit_cannot_end_jobs():
    text = a_unit(state_dir="/var/lib/rota").splitlines()

    for line in ("Type=notify", "KillMode=process", "Delegate=yes", "OOMPolicy=continue"):
        assert line in text
    assert 'Environment="ROTA_STATE_DIR=/var/lib/rota"' in text


@pytest.mark.parametrize(("version", "there"), [(252, False), (254, True), (0, True)])
def test_a_part_of_the_group_is_asked_for_where_systemd_knows_that(version, there):
    assert ("DelegateSubgroup=rota" in a_unit(systemd=version)) is there


def test_words_of_the_command_are_quoted_as_systemd_reads_them(tmp_path):
    path = tmp_path / units.HEAD
    path.write_text(a_unit(command=["/bin/true", "a b", "100%", "$HOME", 'say "x"']))

    assert 'ExecStart=/bin/true "a b" "100%%" "$$HOME" "say \\"x\\""' in path.read_text()
    assert verified(path) == []


def test_an_image_gets_unit_settings_and_state_folder(tmp_path):
    said = service("install", "--root", str(tmp_path))

    toml = tmp_path / "etc/rota/rota.toml"
    assert f"wrote {tmp_path}/etc/systemd/system/rota.service" in said
    assert config.parse(toml.read_text(), "rota.toml", {}) == config.Config()
    assert stat.S_IMODE(toml.stat().st_mode) == 0o600
    assert (tmp_path / "var/lib/rota").is_dir()
    assert " up\n" in (tmp_path / "etc/systemd/system/rota.service").read_text()


def test_settings_that_are_there_stay(tmp_path):
    toml = tmp_path / "etc/rota/rota.toml"
    toml.parent.mkdir(parents=True)
    toml.write_text("[server]\n")

    said = service("install", "--root", str(tmp_path), "--no-agent")

    assert f"kept {toml}" in said
    assert toml.read_text() == "[server]\n"
    assert " up --no-agent\n" in (tmp_path / "etc/systemd/system/rota.service").read_text()


def test_the_token_of_an_agent_is_in_a_file_of_root_and_on_no_command_line(tmp_path):
    given = tmp_path / "token"
    given.write_text("rota_ab_hunter2\n")
    image = tmp_path / "image"

    service(
        *("install", "--agent", "--join", "https://head:8082", "--name", "n1"),
        *("--token-file", str(given), "--root", str(image)),
    )

    copy, unit = image / "etc/rota/join.token", image / "etc/systemd/system/rota-agent.service"
    assert copy.read_text() == "rota_ab_hunter2\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert "hunter2" not in unit.read_text()
    wanted = "agent --join https://head:8082 --name n1 --token-file /etc/rota/join.token\n"
    assert wanted in unit.read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["install", "--agent"], "--agent goes with --join URL"),
        (["install", "--join", "https://head:8082"], "--join, --token-file and --name go with"),
        (["install", "--agent", "--join", "head"], "--join: 'head' is not valid; expected https"),
        (["remove", "--user"], "there is no "),
    ],
)
def test_bad_calls_are_refused_in_one_line(tmp_path, words, line):
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    said = service(*words, expect=2, env=home | _python_path())

    assert line in said
    assert len(said.splitlines()) == 1


def test_what_is_no_service_says_how_it_becomes_one(tmp_path):
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"} | _python_path()
    unit = tmp_path / ".config/systemd/user/rota.service"

    mine = service("status", "--user", expect=3, env=home)
    node = service("status", "--user", "--agent", expect=3, env=home)
    unit.parent.mkdir(parents=True)
    unit.touch()
    other = service("status", expect=3, env=home)

    install = "'rota service install --user' makes one"
    assert mine == f"rota: no service of yours: there is no {unit}; {install}\n"
    assert "'rota service install --agent --join URL --user' makes one" in node
    assert other == "rota: no service of this machine; see 'rota service status --user'\n"


def test_a_session_that_systemd_does_not_know_is_told_what_to_do(tmp_path):
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2; exit 1\n")
    program.chmod(0o755)
    home = {"HOME": str(tmp_path), "PATH": f"{program.parent}:/usr/bin:/bin"}

    said = service("install", "--user", expect=2, env=home | _python_path())

    assert "No medium found; no systemd listens to this session: log in anew" in said
    assert "--no-start" in said


def _python_path():
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}
