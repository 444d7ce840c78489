"""Finding one job or array: in memory, as an untouched element of an array, or in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.auth import may_look_into
from rota.core.facts.array import Array
from rota.core.facts.errors import Forbidden, NotFound, Rejected
from rota.core.facts.indices import IndexSet, position_of
from rota.core.words.kin import is_kin
from rota.digits import is_digits

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Actor

#: Ids are smaller than this; a longer number is no id.
ID_MAX = 2**53


def parse_id(text: str) -> int | None:
    """A plain id, or None."""
    if is_digits(text) and len(text) <= 16:
        return int(text) if int(text) < ID_MAX else None
    return None


def parse_element(text: str) -> tuple[int, int] | None:
    """``5_3``: the array and the index, or None."""
    family, mark, index = text.partition("_")
    array_id, number = parse_id(family), parse_id(index)
    return (array_id, number) if mark and array_id and number is not None else None


def missing(ref: int | str) -> NotFound:
    text = str(ref)[:80]
    shown = text if text.isprintable() else repr(text)
    return NotFound(f"there is no job {shown}", field="id", value=text)


def in_memory(cluster: Cluster, job_id: int) -> Job | Array | None:
    """An unfinished job, an element without a record of its own, or an array."""
    job = cluster.jobs.get(job_id)
    if job is not None:
        return job
    if (array := cluster.arrays.get(job_id)) is not None:
        return array
    family = cluster.families.family_of(job_id)
    return None if family is None else virtual(family, family.position(job_id))


def virtual(array: Array, position: int) -> Job | None:
    """The element at a position if nothing has touched it: it waits, or was cut off waiting."""
    if position in array.pending():
        return array.expand(position)
    return cut_element(array, position) if position in IndexSet(array.cut) else None


def cut_element(array: Array, position: int) -> Job:
    """An element that was settled before anything touched it."""
    job = array.expand(position)
    job.outcome, job.ended_s = array.cut_outcome, array.cut_s
    return job


async def find(host: Host, ref: int | str) -> Job | Array:
    """The job or array behind an id, ``5_3`` or a uid; ``NotFound`` when there is none."""
    job_id = ref if isinstance(ref, int) else parse_id(ref)
    if job_id is None:
        pair = parse_element(str(ref))
        if pair is None:
            return await _by_uid(host, str(ref))
        job_id = await _element_id(host, *pair)
    found = in_memory(host.cluster, job_id)
    if found is None and 0 < job_id < ID_MAX:
        found = await host.read(lambda store: store.job(job_id) or store.array(job_id))
        # It may have become a row, or left the rows, while we asked.
        found = in_memory(host.cluster, job_id) or found
    if found is None:
        raise missing(ref)
    return found


async def find_own(host: Host, actor: Actor, job_id: str, what: str) -> Job | Array:
    """The job, if the caller may look into it; ``what`` ends the refusal: "its logs are"."""
    found = await find(host, job_id)
    if not (may_look_into(actor, found.spec.user) and is_kin(actor, found.id, found.spec)):
        raise Forbidden(
            f"job {found.id} belongs to {found.spec.user}; {what} theirs",
            field="id",
            value=found.id,
        )
    return found


def one_job(item: Job | Array, lack: str) -> Job:
    """The job itself; arrays are refused that lack what is asked for: "has no logs"."""
    if isinstance(item, Array):
        why = f"{item.id} is an array, which {lack}; name an element: {item.id}_3"
        raise Rejected.because("id", item.id, why)
    return item


async def _element_id(host: Host, array_id: int, index: int) -> int:
    array = host.cluster.arrays.get(array_id)
    if array is None:
        array = await host.read(lambda store: store.array(array_id))
    return _id_at(array, array_id, index)


def _id_at(array: Array | None, array_id: int, index: int) -> int:
    position = None if array is None else position_of(array.runs, index)
    if array is None or position is None:
        raise missing(f"{array_id}_{index}")
    return array.element_id(position)


async def _by_uid(host: Host, uid: str) -> Job | Array:
    job: Job | None = await host.read(lambda store: store.job_by_uid(uid))
    if job is not None:
        return host.cluster.jobs.get(job.id, job)
    family, _, index = uid.partition(".")
    for array in host.cluster.arrays.values():
        if array.uid == family:
            number = parse_id(index)
            if not index:
                return array
            position = None if number is None else position_of(array.runs, number)
            element = None if position is None else virtual(array, position)
            if element is not None:
                return element
    ended: Array | None = await host.read(lambda store: store.array_by_uid(uid))
    if ended is not None:
        return ended
    raise missing(uid)


async def resolve(host: Host, ref: int | str) -> int:
    """The id that a caller means. Plain numbers are not looked up."""
    if isinstance(ref, int):
        return ref
    job_id = parse_id(ref)
    return job_id if job_id is not None else (await find(host, ref)).id


def resolve_now(host: Host, text: str) -> int:
    """The id behind ``12`` or ``5_3``, without waiting; see ``Parents.at_hand``."""
    job_id = parse_id(text)
    if job_id is not None:
        return job_id
    pair = parse_element(text)
    if pair is None:
        raise missing(text)
    array = host.parents.get(pair[0])
    return _id_at(array, *pair)
