"""What one attempt asks of an engine, and the key by which the engine knows it again."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rota.rpc.messages import Launch

#: What every key of ours begins with.
MARK = "rota"
_KEY = re.compile(rf"{MARK}:(?P<cluster>[0-9A-Za-z]+):(?P<uid>[0-9A-Za-z._-]+)")


class Key(NamedTuple):
    """The only identity of an attempt: ids of engines may be given to other jobs later.

    It names the cluster, so that two installations on one engine leave each other alone.
    """

    cluster: str
    uid: str

    def __str__(self) -> str:
        return f"{MARK}:{self.cluster}:{self.uid}"


def parse_key(text: str) -> Key | None:
    """The key in a comment or a label; None: it is not one of ours."""
    found = _KEY.fullmatch(text)
    return Key(found["cluster"], found["uid"]) if found else None


class Gang(msgspec.Struct, frozen=True, omit_defaults=True):
    """The members of a job of several tasks that start together."""

    #: By rank.
    uids: tuple[str, ...] = ()
    rank: int = 0
    #: How many of them run on one node of the engine at the most, and on how many nodes (0: on as
    #: few as that takes).
    per_node: int = 1
    nodes: int = 0
    #: Where each writes its output and errors, by rank; empty: all where the first one does.
    outputs: tuple[tuple[str, str], ...] = ()

    @property
    def leader(self) -> str:
        """The member whose key stands for all where a gang is one job."""
        return self.uids[0]


class AttemptOrder(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One attempt, with what an engine wants to know beside its launch."""

    key: Key
    launch: Launch
    name: str = ""
    project: str = ""
    #: The engine's words for it: partition or queue, account, quality of service.
    queue: str = ""
    account: str = ""
    qos: str = ""
    #: Rota's own timer rings first; the engine's is a backstop. 0: none.
    time_limit_s: int = 0
    gpus: int = 0
    gpu_type: str = ""
    #: The engine's node that it shall run on, or several with commas; empty: the engine chooses.
    node: str = ""
    #: The pool that it was placed in.
    pool: str = ""
    gang: Gang | None = None
    labels: dict[str, str] = {}

    @property
    def uid(self) -> str:
        return self.key.uid


def order_of(launch: Launch, key: Key, node: str, *, pool: bool = False) -> AttemptOrder:
    """What the controller asked for, for the engine's ``node``, or for a pool of that name."""
    order = AttemptOrder(
        key=key, launch=launch, node="" if pool else node, pool=node if pool else ""
    )
    said = launch.order
    if said is None:
        return order
    gang = None
    if len(said.gang) > 1:
        gang = Gang(said.gang, said.gang.index(key.uid), nodes=said.nodes)
    return replace(
        order,
        name=said.name,
        project=said.project,
        queue=said.queue,
        time_limit_s=said.time_limit_s,
        labels=said.labels,
        gpus=said.gpus,
        gpu_type=said.gpu_type,
        gang=gang,
    )
