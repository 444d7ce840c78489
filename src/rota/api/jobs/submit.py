"""Submitting: from the bytes of a body to the bytes of an answer."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.api.asgi import API
from rota.api.bodies.requests import JobRequest, decode_batch, decode_job
from rota.api.jobs.promises import PromiseView, promise_view, promised
from rota.controller.commands.commands import Submission, Submit, Submitted
from rota.core.facts.errors import Rejected
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Access
from rota.settings.limits import UserLimits

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.facts.tenant import Actor

#: What an admin may have waiting and be promised.
NO_LIMITS = UserLimits(queued=0, promises=0)
KEY_MAX = 200
#: Bytes of command, variables and rows of a job that do not count among its blobs.
WORDS_FREE = 16 * 1024
DIGEST_LENGTH = 32
#: Of a submit, which is kept with its job: it tells requests of one user and one key apart.
SUBMIT_DIGEST_LENGTH = 16


class SubmitAnswer(NamedTuple):
    status: int
    body: bytes
    #: Where what was made can be found; empty: nowhere.
    location: str = ""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"location", self.location.encode())] if self.location else []


class SubmittedView(msgspec.Struct, omit_defaults=True):
    """``state`` is the one that the job was submitted in."""

    id: int
    uid: str
    state: JobState
    array_id: int | None = None
    count: int | None = None
    #: What is said of its deadline, where a promise was asked for.
    promise: PromiseView | None = None


class BatchView(msgspec.Struct):
    """One id per entry; of an array, the array's."""

    ids: list[int]


_encode = msgspec.json.Encoder().encode


async def submit_one(context: Context, actor: Actor, body: bytes, key: str) -> SubmitAnswer:
    """``POST /jobs``."""
    asked = decode_job(body)
    submission = await context.host.parents.at_hand(
        lambda: context.repeated.submission(asked, actor)
    )
    done = await _ask(context, actor, (submission,), key, asked)
    uid = done.uids[0] if done.uids else await _uid_of(context, done.ids[0])
    view = SubmittedView(done.ids[0], uid, JobState.HELD if submission.held else JobState.QUEUED)
    if submission.runs:
        view.array_id = done.ids[0]
        view.count = sum(map(len, submission.runs))
    if done.promise is not None:
        view.promise = promise_view(done.promise, submission.spec)
    return SubmitAnswer(200 if done.repeated else 201, _encode(view), f"{API}/jobs/{view.id}")


async def submit_batch(context: Context, actor: Actor, body: bytes, key: str) -> SubmitAnswer:
    """``POST /jobs:batch``."""
    asked = decode_batch(body).jobs
    submissions = await context.host.parents.at_hand(
        lambda: tuple(_numbered(context, actor, n, job) for n, job in enumerate(asked))
    )
    done = await _ask(context, actor, submissions, key, asked)
    return SubmitAnswer(200 if done.repeated else 201, _encode(BatchView(list(done.ids))))


def _numbered(context: Context, actor: Actor, number: int, job: JobRequest) -> Submission:
    try:
        return context.repeated.submission(job, actor)
    except Rejected as error:
        error.field = f"jobs[{number}].{error.field}"
        error.detail = f"jobs[{number}].{error.detail}"
        raise


async def _ask(
    context: Context,
    actor: Actor,
    submissions: tuple[Submission, ...],
    key: str,
    asked: JobRequest | list[JobRequest],
) -> Submitted:
    check_key(key)
    # Of what was read, so that blanks and the order of fields make no difference.
    digest = sha256(_encode(asked)).hexdigest()[:SUBMIT_DIGEST_LENGTH] if key else ""
    return await hand_in(context, actor, submissions, key, digest)


def check_key(key: str) -> None:
    """An Idempotency-Key that can be kept, or none."""
    if len(key) > KEY_MAX or not key.isprintable():
        raise Rejected.bad("Idempotency-Key", key, f"up to {KEY_MAX} printable characters")


async def hand_in(
    context: Context,
    actor: Actor,
    submissions: tuple[Submission, ...],
    key: str = "",
    digest: str = "",
) -> Submitted:
    """The one way in for jobs of callers, with the limits of the site."""
    context.gate.blobs(actor, sum(map(_weight, submissions)))
    limits = NO_LIMITS if actor.access is Access.ADMIN else context.settings.limits

    async def ask(*submissions: Submission) -> Submitted:
        command = Submit(
            actor=actor,
            submissions=submissions,
            key=key,
            digest=digest,
            most_waiting=limits.queued,
            most_promised=limits.promises,
        )
        done: Submitted = await context.host.ask(command)
        return done

    if len(submissions) == 1 and submissions[0].promise:
        return await promised(context, actor, submissions[0], ask)
    return await ask(*submissions)


def _weight(submission: Submission) -> int:
    """What it brings that is kept for as long as the job is; words of usual length are not told."""
    spec = submission.spec
    words = sum(map(len, spec.command)) + 8 * len(spec.command)
    words += sum(len(name) + len(value) for name, value in spec.variables.items())
    words += sum(len(value) for row in submission.rows for value in row)
    blobs = sum(map(len, submission.blobs.values()))
    return blobs + (words if words > WORDS_FREE else 0)


async def _uid_of(context: Context, item: int) -> str:
    """The uid that the first of two equal submits was given."""
    cluster = context.host.cluster
    known = cluster.jobs.get(item) or cluster.arrays.get(item)
    if known is None:
        known = await context.host.read(lambda store: store.job(item) or store.array(item))
    return "" if known is None else known.uid
