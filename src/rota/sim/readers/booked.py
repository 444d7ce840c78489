"""Jobs as Slurm's accounting knows them, whatever they were exported as, and the trace of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.resources import Request
from rota.sim.trace import Trace, TraceJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.sim.readers.text import Text

STEP, NEVER_RAN, NOT_ENDED = "a step of a job", "never started", "not ended"
#: What Slurm writes for "no limit" and "not known" where it writes plain numbers.
NO_NUMBER = 2**32 - 2


class Booked(NamedTuple):
    """One job as accounting knows it; times are seconds since 1970, 0 where there is none."""

    submit_s: float
    start_s: float
    end_s: float
    #: How long it ran; a clock that was set back in between does not matter.
    run_s: float
    limit_s: float
    cpus: int
    nodes: int
    gpus: int
    memory_mib: int
    user: str = ""
    account: str = ""
    name: str = ""
    partition: str = ""
    #: The job that this is one of several parts of; empty: it is one by itself.
    whole: str = ""
    #: It was cancelled while it waited, which older versions book as a run of no length.
    cancelled: bool = False


def trace_of(text: Text, found: Iterable[Booked], left_out: dict[str, int]) -> Trace:
    """The jobs that ran to an end, by their submission: sacct lists by the job's number."""
    booked = sorted(_joined(_ended(found, left_out)), key=lambda one: one.submit_s)
    if not booked:
        told = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        hint = f"; left out: {told}" if told else ""
        raise text.bad(text.last_line, f"no jobs that ran to an end{hint}")
    gpus = any(one.gpus for one in booked)
    begin_s = booked[0].submit_s
    jobs = [_job(number, one, begin_s, gpus) for number, one in enumerate(booked, 1)]
    unit = "GPUs" if gpus else "processors"
    return Trace(text.stem, jobs, unit=unit, left_out=left_out)


def count(left_out: dict[str, int], reason: str) -> None:
    left_out[reason] = left_out.get(reason, 0) + 1


def _ended(found: Iterable[Booked], left_out: dict[str, int]) -> Iterator[Booked]:
    for one in found:
        if not one.start_s or (one.cancelled and one.run_s <= 0):
            count(left_out, NEVER_RAN)
        elif not one.end_s:
            count(left_out, NOT_ENDED)
        else:
            yield one


def _joined(found: Iterable[Booked]) -> list[Booked]:
    """The parts of a heterogeneous job as one: they were submitted and started together."""
    jobs: list[Booked] = []
    places: dict[tuple[str, float, float], int] = {}
    for one in found:
        part = (one.whole, one.submit_s, one.start_s)
        if one.whole and part in places:
            jobs[places[part]] = _sum(jobs[places[part]], one)
        else:
            places[part] = len(jobs)
            jobs.append(one)
    return jobs


def _sum(one: Booked, other: Booked) -> Booked:
    return one._replace(
        end_s=max(one.end_s, other.end_s),
        run_s=max(one.run_s, other.run_s),
        limit_s=max(one.limit_s, other.limit_s),
        cpus=one.cpus + other.cpus,
        nodes=one.nodes + other.nodes,
        gpus=one.gpus + other.gpus,
        memory_mib=one.memory_mib + other.memory_mib,
    )


def _job(number: int, one: Booked, begin_s: float, gpus: bool) -> TraceJob:
    tasks = max(one.nodes, 1)
    request = Request(
        -(-one.cpus * 1000 // tasks),
        one.memory_mib // tasks,
        device="gpu" if one.gpus else "",
        device_count=-(-one.gpus // tasks),
    )
    return TraceJob(
        id=number,
        submit_s=one.submit_s - begin_s,
        run_s=max(one.run_s, 0.0),
        procs=one.gpus if gpus else one.cpus,
        estimate_s=one.limit_s,
        user=one.user,
        group=one.account,
        name=one.name,
        queue=one.partition,
        request=request if gpus else None,
        tasks=tasks if gpus else 1,
    )
