"""A file with variables, ``NAME=value`` in each line: beside ``rota.toml``, or where it is named.

Variables of the environment itself go before those in the file.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rota.config_checks import read_text
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = ".env"
VARIABLE = "ROTA_ENV_FILE"


def beside(environment: Mapping[str, str], folder: Path | None) -> Mapping[str, str]:
    """The environment, and under it what a file says; ``folder`` is that of ``rota.toml``."""
    given = environment.get(VARIABLE, "")
    path = Path(given).expanduser() if given else folder / NAME if folder is not None else None
    if path is None or not path.is_file():
        if given:
            raise Rejected(f"{VARIABLE}: there is no file {given}")
        return environment
    return {**parse(read_text(path), str(path)), **environment}


def parse(text: str, source: str) -> dict[str, str]:
    """``NAME=value``, also with ``export`` before it, in quotes, and with comments."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise Rejected(f"{source}: line {number}: {str(error).lower()}") from None
        if words[:1] == ["export"]:
            words = words[1:]
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or not name.replace("_", "").isalnum():
                raise Rejected(
                    f"{source}: line {number}: {word!r} is not valid; expected NAME=value"
                )
            found[name] = value
    return found
