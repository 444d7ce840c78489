"""``sbatch --export-file``: the environment of a job from a file, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.digits import is_digits
from rota.slurm.call.command import Call, CommandFailed

if TYPE_CHECKING:
    from rota.slurm.orders.orders import JobOrder


async def with_file(call: Call, order: JobOrder) -> Call:
    """The call as if it came from the environment in the file; as it is if none is named."""
    name = order.text("export-file")
    if not name:
        return call
    body = await call.line.read_file(_path(call, name))
    if isinstance(body, int):
        raise CommandFailed(f"sbatch: error: Could not open user environment file {name}\n", 1)
    try:
        env = variables(body.decode())
    except UnicodeDecodeError as error:
        place = f"at byte {error.start}"
        raise CommandFailed(
            f"sbatch: error: {name}: not an environment in UTF-8 ({place})\n", 1
        ) from None
    return Call(msgspec.structs.replace(call.request, env=env), call.line, call.context)


def _path(call: Call, name: str) -> str:
    """A number is a file that the caller has open."""
    if is_digits(name):
        return f"/dev/fd/{name}"
    return call.request.path(name)


def variables(text: str) -> dict[str, str]:
    """``NAME=VALUE`` between zero bytes, or on lines where there is none."""
    found = {}
    for entry in text.split("\0") if "\0" in text else text.splitlines():
        name, mark, value = entry.partition("=")
        if mark and name:
            found[name] = value
    return found
