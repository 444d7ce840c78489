"""``sbcast``: a file of the caller, copied to every node of a job."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.commands.change import may_change_job
from rota.core.facts.states import JobState
from rota.digits import is_digits
from rota.hostlist import compress, natural
from rota.slurm.call import wire
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words
from rota.slurm.orders.options import SHEETS
from rota.slurm.orders.orders import read_order
from rota.slurm.steps.staffing import require_staff
from rota.slurm.steps.step_plan import StepPart, members_of, plan_step
from rota.slurm.steps.step_run import RunningStep
from rota.slurm.steps.steps import home_of, stream_of

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call

OPTIONS = OptionTable(
    "C compress=?LIBRARY: compress on the way: it goes as it is",
    "exclude=PATHS: libraries that are not copied: none are",
    "f force: in the place of a file that is there",
    "F fanout=COUNT: how many nodes at once: all, which is how it always is",
    "j jobid=ID: to the nodes of this job, instead of the one that it is called in",
    "p preserve: with the mode and the time of the file",
    "send-libs=?YES|NO: libraries of a program, too: they are not copied",
    "s size=BYTES: the size of the parts that it is sent in: 64 KiB, as ever",
    "t timeout=SECONDS: how long it may take: as long as it does",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "help: this text",
    "usage: the names of all options",
)
_NO_JOB = (
    "sbcast: error: Need a job id to run this command.  Run from within a Slurm job or use the "
    "--jobid option.\n"
)
#: Behind the numbers of steps, which people see and these are not among.
_NUMBERS = itertools.count(0xF0000000)
#: What each node runs: the path, whether it may be there, its mode and its time; errno at the end.
#: The folder may be everybody's, so nobody may know the name of the draft, nor read it.
_COPY = """\
if [ -e "$1" ] && [ "$2" = 0 ]; then exit 17; fi
folder=$(dirname "$1")
[ -d "$folder" ] || exit 2
[ -w "$folder" ] || exit 13
draft=$(mktemp "$1.sbcast.XXXXXXXX" 2>/dev/null) || exit 28
cat > "$draft" 2>/dev/null || { rm -f "$draft"; exit 28; }
chmod "$3" "$draft"
[ -z "$4" ] || touch -d "@$4" "$draft"
mv -f "$draft" "$1" 2>/dev/null || { rm -f "$draft"; exit 5; }
"""


async def sbcast(call: Call) -> Answer:
    """Copy, and say which nodes could not take it."""
    parsed = read_words("sbcast", OPTIONS, call.request.argv)
    given = dict(parsed.options)
    if told := about_itself("sbcast", OPTIONS, given, "SOURCE DEST"):
        return told
    if len(parsed.rest) != 2:
        many = f"Need two file names, have {len(parsed.rest)} names\n"
        raise CommandFailed(f'{many}Try "sbcast --help" for more information\n', 1)
    job = _job(call, given)
    source, place = parsed.rest
    opened = await _open(call, source)
    kept = "preserve" in given
    mode = opened["mode"] if kept else opened["mode"] & ~call.request.umask
    words = ["1" if "force" in given else "0", f"{mode:o}", str(opened["at"]) if kept else ""]
    argv = ["/bin/sh", "-c", _COPY, "sbcast", call.request.path(place), *words]
    return await _copied(call, job, argv, verbose="verbose" in given)


def _job(call: Call, given: dict[str, str]) -> Job:
    text = given.get("jobid") or call.env.get("SLURM_JOB_ID", "")
    if not text:
        raise CommandFailed(_NO_JOB, 1)
    number = text.partition("+")[0].partition(".")[0]
    known = call.context.host.cluster.jobs
    job = known.get(int(number)) if is_digits(number) and len(number) < 16 else None
    if job is None or job.state is not JobState.RUNNING:
        raise CommandFailed(f"sbcast: error: Slurm job ID {text} lookup error: {_UNKNOWN}\n", 1)
    if not may_change_job(call.actor, job.spec, job.id):
        raise CommandFailed(f"sbcast: error: Slurm job ID {text} lookup error: {_DENIED}\n", 1)
    return job


_UNKNOWN, _DENIED = "Invalid job id specified", "Access/permission denied"


async def _open(call: Call, source: str) -> dict[str, Any]:
    """From now on the caller's standard input is the file."""
    stream = stream_of(call)
    order = {"op": "source", "path": call.request.path(source)}
    await stream.write((wire.ORDER, msgspec.json.encode(order)))
    while (frame := await stream.read()) is not None:
        event: dict[str, Any] = msgspec.json.decode(frame.body) if frame.kind == wire.EVENT else {}
        if event.get("op") == "opened":
            if event["errno"]:
                why = os.strerror(event["errno"])
                raise CommandFailed(f"sbcast: error: Can't open `{source}`: {why}\n", 255)
            return event
    raise CommandFailed("", 1)


async def _copied(call: Call, job: Job, argv: list[str], *, verbose: bool) -> Answer:
    members = members_of(call.context.host.cluster, job)
    order = read_order(SHEETS["srun"], [("overlap", ""), ("quiet", "")])
    order.ntasks = order.nodes_min = order.nodes_max = len(members)
    if verbose:
        nodes = compress(sorted({member.node for member in members}, key=natural))
        lines = f"sbcast: jobid      = {job.id}\nsbcast: node_list  = {nodes}\n"
        await call.line.show(stderr=lines)
    plan = plan_step(job, [StepPart(order, argv, members)], {})._replace(step=next(_NUMBERS))
    home = home_of(call, job)
    await require_staff(call, job, plan, home)
    return await _Copying(call, plan, home).run()


class _Copying(RunningStep):
    """The copies, as tasks that are no step."""

    listed = False

    def _complaint(self, rank: int, status: int) -> bytes:
        node = self._plan.places[rank].member.node
        why = os.strerror(status >> 8) if status >> 8 else "Interrupted system call"
        return f"sbcast: error: REQUEST_FILE_BCAST({node}): {why}\n".encode()
