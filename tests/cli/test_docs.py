"""Every ``rota`` command that a page shows is one that exists, with these options and values."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from rota.cli.main import cli
from tests.support.machine import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: In files that are no console a comment says which command makes a value.
OTHER = re.compile(r"^```(?:yaml|toml|ini)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"# (rota .*)$", re.MULTILINE)
PROMPT = re.compile(r"^(?:[a-z0-9]+)?[$#] (.*)$")
ENDS = ("|", ">", ">>", ";", "&&", "||", "&", "2>", "<")
#: Shown because they are refused; the page has the line with which they are.
REFUSED = ("submit --constraint 'a b' -- true", "submit --mem 16 -- true")
REFUSED += ("submit --time 10:30 -- true", "submit --tiem 3h -- python train.py 0.1")


def commands(text: str) -> list[str]:
    """The lines behind a prompt, those that go on with a backslash joined."""
    found = []
    for block in BLOCK.findall(text):
        joined = re.sub(r"\\\n\s*", "", block)
        found += [shown[1] for line in joined.splitlines() if (shown := PROMPT.match(line))]
    for block in OTHER.findall(text):
        found += COMMENT.findall(block)
    return found


def rota_calls(line: str) -> list[list[str]]:
    """The arguments of each ``rota`` in a line of a shell."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>()")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    calls: list[list[str]] = []
    for number, word in enumerate(words):
        before = words[number - 1] if number else ";"
        begins = before in (*ENDS, "(", "$(") or "=" in before or before in ("time", "sudo")
        if word == "rota" and begins:
            rest = words[number + 1 :]
            end = next((at for at, one in enumerate(rest) if one in ENDS or one[0] in ");"), None)
            calls.append(rest[:end])
    return calls


SHOWN = sorted(
    {
        (page.name, shlex.join(call))
        for page in PAGES
        for line in commands(page.read_text(encoding="utf-8"))
        for call in rota_calls(line)
        if call and shlex.join(call) not in REFUSED
    }
)


def parse(words: list[str]) -> click.Context:
    """Down to the last command, without running any."""
    group: click.Group = cli
    context = click.Context(cli, info_name="rota")
    while words and words[0] == "--site":
        words = words[2:]
    while True:
        _, command, rest = group.resolve_command(context, words)
        assert command is not None
        context = command.make_context(words[0], rest, parent=context)
        if not isinstance(command, click.Group):
            return context
        words = [*context._protected_args, *context.args]
        if not words:
            return context
        group = command


@pytest.mark.parametrize(("page", "call"), SHOWN)
def test_a_command_that_a_page_shows_exists(page, call):
    words = shlex.split(call)

    assert parse(words).command_path.split()[1] in words


@pytest.mark.parametrize("call", REFUSED)
def test_a_command_that_a_page_shows_as_refused_is(call):
    pages = [REPOSITORY / "docs" / name for name in ("jobs.md", "hour-student.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages).lower()

    with pytest.raises(click.UsageError) as refused:
        parse(shlex.split(call))

    assert refused.value.message[:40].lower() in text


def test_most_pages_show_commands():
    assert len({page for page, _ in SHOWN}) > 12
    assert len(SHOWN) > 150
