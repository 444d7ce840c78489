"""The places of a sweep's values: ``{lr}`` in a command, a name or a path."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.api.bodies.requests import JobRequest

#: A word in single braces. ``${HOME}`` is the shell's, and what has braces around it a template's.
_SLOT = re.compile(r"(?<![${])\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")


def refuse_unfilled(request: JobRequest, names: list[str]) -> None:
    """A slot that no parameter of a sweep fills is nearly always a mistake in writing."""
    known = {*names, "index"}
    command = [request.command] if isinstance(request.command, str) else request.command
    texts = {"command": command or [], "script_args": request.script_args}
    texts |= {"name": [request.name], "output": [request.output], "error": [request.error]}
    for field, words in texts.items():
        for word in words:
            for slot in _SLOT.findall(word):
                if slot not in known:
                    raise Rejected.because(field, word, _unfilled(slot, sorted(known)))


def _unfilled(slot: str, known: list[str]) -> str:
    near = get_close_matches(slot, known, 1)
    hint = f"did you mean {{{near[0]}}}? " if near else ""
    return (
        f"no parameter fills {{{slot}}}; {hint}known: {', '.join(known)} "
        f"(with spaces inside the braces, {{ {slot} }}, it is left alone)"
    )
