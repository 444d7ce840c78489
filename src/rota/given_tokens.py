"""How a program is given a token: in a file or in its environment, never on its command line.

Imported by commands, so it knows the standard library only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Why ``--token T`` is refused, and what to do instead.
SEEN_BY_ALL = (
    "--token: every user of this machine can read a command line (ps); put the token into a file "
    "(--token-file FILE) or into ROTA_TOKEN"
)


class NoToken(Exception):
    """The file cannot be read; the text says why in one line."""


def read_token(file: str, environment: Mapping[str, str]) -> str:
    """The token in the file (``-``: the standard input), else ROTA_TOKEN; empty: none."""
    if not file:
        return environment.get("ROTA_TOKEN", "").strip()
    try:
        token = sys.stdin.readline() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise NoToken(f"--token-file: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NoToken(f"--token-file: {file} is not UTF-8 text") from None
    if len(token.split()) != 1:
        raise NoToken(f"--token-file: {file} must hold one token and nothing else")
    return token.strip()
