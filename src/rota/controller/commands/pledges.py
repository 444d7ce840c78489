"""Deadlines that are promised at the submit: yes with room that is kept, no, or a chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.controller.commands.commands import Answered, Submission, Submit
from rota.core.changes import events as ev
from rota.core.facts.errors import Busy, Conflict, Rejected
from rota.core.facts.tenant import Reservation
from rota.core.words.units import format_duration, format_when
from rota.scheduling.answers.pledging import Pledge, ground_of, pledge_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec
    from rota.core.facts.tenant import Actor
    from rota.scheduling.scheduler import Scheduler

#: With a smaller chance the answer is no.
LEAST_CHANCE = 0.5


class Overtaken(Busy):
    """What a promise rests on has changed since it was worked out."""


def answer(
    scribe: Scribe, scheduler: Scheduler, command: Submit, taken: Sequence[Submission]
) -> tuple[Pledge | None, Answered | None]:
    """What is said of the deadline of a job that asks for a promise; a no is a refusal."""
    if not any(submission.promise for submission in taken):
        return None, None
    if len(taken) > 1:
        raise Rejected.because("promise", True, "promises are asked for job by job, not in a batch")
    (submission,) = taken
    refuse_unfit(submission)
    refuse_more_promises(scribe.cluster, command.actor, command.most_promised)
    found = _found(scribe, scheduler, submission)
    if found is not None and is_in_time(found, submission.spec):
        return found, Answered(start_s=found.start_s)
    if submission.chance >= LEAST_CHANCE:
        return None, Answered(chance=submission.chance)
    raise Conflict(
        f"deadline_at: {why_not(found, submission.spec)}",
        field="deadline_at",
        value=format_when(submission.spec.deadline_s),
        allowed="a later deadline, a shorter time limit, or a deadline without a promise",
    )


def _found(scribe: Scribe, scheduler: Scheduler, submission: Submission) -> Pledge | None:
    """Worked out here, or before and still true: then the room is as it was."""
    spec, weighed = submission.spec, submission.weighed
    if weighed is None:
        return pledge_for(scheduler, spec, scribe.now_s)
    if weighed.pledge is None:
        return None
    pledge = weighed.pledge._replace(start_s=max(weighed.pledge.start_s, scribe.now_s))
    if not is_in_time(pledge, spec):
        return pledge
    if ground_of(scribe.cluster, pledge.room) != weighed.ground:
        raise Overtaken("promise: the site changes too fast to say what can be promised", 1.0)
    return pledge


def refuse_more_promises(cluster: Cluster, actor: Actor, most: int) -> None:
    """Room that is kept for one user is nobody else's."""
    if not most:
        return
    kept = [one.job for one in cluster.reservations.values() if one.room]
    user, jobs = actor.user, cluster.jobs
    held = sum(job in jobs and jobs[job].spec.user == user for job in kept)
    if held >= most:
        allowed = f"user {user} may have {most} promises open (limits.promises) and has {held}"
        text = f"promise: 1 more is not allowed; {allowed}"
        raise Conflict(text, field="promise", value=1, allowed=allowed)


def refuse_unfit(submission: Submission) -> None:
    """A promise is about one job that can start as soon as there is room, and must end."""
    spec = submission.spec
    for field, problem in (
        ("deadline_at", "" if spec.deadline_s else "a promise needs a deadline"),
        ("time_limit_s", "" if spec.time_limit_s else "a promise needs a time limit"),
        ("array", "an array cannot be promised as a whole" if submission.runs else ""),
        ("hold", "a held job cannot be promised anything" if submission.held else ""),
        ("begin_at", "a promise is for a job that can start at once" if spec.begin_s else ""),
        ("depends_on", "nobody knows when its parents end" if spec.dependencies else ""),
    ):
        if problem:
            raise Rejected.because(field, None, problem)


def is_in_time(pledge: Pledge, spec: JobSpec) -> bool:
    return pledge.start_s + spec.time_limit_s <= spec.deadline_s


def why_not(pledge: Pledge | None, spec: JobSpec) -> str:
    """One line that says what would help."""
    asked = format_when(spec.deadline_s)
    wish = "a deadline without a promise is taken as a wish"
    if pledge is None:
        return f"{asked} cannot be promised: nobody can say when the job would start; {wish}"
    done = format_when(pledge.start_s + spec.time_limit_s)
    text = (
        f"{asked} cannot be promised: the job starts at {format_when(pledge.start_s)} at the "
        f"latest and may run for {format_duration(spec.time_limit_s)}; {done} can be promised"
    )
    left_s = int(spec.deadline_s - pledge.start_s)
    shorter = f", or a time limit of {format_duration(left_s)}" if left_s > 0 else ""
    return f"{text}{shorter}; {wish}"


def marked(cluster: Cluster, submission: Submission) -> Submission:
    """As it is taken in: nobody else gets the same answer as a job with room of its own."""
    spec = replace(submission.spec, promised=True, reservation=cluster.ids.next + 1)
    return replace(submission, spec=spec)


def keep(scribe: Scribe, job: int, pledge: Pledge) -> None:
    """From now on the room is that of the job, until its deadline."""
    cluster = scribe.cluster
    spec = cluster.jobs[job].spec
    made = Reservation(
        id=cluster.ids.next,
        owner="",
        start_s=pledge.start_s,
        end_s=spec.deadline_s,
        job=job,
        room=pledge.room,
        note=f"promised: done by {format_when(spec.deadline_s)}",
    )
    assert made.id == spec.reservation
    scribe.emit(ev.ReservationSet(reservation=made))
