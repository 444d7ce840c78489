"""Options inside a script: ``#ROTA`` and ``#SBATCH`` lines before its first command."""

from __future__ import annotations

import re
import shlex
from typing import Any, NamedTuple

import click

from rota.client.errors import ClientError

_LINE = re.compile(r"#(ROTA|SBATCH)(?:[ \t]+(.*))?")


class ScriptLine(NamedTuple):
    """One line with options: where it stands, which kind, what it says."""

    place: str
    kind: str
    text: str


class ScriptOptions(NamedTuple):
    """What the lines of a script ask for, and what to warn about."""

    options: dict[str, Any]
    warnings: list[str]
    #: Whether it is a script for ``sbatch``, too.
    of_slurm: bool = False


def read_lines(text: str, source: str) -> tuple[list[ScriptLine], list[str]]:
    """The option lines before the first command; later ones are not read, which is warned about.

    A line that says ``#ROTAX`` or ``# ROTA`` is a comment like any other.
    """
    lines: list[ScriptLine] = []
    warnings: list[str] = []
    in_head = True
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        found = _LINE.fullmatch(line) if raw.startswith("#") else None
        if found is None:
            in_head = in_head and (not line or line.startswith("#"))
        elif in_head:
            place = f"{source}:{number}"
            lines.append(ScriptLine(place, found[1], found[2] or ""))
        else:
            warnings.append(
                f"{source}:{number}: #{found[1]} after the first command is not read; move it up"
            )
    return lines, warnings


def split(text: str, place: str) -> list[str]:
    """The words of a line, quoted as in a shell; a comment may follow them."""
    try:
        return shlex.split(_without_comment(text))
    except ValueError as error:
        raise ClientError(f"{place}: {str(error).lower()}") from None


def _without_comment(text: str) -> str:
    """Cut at the first ``#`` that begins a word outside quotes."""
    quote = ""
    skip = False
    for place, char in enumerate(text):
        if skip:
            skip = False
        elif char == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (place == 0 or text[place - 1] in " \t"):
            return text[:place]
    return text


def script_options(text: str, source: str) -> ScriptOptions:
    """The options of a script's ``#ROTA`` lines; its ``#SBATCH`` lines are for the server."""
    lines, warnings = read_lines(text, source)
    options: dict[str, Any] = {}
    for line in lines:
        if line.kind == "ROTA":
            tokens = split(line.text, line.place)
            _add(options, parse_tokens(tokens, line.place))
    return ScriptOptions(options, warnings, any(line.kind == "SBATCH" for line in lines))


def parse_tokens(tokens: list[str], place: str) -> dict[str, Any]:
    """The options in the words of one line, read by the command line's own parser."""
    from rota.cli.shared.options import explicit
    from rota.cli.submit.submit_options import LINE, NAMES

    try:
        ctx = LINE.make_context("#ROTA", list(tokens))
    except click.UsageError as error:
        text = error.format_message().rstrip(".")
        raise ClientError(f"{place}: {text[:1].lower()}{text[1:]}") from None
    return explicit(ctx, NAMES)


def _add(options: dict[str, Any], line: dict[str, Any]) -> None:
    """A later line wins; options that may be repeated add up."""
    for name, value in line.items():
        if isinstance(value, tuple) and name in options:
            options[name] = (*options[name], *value)
        else:
            options[name] = value
