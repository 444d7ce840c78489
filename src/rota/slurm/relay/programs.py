"""The small programs that run elsewhere, as text: the relay, and what starts tasks of steps.

A node needs Python for them and nothing of ours; they are put together from files beside this one.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

#: Found by its name: on a node we do not know where it is.
ANY_PYTHON = "/usr/bin/env -S python3"
_OURS = re.compile(r"^from rota\.[^(\n]*(\([^)]*\))?\n", re.MULTILINE)
_MAIN = '\nif __name__ == "__main__":'
_DEFAULT = 'DEFAULT_SOCKET = ""'


def relay_script(python: str, socket: str) -> str:
    """The commands that are only relayed."""
    return f"#!{python} -ISE\n" + _text("relay.py").replace(
        _DEFAULT, f"DEFAULT_SOCKET = {socket!r}"
    )


@cache
def step_script(python: str = ANY_PYTHON, socket: str = "") -> bytes:
    """srun, salloc or a stand-in, by the name that it is called with."""
    first = relay_script(python, socket).partition(_MAIN)[0]
    parts = ("step_tasks.py", "step_taps.py", "stepper.py", "step_programs.py")
    rest = [_without_imports(_text(name)) for name in parts]
    return "\n\n".join([first, *rest]).encode()


def relay_sources() -> dict[str, str]:
    """The relay in C, and what it can be linked with in the place of a C library."""
    return {name: _text(name) for name in ("relay.c", "bare.c")}


def _text(name: str) -> str:
    return files("rota.slurm.relay").joinpath(name).read_text()


def _without_imports(text: str) -> str:
    """What the parts import from each other is there already."""
    return _OURS.sub("", text)
