"""Help texts: whole in every list, and true of the command that they stand below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from rota.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator


def commands(command: click.Command, name: str = "rota") -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for word in command.list_commands(context):
            found = command.get_command(context, word)
            assert found is not None
            yield from commands(found, f"{name} {word}")


def test_no_summary_in_a_list_of_commands_is_cut() -> None:
    cut = [
        f"{name}: {line.strip()}"
        for name, command in commands(cli)
        if isinstance(command, click.Group)
        for line in command.get_help(click.Context(command, info_name=name)).splitlines()
        if line.startswith("  ") and line.endswith("...")
    ]

    assert not cut, "\n".join(cut)


@pytest.mark.parametrize("name", ["rota update", "rota redo"])
def test_a_change_of_a_job_promises_no_defaults(name: str) -> None:
    command = dict(commands(cli))[name]

    assert "[default" not in command.get_help(click.Context(command, info_name=name))
