"""``scontrol show …``: which entity is meant, and its text."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from rota import hostlist
from rota.digits import is_digits
from rota.scheduling.limits.licenses import held_of, limits_of
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.view import SlurmView, each
from rota.slurm.control.show_config import config_text
from rota.slurm.control.show_job import job_block
from rota.slurm.control.show_site import (
    license_block,
    node_block,
    partition_block,
    reservation_block,
)
from rota.slurm.formats.documents import job_document, node_document, partition_document
from rota.slurm.formats.later import later_job, later_node, later_partition, later_reservation
from rota.slurm.formats.long_documents import LongList
from rota.slurm.formats.shown_document import shape_asked
from rota.slurm.formats.site_documents import (
    license_documents,
    ping_documents,
    reservation_document,
)
from rota.slurm.records.gather import MIN_JOB_AGE_S, JobSieve, lately_ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex, parse_ref
from rota.slurm.records.node_records import node_records, partition_records, reservation_name
from rota.slurm.words.amounts import Moments, full_duration, zone_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.slurm.call.command import Call
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord, StepRecord

UNKNOWN_JOB = "slurm_load_jobs error: Invalid job id specified\n"
UNKNOWN_STEP = "slurm_get_job_steps error: Invalid job id specified\n"
#: Steps that are listed before those of srun.
_FIRST = {"extern": 0, "batch": 1}
#: Entity -> the shortest word that names it.
_ENTITIES = {
    "aliases": 1,
    "assoc_mgr": 2,
    "bbstat": 2,
    "burstbuffer": 2,
    "config": 1,
    "daemons": 1,
    "dwstat": 2,
    "federation": 2,
    "frontend": 2,
    "hostlistsorted": 9,
    "hostlist": 5,
    "hostnames": 5,
    "jobs": 1,
    "licenses": 2,
    "nodes": 1,
    "partitions": 2,
    "reservations": 1,
    "slurmd": 2,
    "steps": 2,
    "topology": 1,
}


class Flags:
    """What stands in front of ``show``, in whatever order: ``-o``, ``-d`` (twice), ``--json``."""

    def __init__(self, options: list[tuple[str, str]]) -> None:
        keys = [key for key, _ in options]
        self.one_line = "oneliner" in keys
        self.detail = keys.count("details")
        self.given = dict(options)
        self.quiet = "quiet" in keys


async def show(call: Call, words: list[str], options: list[tuple[str, str]]) -> Answer:
    """Answer ``scontrol show ENTITY [NAME]``, also as ``ENTITY=NAME``."""
    if not words:
        raise CommandFailed("too few arguments for keyword:show\n")
    if len(words) > 2:
        raise CommandFailed("too many arguments for keyword:show\n")
    word, _, glued = words[0].partition("=")
    entity = entity_of(word)
    if entity is None:
        raise CommandFailed(f"invalid entity:{word} for keyword:show \n")
    names = [name for name in (glued, *words[1:]) if name]
    try:
        return await Shown(call, Flags(options), names).answer(entity)
    except CommandFailed as failed:
        if Flags(options).quiet:
            raise CommandFailed("", failed.answer.code) from None
        raise


async def ping(call: Call, words: list[str], options: list[tuple[str, str]]) -> Answer:
    """The controller that answers is up."""
    shape = shape_asked("scontrol", dict(options), call.env)
    if shape is not None:
        return await shape.answer("pings", ping_documents(), command="ping")
    return Answer(f"Slurmctld(primary) at {socket.gethostname()} is UP\n")


def entity_of(word: str) -> str | None:
    """The entity that a word names, in full or shortened, in the singular or the plural."""
    lower = word.lower()
    if lower == "jobid":
        return "jobs"
    for entity, shortest in _ENTITIES.items():
        if len(lower) >= shortest and (entity.startswith(lower) or lower == f"{entity}s"):
            return entity
    return None


class Shown:
    """One thing that is shown."""

    def __init__(self, call: Call, flags: Flags, names: list[str]) -> None:
        self.call = call
        self.flags = flags
        self.names = names
        self.view = SlurmView(call.context)
        env = call.env
        pattern = env.get("SLURM_TIME_FORMAT", "")
        self.moments = Moments(self.view.now_s, zone_of(env.get("TZ", "")), pattern)
        self.shape = shape_asked("scontrol", flags.given, env)

    async def answer(self, entity: str) -> Answer:
        ways: dict[str, Callable[[], Awaitable[Answer]]] = {
            "aliases": self._aliases,
            "jobs": self._jobs,
            "steps": self._steps,
            "nodes": self._nodes,
            "partitions": self._partitions,
            "reservations": self._reservations,
            "config": self._config,
            "hostnames": self._hostnames,
            "licenses": self._licenses,
            "hostlist": self._hostlist,
            "hostlistsorted": self._hostlist_sorted,
        }
        way = ways.get(entity)
        return await way() if way is not None else Answer(*_FIXED.get(entity, ("", "", 0)))

    async def _jobs(self) -> Answer:
        ref = self._ref() if self.names else None
        jobs = await self._records(ref, steps=False)
        if ref is not None and not jobs:
            if ref.indices is not None and self._is_known(ref.id):
                return Answer(f"Job {self.names[0]} not found\n", "", 1)
            raise CommandFailed(UNKNOWN_JOB)
        if self.shape is not None:
            name, of = self.view.cluster_name, self.shape.item(later_job)
            items = LongList(jobs, lambda job: of(job_document(job, name)))
            return await self.shape.answer("jobs", items, command="show")
        if not jobs:
            return Answer("No jobs in the system\n")
        one = self.flags.one_line

        def block(job: JobRecord) -> str:
            return job_block(job, self.moments, self.flags.detail, one)

        return Answer("".join(await each(jobs, block)))

    def _is_known(self, number: int) -> bool:
        return number in self.view.cluster.jobs or number in self.view.cluster.arrays

    def _ref(self) -> JobRef:
        ref = parse_ref(self.names[0])
        if ref is None:
            raise CommandFailed("scontrol_print_job error: Invalid job id specified\n")
        return ref

    async def _records(self, ref: JobRef | None, *, steps: bool) -> list[JobRecord]:
        context = self.call.context
        recorder = Recorder(context, self.view.now_s, actor=self.call.actor, steps=steps)
        wanted = JobSieve(refs=RefIndex(() if ref is None else (ref,)), steps=steps)
        found = {job.shown_id: job for job in await unfinished(context.host, wanted, recorder)}
        await context.host.on_disk()
        since_s = self.view.now_s - MIN_JOB_AGE_S
        over = await lately_ended(context.host, wanted, recorder, since_s)
        found |= {job.shown_id: job for job in over}
        # The waiting rest of an array comes first, as it carries the array's own id.
        return sorted(found.values(), key=lambda job: (job.array_id or job.job_id, job.job_id))

    async def _steps(self) -> Answer:
        ref = self._ref() if self.names else None
        jobs = await self._records(ref, steps=True)
        wanted = ref.step if ref is not None else ""
        pairs = [
            (job, step)
            for job in jobs
            for step in sorted(job.steps, key=lambda step: _FIRST.get(step.id, 2))
            if step.state == "RUNNING" and wanted in ("", step.id)
        ]
        if not pairs:
            if ref is not None and jobs and wanted:
                return Answer(f"Job step {self.names[0]} not found\n", "", 1)
            if ref is not None:
                raise CommandFailed(UNKNOWN_STEP)
            return Answer("No job steps in the system\n")
        return Answer("".join(self._step(job, step) for job, step in pairs))

    def _step(self, job: JobRecord, step: StepRecord) -> str:
        own = is_digits(step.id)
        lines = [
            f"StepId={job.shown_id}.{step.id} UserId={job.uid} "
            f"StartTime={self.moments.text(step.start_s)} TimeLimit={full_duration(None)}",
            f"State={step.state} Partition={job.partition} "
            f"NodeList={hostlist.compress(step.nodes)}",
            f"Nodes={len(step.nodes)} CPUs={step.cpus if own else 0} Tasks={step.tasks} "
            f"Name={step.name} Network=(null)",
            f"TRES={step.tres if own else '(null)'}",
            "ResvPorts=(null)",
            "CPUFreqReq=Default" + (" Dist=Cyclic" if own else ""),
            "SrunHost:Pid=(null):0",
        ]
        if self.flags.one_line:
            return " ".join(lines) + "\n"
        return "\n   ".join(lines) + "\n\n"

    async def _nodes(self) -> Answer:
        host = self.call.context.host
        nodes = node_records(host.cluster, host.scheduler.promises.kept)
        wanted = self._hosts()
        known = {node.name for node in nodes}
        strangers = [name for name in wanted if name not in known]
        shown = [node for node in nodes if not wanted or node.name in wanted]
        if self.shape is not None:
            of = self.shape.item(later_node)
            items = [of(node_document(node)) for node in shown]
            return await self.shape.answer("nodes", items, command="show")
        text = "".join(
            node_block(node, self.moments, self.flags.one_line, self.flags.detail) for node in shown
        )
        text += "".join(f"Node {name} not found\n" for name in strangers)
        return Answer(text, "", 1 if strangers else 0)

    def _hosts(self) -> tuple[str, ...]:
        if not self.names:
            return ()
        try:
            return hostlist.expand(self.names[0])
        except ValueError:
            return (self.names[0],)

    async def _partitions(self) -> Answer:
        parts = partition_records(self.view.cluster)
        wanted = set(self.names[0].split(",")) if self.names else set()
        shown = [part for part in parts if not wanted or part.name in wanted]
        if self.shape is not None:
            of = self.shape.item(later_partition)
            items = [of(partition_document(part)) for part in shown]
            return await self.shape.answer("partitions", items, command="show")
        if wanted and not shown:
            return Answer(f"Partition {self.names[0]} not found\n", "", 1)
        return Answer("".join(partition_block(part, self.flags.one_line) for part in shown))

    async def _reservations(self) -> Answer:
        items = list(self.view.cluster.reservations.values())
        if self.names:
            items = [item for item in items if reservation_name(item) == self.names[0]]
            if not items:
                return Answer(f"Reservation {self.names[0]} not found\n", "", 1)
        if self.shape is not None:
            of = self.shape.item(later_reservation)
            found = [of(reservation_document(item, self.view.cluster)) for item in items]
            return await self.shape.answer("reservations", found, command="show")
        if not items:
            return Answer("No reservations in the system\n")
        return Answer(
            "".join(
                reservation_block(item, self.view.cluster, self.moments, self.flags.one_line)
                for item in items
            )
        )

    async def _config(self) -> Answer:
        view = self.view
        return Answer(
            config_text(
                view.cluster, view.cluster_name, socket.gethostname(), view.started_s, self.moments
            )
        )

    async def _licenses(self) -> Answer:
        cluster = self.call.context.host.cluster
        if self.shape is not None:
            found = license_documents(cluster)
            if self.names:
                found = [one for one in found if one["LicenseName"] in self.names]
            return await self.shape.answer("licenses", found, command="show")
        limits = limits_of(cluster.policy.licenses)
        known = {name: limits[name] for name in self.names or sorted(limits) if name in limits}
        if not known:
            return Answer(*_FIXED["licenses"])
        blocks = [license_block(name, n, held_of(cluster, name)) for name, n in known.items()]
        return Answer("".join(blocks))

    async def _hostnames(self) -> Answer:
        text = self.names[0] if self.names else self.call.env.get("SLURM_JOB_NODELIST", "")
        if not text:
            return Answer("", "scontrol: error: host list is empty\n", 0)
        try:
            names = hostlist.expand(text)
        except ValueError:
            return Answer("", f"Invalid hostlist: {text}\n", 1)
        return Answer("".join(f"{name}\n" for name in names))

    async def _aliases(self) -> Answer:
        """The names of all nodes, or those of the machine that is named."""
        names = [name for name in self.view.cluster.nodes if not self.names or name in self.names]
        return Answer(f"{' '.join(names)}\n")

    async def _hostlist(self) -> Answer:
        names = [name for word in self.names for name in word.split(",")]
        return Answer(f"{hostlist.compress(names)}\n")

    async def _hostlist_sorted(self) -> Answer:
        names = sorted(name for word in self.names for name in word.split(","))
        return Answer(f"{hostlist.compress(names)}\n")


#: What Rota has nothing of: the words that Slurm has for that.
_FIXED = {
    "daemons": ("slurmctld slurmd\n", "", 0),
    "topology": ("", "scontrol: error: No topology information available\n", 0),
    "licenses": ("No licenses configured in Slurm.\n", "", 0),
    "frontend": ("No nodes in the system\n", "", 0),
}
