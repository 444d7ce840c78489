"""The machines of an engine as they were first shown, on disk.

One may leave its engine, or be given another name, while nobody looks. What ran there is still to
be told of, and that takes a node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from rota.backends.api import EngineNode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

FILE = "machine"
#: What is said of one that is not listed any more.
LEFT = "the engine does not list it any more"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(EngineNode).decode

log = logging.getLogger("rota.engine")


class MachineRegister:
    """Below ``folder`` each machine has a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, node: EngineNode) -> None:
        home = self._folder / node.spec.name
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = home / f"{FILE}.new"
        fresh.write_bytes(_encode(node))
        fresh.rename(home / FILE)

    def left(self, wanted: Collection[str], name_of: Callable[[str], str]) -> list[EngineNode]:
        """Those of these nodes of ours that were shown once, as machines out of service."""
        found = []
        for path in sorted(self._folder.glob(f"*/{FILE}")) if wanted else ():
            try:
                node = _decode(path.read_bytes())
            except (OSError, msgspec.DecodeError) as error:
                log.warning("%s cannot be read: %s", path, error)
                continue
            if name_of(node.spec.name) in wanted:
                found.append(replace(node, usable=False, detail=LEFT))
        return found
