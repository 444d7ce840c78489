"""The compiled starter: built once where there is a C compiler, beside the code or in the folder.

It lies where Python keeps its own compiled files, or else with the keeper's, named after what it
was built from. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from zlib import crc32

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "starter.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wl,-z,now")
#: The agent waits for the keeper while this is done, and not for much longer.
COMPILE_S_MAX = 15.0


def compiled_starter(folder: str) -> str:
    """The path of the compiled starter; empty where there is none to be had."""
    try:
        with open(SOURCE, "rb") as file:
            source = file.read()
    except OSError:
        return ""
    named = crc32(source + " ".join((*FLAGS, os.uname().machine)).encode())
    cache = os.path.join(os.path.dirname(SOURCE), "__pycache__")
    paths = [os.path.join(place, f"starter-{named:08x}") for place in (cache, folder)]
    for path in paths:
        if _is_trusted(path):
            return path
    return next((path for path in paths if _build(path)), "")


def _is_trusted(path: str) -> bool:
    """Made by ourselves or by root, and by nobody else since."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def _build(path: str) -> bool:
    import subprocess  # Costly, and needed once.

    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return False
    draft = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run(
            [compiler, *FLAGS, "-o", draft, SOURCE],
            check=True,
            capture_output=True,
            timeout=COMPILE_S_MAX,
        )
        os.chmod(draft, 0o755)
        os.rename(draft, path)
    except (OSError, subprocess.SubprocessError):
        with suppress(OSError):
            os.unlink(draft)
        return False
    return True
