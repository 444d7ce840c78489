"""A batch script of Slurm over the network: its ``#SBATCH`` lines are read as sbatch reads them."""

from __future__ import annotations

import msgspec
from litestar import post

from rota.api.asgi import API
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import SbatchRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.jobs.plan import PlanView, planned
from rota.core.facts.errors import Rejected
from rota.digits import is_digits
from rota.slurm.call.command import Answer, Call, CallerLine, CallRequest, handled, load, run

_READ = "rota.slurm.submit.sbatch:read_batch"
_LINE_OF = "rota.slurm.submit.sbatch:line_of"


class SbatchView(msgspec.Struct, omit_defaults=True):
    """The id of the job or array, and what sbatch had to say about it."""

    id: int
    warnings: list[str] = []


_body = Body(SbatchRequest)


@post(
    "/slurm/sbatch",
    summary="Submit a batch script of Slurm",
    opt={
        "right": "submit",
        "body": SbatchRequest,
        "creates": "id",
        "made_in": f"{API}/jobs",
        "errors": (409, 413, 429, 503),
    },
)
async def sbatch(request: Asking) -> SbatchView:
    """What sbatch would refuse is refused in its words."""
    call = await _call(request)
    answer = await run(call)
    text = answer.stdout if isinstance(answer.stdout, str) else answer.stdout.decode()
    number = text.partition(";")[0].strip()
    if answer.code or not is_digits(number):
        raise await _rejected(call, answer)
    return SbatchView(int(number), answer.stderr.splitlines())


@post(
    "/slurm/plan",
    summary="What would become of a batch script of Slurm, without submitting it",
    opt={"right": "submit", "body": SbatchRequest, "errors": (409, 413)},
    status_code=200,
)
async def plan_script(request: Asking) -> PlanView:
    """Takes what POST /slurm/sbatch takes and refuses what it refuses; nothing is changed."""
    call = await _call(request)
    batch = await handled(call, load(_READ))
    if isinstance(batch, Answer):
        raise await _rejected(call, batch)
    return await planned(call.context, call.actor, batch.submission)


async def _call(request: Asking) -> Call:
    asked: SbatchRequest = await body_of(request, _body)
    if not asked.workdir.startswith("/"):
        raise Rejected.bad("workdir", asked.workdir, "an absolute path")
    place = asked.path or "/dev/stdin"
    told = CallRequest(
        program="sbatch",
        argv=(*asked.options, "--parsable", place, *asked.args),
        env=asked.env,
        cwd=asked.workdir,
        umask=asked.umask,
        actor=actor_of(request),
        job=asked.job,
        alone=asked.alone,
    )
    return Call(told, CallerLine(asked.script.encode(), told.path(place)), context_of(request))


async def _rejected(call: Call, answer: Answer) -> Rejected:
    """In the words of sbatch, behind the line of the script that they are about."""
    said = answer.stderr.strip()
    line: int = load(_LINE_OF)(await call.line.read_stdin(), said)
    text = " ".join(said.split()) or "no job was made"
    detail = f"script: line {line}: {text}" if line else text
    return Rejected(detail, field="script", value=line or None)


ROUTES = [sbatch, plan_script]
