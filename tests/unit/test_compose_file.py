"""The compose file names what there is: services, volumes, commands, settings, the version."""

from __future__ import annotations

from typing import Any

import click
import pytest
import yaml

from rota import __version__, config
from rota.cli.main import cli
from tests.support.machine import REPOSITORY

COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "deploy" / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name in SERVICES if name != "database"]


def test_there_are_a_controller_a_database_and_two_agents():
    agents = [name for name in OURS if SERVICES[name].get("command", [""])[0] == "agent"]

    assert set(SERVICES) == {"database", "controller", "join", *agents}
    assert len(agents) == 2


@pytest.mark.parametrize("name", ["controller", "node1", "node2"])
def test_what_a_service_starts_is_a_command_that_exists(name):
    words = SERVICES[name]["command"]

    _, command, rest = cli.resolve_command(click.Context(cli), words)

    assert command is not None
    assert command.make_context(words[0], rest, resilient_parsing=False).params


@pytest.mark.parametrize("name", OURS)
def test_services_are_built_from_our_file_in_this_version(name):
    service = SERVICES[name]
    folder = REPOSITORY / "deploy" / service["build"]["context"]

    assert (folder / service["build"]["dockerfile"]).is_file()
    assert service["image"] == f"rota:{__version__}"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_and_keeps_is_declared(name):
    service = SERVICES[name]

    assert set(service.get("depends_on", {})) <= set(SERVICES)
    assert {text.split(":")[0] for text in service.get("volumes", [])} <= set(COMPOSE["volumes"])


def test_the_settings_are_valid():
    settings = config.parse("", "", SERVICES["controller"]["environment"])

    assert settings.server.tls_names == ("controller",)
    assert settings.server.database.endswith("@database:5432/rota")
