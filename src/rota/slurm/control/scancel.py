"""``scancel``: end jobs and steps, or send them signals."""

from __future__ import annotations

import signal as signals
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from rota.api.people import PEOPLE
from rota.controller.commands.change import may_change_job
from rota.controller.commands.commands import Cancel, Update
from rota.controller.launches.launch import awaits_room
from rota.core.facts.states import FINAL, JobState
from rota.digits import is_digits
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, fill_in, read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.orders.detail import LABEL, detail_of, label_of
from rota.slurm.records.accounts import is_known
from rota.slurm.records.job_refs import parse_ref, split_refs
from rota.slurm.records.wishes import details
from rota.slurm.steps.signalling import signal_job, signal_step
from rota.slurm.words import values
from rota.slurm.words.states import parse_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.facts.array import Array
    from rota.core.facts.job import Attempt, Job
    from rota.slurm.call.command import Call
    from rota.slurm.records.job_refs import JobRef

OPTIONS = OptionTable(
    "A account=NAMES: jobs of these accounts",
    "b batch: a signal for the script only",
    "c cron: there are no cron jobs",
    "ctld: by the controller, which is how it always is",
    "f full: a signal for the script, its children and all steps",
    "help: this text",
    "H hurry: there are no burst buffers",
    "i interactive: ask about each job",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "me: one's own jobs",
    "n name|jobname=NAMES: jobs of these names",
    "w nodelist=HOSTS: jobs on these nodes",
    "p partition=NAMES: jobs of these partitions",
    "q qos=NAMES: jobs of these qualities of service",
    "Q quiet: no messages but errors",
    "R reservation=NAME: jobs in this reservation",
    "s signal=SIGNAL: send this one instead of ending jobs",
    "sibling=CLUSTER: there are no federations",
    "t state=STATE: jobs that are PENDING, RUNNING or SUSPENDED",
    "u user=NAME: jobs of this user",
    "usage: the names of all options",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "wckey=KEYS: jobs of these workload keys",
)
#: Option -> the variable that stands for it.
VARIABLES = {
    "clusters": "SLURM_CLUSTERS",
    **{
        key: f"SCANCEL_{key.upper()}"
        for key in (
            *("account", "batch", "ctld", "cron", "full", "hurry", "interactive", "name"),
            *("partition", "qos", "state", "user", "verbose", "wckey"),
        )
    },
}
_FILTERS = (
    "account",
    "me",
    "name",
    "nodelist",
    "partition",
    "qos",
    "reservation",
    "state",
    "user",
    "wckey",
)
#: ESLURM_ACCESS_DENIED, as far as an exit code can carry it.
DENIED = 210
#: ESLURM_NOT_WHOLE_HET_JOB, likewise: the groups of a job begin and end together.
NOT_WHOLE = 60
_PART = "Operation not permitted on individual component of heterogeneous job"
#: Steps that have names; all others have numbers.
_STEPS = ("batch", "extern", "interactive")
_STATES = {
    "PENDING": (JobState.QUEUED, JobState.HELD, JobState.PREEMPTED),
    "RUNNING": (JobState.RUNNING, JobState.SCHEDULED),
    "SUSPENDED": (),
}


class CancelTarget(NamedTuple):
    """A job or array, by the text that names it."""

    shown: str
    id: int
    item: Job | Array
    step: str = ""
    #: Of an array only the elements that wait and that nothing has touched.
    untouched: bool = False


async def scancel(call: Call) -> Answer:
    """Each job by itself; what is gone already is nothing to speak of."""
    parsed = read_words("scancel", OPTIONS, call.request.argv)
    given = dict(parsed.options)
    if told := about_itself("scancel", OPTIONS, given, "[JOB[_INDEX][.STEP]...]"):
        return told
    fill_in(OPTIONS, given, call.env, VARIABLES)
    require_cluster("scancel", given, SlurmView(call.context).cluster_name)
    _check(given)
    refs = [_ref(word) for text in parsed.rest for word in split_refs(text)]
    if "user" in given and not _is_user(call, given["user"]):
        raise CommandFailed(f"scancel: error: Invalid user name: {given['user']}\n", 1)
    filters = {key: given[key] for key in _FILTERS if key in given}
    if not refs and not filters:
        raise CommandFailed("scancel: error: No job identification provided\n", 1)
    work = _Work(call, given)
    if refs:
        for text, ref in refs:
            await work.by_ref(text, ref, filters)
    else:
        await work.by_filters(filters)
    return await work.answer()


