"""A file of variables (``.env``): settings beside ``rota.toml``, read where one is named.

What the environment says already wins over the file, as everywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import MutableMapping


def parse_env(text: str, source: str) -> dict[str, str]:
    """``NAME=VALUE`` in each line; ``#`` begins a comment; ``export`` and quotes are allowed."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        body = line.strip()
        if not body or body.startswith("#"):
            continue
        name, equals, value = body.removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier():
            raise Rejected(f"{source}: line {number}: {body[:40]!r} is not valid; NAME=VALUE")
        if value[:1] in ("'", '"'):
            if len(value) < 2 or value[-1] != value[0]:
                raise Rejected(f"{source}: line {number}: the quote of {name} is not closed")
            found[name] = value[1:-1]
        else:
            found[name] = value.partition(" #")[0].rstrip()
    return found


def read_env(path: str, environment: MutableMapping[str, str]) -> None:
    """Put the variables of a file into the environment where they are not set yet."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Rejected(f"--env-file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Rejected(f"--env-file: {path}: it is not text in UTF-8") from None
    for name, value in parse_env(text, path).items():
        environment.setdefault(name, value)
