"""A batch script of Slurm over the network: its ``#SBATCH`` lines are read as sbatch reads them."""

from __future__ import annotations

import msgspec
from litestar import post

from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import SbatchRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.core.facts.errors import Rejected
from rota.slurm.call.command import Call, Line, Request, run


class SbatchView(msgspec.Struct):
    """The id of the job or array."""

    id: int


_body = Body(SbatchRequest)


@post(
    "/slurm/sbatch",
    summary="Submit a batch script of Slurm",
    opt={"right": "submit", "body": SbatchRequest, "errors": (409, 413, 429, 503)},
)
async def sbatch(request: Asking) -> SbatchView:
    """What sbatch would refuse is refused in its words."""
    asked: SbatchRequest = await body_of(request, _body)
    if not asked.workdir.startswith("/"):
        raise Rejected.bad("workdir", asked.workdir, "an absolute path")
    words = (*asked.options, "--parsable", "/dev/stdin", *asked.args)
    call = Call(
        Request(
            program="sbatch",
            argv=words,
            env=asked.env,
            cwd=asked.workdir,
            actor=actor_of(request),
        ),
        Line(asked.script.encode()),
        context_of(request),
    )
    answer = await run(call)
    text = answer.stdout if isinstance(answer.stdout, str) else answer.stdout.decode()
    number = text.partition(";")[0].strip()
    if answer.code or not number.isdecimal():
        raise Rejected(answer.stderr.strip() or "no job was made", field="script")
    return SbatchView(int(number))


ROUTES = [sbatch]