def _is_user(call: Call, name: str) -> bool:
    return PEOPLE.entry(name) is not None or is_known(call.context.host.cluster, name)


def _check(given: dict[str, str]) -> None:
    if "signal" in given:
        try:
            values.signal_number(given["signal"])
        except ValueError:
            raise CommandFailed(f"Unknown job signal: {given['signal']}\n", 1) from None
    if "state" in given:
        word = given["state"]
        if parse_state(word) not in _STATES:
            raise CommandFailed(
                f"Invalid job state specified: {word}\n"
                "Valid job states are PENDING, RUNNING, and SUSPENDED\n",
                1,
            )


def _ref(word: str) -> tuple[str, JobRef]:
    ref = parse_ref(word)
    known_step = ref is None or not ref.step or is_digits(ref.step) or ref.step in _STEPS
    if ref is None or not ref.id or not known_step:
        raise CommandFailed(f"scancel: error: Invalid job id {word}\n", 1)
    return word, ref


class _Work:
    """One call of scancel: whom it concerns and what became of it."""

    def __init__(self, call: Call, given: dict[str, str]) -> None:
        self._call = call
        self._cluster = call.context.host.cluster
        self._given = given
        self._verbose = "verbose" in given
        text = given.get("signal", "KILL")
        self._signal = values.signal_number(text)
        self._plain = "signal" not in given or self._signal == signals.SIGKILL
        self._lines: list[str] = []
        self._code = 0
        #: What is to be ended, all of it in one commit.
        self._ending: list[CancelTarget] = []

    async def answer(self) -> Answer:
        for untouched in (True, False):
            ids = tuple(target.id for target in self._ending if target.untouched is untouched)
            if ids:
                command = Cancel(actor=self._call.actor, ids=ids, untouched=untouched)
                await self._call.context.host.ask(command)
        return Answer("", "".join(self._lines), self._code)

    async def by_ref(self, text: str, ref: JobRef, filters: dict[str, str]) -> None:
        found = self._targets(text, ref)
        if filters:
            found = [part for target in found for part in self._parts(target)]
            found = [target for target in found if self._matches(target, filters)]
        if not found and not filters:
            # One that is unknown or over: silent, unless somebody wants to know.
            over = self._cluster.state_of(ref.id) in FINAL
            what = (
                "Job/step already completing or completed" if over else "Invalid job id specified"
            )
            if ref.step:
                self._log(f"Terminating step {text}")
                self._complain(text, what, 1, what="job step id")
                return
            self._log(f"Terminating job {text}")
            self._complain(text, what, 0, only_verbose=True)
            return
        if ref.offset and found:
            self._log(f"Terminating job {text}")
            self._complain(text, _PART, NOT_WHOLE)
            return
        if not all(map(self._may_end, found)):
            self._log(f"Terminating job {text}")
            self._complain(text, "Access/permission denied", DENIED)
            return
        await self._end(text, found)

    async def by_filters(self, filters: dict[str, str]) -> None:
        targets = [CancelTarget(str(job.id), job.id, job) for job in self._cluster.jobs.values()]
        targets += map(_waiting_part, self._cluster.arrays.values())
        for target in targets:
            if self._may_end(target) and self._matches(target, filters):
                await self._end(target.shown, [target])

    def _may_end(self, target: CancelTarget) -> bool:
        return may_change_job(self._call.actor, target.item.spec, target.id)

    def _parts(self, target: CancelTarget) -> list[CancelTarget]:
        """Of an array each element that was touched, and what waits as one: filters may differ."""
        array = self._cluster.arrays.get(target.id)
        if array is None:
            return [target]
        touched = sorted(self._cluster.families.unfinished.get(array.id, ()))
        elements = [CancelTarget(str(item), item, self._cluster.jobs[item]) for item in touched]
        return [_waiting_part(array), *elements]

    def _targets(self, text: str, ref: JobRef) -> list[CancelTarget]:
        array = self._cluster.arrays.get(ref.id)
        if ref.indices is not None and array is None:
            # ``8_7`` of a job that is no array names nobody, and least of all job 8.
            return []
        if ref.indices is not None and array is not None:
            ids = [
                array.element_id(position)
                for position in range(array.count)
                if array.expand(position).array_index in ref.indices
            ]
            return [
                CancelTarget(text, item, self._cluster.jobs.get(item) or array, ref.step)
                for item in ids
                if self._cluster.state_of(item) not in (None, *FINAL)
            ]
        item = array or self._cluster.jobs.get(ref.id) or self._cluster.array_of(ref.id)
        if item is None or self._cluster.state_of(ref.id) in (None, *FINAL):
            return []
        return [CancelTarget(text, ref.id, item, ref.step)]

    def _matches(self, target: CancelTarget, filters: dict[str, str]) -> bool:
        if target.untouched and not (self._plain and cast("Array", target.item).waiting):
            return False
        spec = target.item.spec
        detail = details(spec)
        user = self._call.actor.user
        checks: dict[str, Callable[[str], bool]] = {
            "account": lambda text: (detail.account or spec.project) in text.split(","),
            "me": lambda _: spec.user == user,
            "name": lambda text: spec.name in text.split(","),
            "partition": lambda text: spec.queue in text.split(","),
            "qos": lambda text: (detail.qos or "normal") in text.split(","),
            "reservation": lambda text: detail.reservation == text,
            "user": lambda text: spec.user == text,
            "wckey": lambda text: detail.wckey in text.split(","),
            "nodelist": lambda text: bool(set(_nodes(target.item)) & set(text.split(","))),
            "state": lambda text: self._in_state(target, text),
        }
        return all(checks[key](text) for key, text in filters.items())

    def _in_state(self, target: CancelTarget, text: str) -> bool:
        job = self._cluster.jobs.get(target.id)
        suspended = job is not None and bool(job.suspended_s)
        word = parse_state(text) or ""
        if target.untouched:
            return word == "PENDING"
        if word == "SUSPENDED" or suspended:
            return suspended and word == "SUSPENDED"
        if job is not None and any(awaits_room(self._cluster, a) for a in job.live_attempts):
            return word == "PENDING"
        return self._cluster.state_of(target.id) in _STATES.get(word, ())

    async def _end(self, text: str, targets: list[CancelTarget]) -> None:
        if targets and targets[0].step:
            self._log(f"Terminating step {text}")
            found = await signal_step(
                self._call.context,
                targets[0].id,
                targets[0].step,
                self._signal if not self._plain else 9,
            )
            if not found:
                self._complain(text, "Invalid job id specified", 1, what="job step id")
            return
        if not self._plain:
            self._log(f"Signal {self._signal} to job {text}")
            for target in targets:
                batch, full = "batch" in self._given, "full" in self._given
                await signal_job(
                    self._call.context, target.id, self._signal, batch=batch, full=full
                )
                await self._remember_stop(target)
            return
        self._log(f"Terminating job {text}")
        self._ending += [target for target in targets if await self._confirmed(target)]

    async def _remember_stop(self, target: CancelTarget) -> None:
        """A job that STOP has reached is shown so until CONT comes, or until it begins anew."""
        live: list[Attempt] = getattr(target.item, "live_attempts", [])
        spec = target.item.spec
        known = live and LABEL in spec.labels
        if self._signal not in (signals.SIGSTOP, signals.SIGCONT) or not known:
            return
        stopped = live[0].uid if self._signal == signals.SIGSTOP else ""
        label = label_of(msgspec.structs.replace(detail_of(spec), stopped=stopped))
        changes = {"labels": {**spec.labels, LABEL: label}}
        await self._call.context.host.ask(
            Update(actor=self._call.actor, job=target.id, changes=changes)
        )

    async def _confirmed(self, target: CancelTarget) -> bool:
        """With ``-i`` each is asked about."""
        if "interactive" not in self._given:
            return True
        spec = target.item.spec
        about = f"job_id={target.shown} name={spec.name} partition={spec.queue}"
        await self._call.line.show(f"Cancel {about} [y/n]? ")
        return (await self._call.line.read_line()).strip().lower() in ("y", "yes")

    def _log(self, text: str) -> None:
        if self._verbose:
            self._lines.append(f"scancel: {text}\n")

    def _complain(
        self, text: str, why: str, code: int, *, only_verbose: bool = False, what: str = "job id"
    ) -> None:
        if only_verbose and not self._verbose:
            return
        if "quiet" not in self._given:
            self._lines.append(f"scancel: error: Kill job error on {what} {text}: {why}\n")
        self._code = self._code or code


def _waiting_part(array: Array) -> CancelTarget:
    return CancelTarget(str(array.id), array.id, array, untouched=True)


def _nodes(item: Job | Array) -> list[str]:
    live = getattr(item, "live_attempts", ())
    return [attempt.allocation.node for attempt in live]
