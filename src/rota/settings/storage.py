"""[checkpoints], [results], [bundles] and [retention]: what a site keeps of its users' work."""

from __future__ import annotations

import msgspec

from rota.core.words.units import parse_memory_mib

MIB = 1 << 20


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """[checkpoints]: how much saved work may weigh, and for how long it is kept."""

    #: A URL that fsspec reads (``s3://bucket/prefix``, ``file:///shared``); empty: none.
    store: str = ""
    #: The most that the checkpoint folder of a job may weigh; empty: no bound.
    max_size: str = "100g"
    #: Reported checkpoints of a job that are kept; 0: all.
    keep: int = 0
    #: So long after its end the saved work of a job is kept; 0: for ever.
    days: int = 7

    @property
    def max_bytes(self) -> int:
        """0: no bound."""
        return parse_memory_mib(self.max_size) * MIB


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """[results]: what functions returned, on the nodes that they ran on."""

    #: So long after the last one that a program's jobs left they are kept; 0: for ever.
    days: int = 7


class Bundles(msgspec.Struct, frozen=True, kw_only=True):
    """[bundles]: working folders that travel with a job."""

    #: The folder of those that came, which several heads share; empty: in the state folder.
    path: str = ""
    #: The most that one may weigh, packed.
    max_size: str = "512m"
    #: One that no job has asked for in this time is dropped.
    days: int = 30

    @property
    def max_bytes(self) -> int:
        return parse_memory_mib(self.max_size) * MIB


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """[retention]: what becomes of jobs that ``server.retention_days`` forgets."""

    #: A folder that they are added to before; empty: none.
    archive: str = ""


def check_store(url: str) -> None:
    """A URL with a scheme; which schemes there are is known where it is opened."""
    scheme, mark, rest = url.partition("://")
    if url and not (scheme and mark and rest):
        raise ValueError(f"{url!r} is not valid; expected a URL such as s3://BUCKET/PREFIX")


def check_bundle_size(text: str) -> None:
    if not parse_memory_mib(text):
        raise ValueError(f"{text!r} is not valid; expected a size such as 512m")
