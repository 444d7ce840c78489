"""``sacct``: what became of jobs and their steps, from the first moment on."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from rota import hostlist
from rota.api.auth import may_look_into
from rota.api.people import PEOPLE
from rota.core.words.kin import is_kin
from rota.digits import is_digits
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, fill_in, read_words, require_cluster
from rota.slurm.call.view import SlurmView, each
from rota.slurm.formats.account_documents import account_document
from rota.slurm.formats.documents import DB_PLUGIN
from rota.slurm.formats.later import later_account_job
from rota.slurm.formats.layout import RuledTable, field_list, read_columns
from rota.slurm.formats.long_documents import LongList
from rota.slurm.formats.shown_document import shape_asked
from rota.slurm.lists.sacct_fields import (
    BRIEF,
    FORMAT,
    LONG,
    WIDTHS,
    AccountingRow,
    Units,
    columns,
    waiting_reason,
)
from rota.slurm.orders.detail import script_of
from rota.slurm.records.accounts import is_known
from rota.slurm.records.gather import JobSieve, ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex, parse_ref, split_refs
from rota.slurm.words.amounts import Moments, zone_of
from rota.slurm.words.states import UNFINISHED, parse_state
from rota.slurm.words.values import minutes, moment, node_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.slurm.call.command import Call
    from rota.slurm.formats.layout import TableColumn
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord

OPTIONS = OptionTable(
    "a allusers: jobs of all users",
    "A accounts|account=NAMES: jobs of these accounts",
    "b brief: id, state and exit code only",
    "B batch-script: the script of a job (-j)",
    "c completion: the same: there is one record of jobs",
    "C constraints=FEATURES: jobs that asked for these features",
    "delimiter=TEXT: between fields, instead of a bar",
    "D duplicates: ids are never used twice, so there are none",
    "e helpformat: the names of all fields",
    "E endtime=TIME: jobs that began before this moment",
    "env-vars: refused: environments of jobs are shown by nobody",
    "F flags=NAMES: refused: which part of the scheduler started a job is not kept",
    "federation: there is none: this cluster is shown",
    "f file=FILE: refused: jobs come from the controller, and from no file",
    "g gid|group=NAMES: jobs of these groups",
    "h help: this text",
    "i nnodes=MIN[-MAX]: jobs with this number of nodes",
    "I ncpus=MIN[-MAX]: jobs with this number of CPUs",
    "j jobs|job=IDS: these jobs and steps",
    "json=?VERSION: a JSON document, with the keys of this version",
    "k timelimit-min=LIMIT: jobs with this limit",
    "K timelimit-max=LIMIT: with -k: up to this limit",
    "l long: more fields",
    "L allclusters: this cluster; there is no other",
    "local: this cluster, which is how it always is",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "n noheader: no line of headings",
    "name=NAMES: jobs of these names",
    "noconvert: sizes in the unit that they are kept in",
    "N nodelist=HOSTS: jobs on these nodes",
    "o format=FIELDS: which fields, in which order",
    "p parsable: fields between bars, with one at the end",
    "P parsable2: fields between bars",
    "q qos=NAMES: jobs of these qualities of service",
    "r partition=NAMES: jobs of these partitions",
    "R reason=REASONS: jobs that wait for one of these reasons",
    "s state=STATES: jobs in these states",
    "S starttime=TIME: jobs that ended after this moment",
    "T truncate: times cut to those of -S and -E",
    "u uid|user=NAMES: jobs of these users",
    "units=UNIT: sizes in K, M, G, T or P",
    "use-local-uid: names of users are those of this machine, which is how it always is",
    "usage: the names of all options",
    "U: the same as --usage",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "W wckeys=KEYS: jobs of these workload keys",
    "whole-hetjob=?YES|NO: all groups of heterogeneous jobs",
    "x associations=IDS: refused: associations have no ids here",
    "X allocations: jobs without their steps",
    "yaml=?VERSION: a YAML document",
    later=(
        "array: each waiting element of an array on a line",
        "expand-patterns: names of files are shown whole, which is how it always is",
    ),
)
#: Options that add to what was given before.
_REPEATED = ("jobs", "format", "state", "uid", "name", "partition", "accounts")


async def sacct(call: Call) -> Answer:
    """Answer one call."""
    asked = read_options(call)
    if told := about_itself("sacct", OPTIONS, asked):
        return told
    if "helpformat" in asked:
        return Answer(field_list(list(WIDTHS), 19) + "\n")
    for entry in OPTIONS.entries:
        if entry.names[0] in asked and entry.says.startswith("refused: "):
            why = entry.says.removeprefix("refused: ")
            raise CommandFailed(f"sacct: error: --{entry.names[0]} is not possible here: {why}\n")
    return await Report(call, asked).answer()


def read_options(call: Call) -> dict[str, str]:
    options, rest = read_words("sacct", OPTIONS, call.request.argv, hint=False)
    if rest:
        words = "".join(f"sacct: error:  {word}\n" for word in rest)
        raise CommandFailed(f"sacct: error: Unknown arguments:\n{words}")
    asked: dict[str, str] = {}
    for key, value in options:
        known = asked.get(key)
        asked[key] = f"{known},{value}" if known and key in _REPEATED else value
    fill_in(OPTIONS, asked, call.env, {"format": "SACCT_FORMAT"})
    return asked


class Report:
    """One report: which jobs, and how they are to look."""

    def __init__(self, call: Call, asked: dict[str, str]) -> None:
        self.call = call
        self.asked = asked
        self.view = SlurmView(call.context)
        require_cluster("sacct", asked, self.view.cluster_name)
        env = call.env
        self.zone = zone_of(env.get("TZ", ""))
        self.moments = Moments(self.view.now_s, self.zone, env.get("SLURM_TIME_FORMAT", ""))
        self.refs = self._refs()
        self.states = self._states()
        self.begin_s, self.end_s = self._window()
        self.shape = shape_asked("sacct", asked, env)
        self._check()

    def _check(self) -> None:
        unit = self.asked.get("units", "K")
        if unit[:1].upper() not in tuple("KMGTP"):
            options = "Possible options are 'KMGTP'"
            raise CommandFailed(f"sacct: error: Invalid unit type '{unit}'. {options}\n")
        whole = self.asked.get("whole-hetjob", "")
        if whole.lower() not in ("", "yes", "no"):
            raise CommandFailed(
                f'sacct: error: Invalid --whole-hetjob value "{whole}". Valid values: [yes|no].\n'
            )
        if "starttime" in self.asked and "endtime" in self.asked and self.begin_s > self.end_s:
            begin, end = map(self.moments.text, (self.begin_s, self.end_s))
            raise CommandFailed(
                f"sacct: error: Start time ({begin}) requested is after end time ({end}).\n"
            )

    async def answer(self) -> Answer:
        table = self._table()
        # The worst exit code of the steps stands in the line of the job, with or without theirs.
        derived = any(column.name == "DerivedExitCode" for column in table.columns)
        jobs = await self._jobs(steps=derived or "allocations" not in self.asked)
        if (shape := self.shape) is not None:
            name, now_s, of = self.view.cluster_name, self.view.now_s, shape.item(later_account_job)
            items = LongList(jobs, lambda job: of(account_document(job, name, now_s)))
            return await shape.answer("jobs", items, DB_PLUGIN, "sacct")
        if "batch-script" in self.asked:
            return await self._scripts(jobs)
        lines = table.heading()
        lines += await each(self._rows(jobs), table.line)
        return Answer("".join(f"{line}\n" for line in lines))

    def _table(self) -> RuledTable[AccountingRow]:
        return RuledTable.asked(self._columns(), self.asked, self.asked.get("delimiter") or "|")

    def _columns(self) -> list[TableColumn]:
        asked = self.asked
        units = Units("noconvert" not in asked, asked.get("units", "")[:1].upper())
        known = columns(self.moments, self.view.cluster_name, units)
        default = BRIEF if "brief" in asked else LONG if "long" in asked else FORMAT
        text = asked.get("format") or default
        if text.strip().upper() == "ALL":
            return [column for column in known.values() if column.name in WIDTHS]
        found, bad = read_columns(text, known)
        if bad or not found:
            raise CommandFailed(f'sacct: error: Invalid field requested: "{bad}"\n')
        return found

    def _refs(self) -> tuple[JobRef, ...]:
        found = []
        for word in split_refs(self.asked.get("jobs", "")):
            ref = parse_ref(word)
            if ref is None:
                kind = "job array element" if "_" in word else "job/step"
                shown = word.partition("_")[0] if "_" in word else word
                raise CommandFailed(f"sacct: fatal: Bad {kind} specified: {shown}\n")
            found.append(ref)
        return tuple(found)

    def _states(self) -> frozenset[str]:
        found = set()
        for word in filter(None, self.asked.get("state", "").split(",")):
            state = parse_state(word)
            if state is None:
                raise CommandFailed(f"sacct: fatal: unrecognized job state value '{word}'\n")
            found.add(state)
        return frozenset(found)

    def _window(self) -> tuple[float, float]:
        """From when to when: without ``-S`` from midnight on, or all of a job that is named."""
        now_s = self.view.now_s
        today = datetime.fromtimestamp(now_s, self.zone)
        begin_s = today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        if self.states:
            begin_s = now_s
        if self.refs:
            begin_s = 0.0
        asked = self.asked
        begin_s = self._moment(asked["starttime"]) if "starttime" in asked else begin_s
        if "endtime" in asked:
            return begin_s, self._moment(asked["endtime"])
        # With states a begin without an end is one moment: who was in that state then.
        at_once = self.states and "starttime" in asked
        return begin_s, begin_s if at_once else now_s + 1

    def _moment(self, text: str) -> float:
        # ``YYYY-MM-DD-HH:MM:SS`` is understood, too.
        plain = f"{text[:10]}T{text[11:]}" if text[10:11] == "-" else text
        try:
            return moment(plain, self.view.now_s, self.zone, past=True)
        except (ValueError, OverflowError):
            raise CommandFailed(f"Invalid time specification (pos=0): {text}\n") from None

    def _users(self) -> frozenset[str]:
        asked = self.asked
        if "uid" in asked:
            words = filter(None, asked["uid"].split(","))
            return frozenset(_user(word, self.view.cluster) for word in words)
        if "allusers" in asked or self.refs or self.call.request.uid == 0:
            return frozenset()
        return frozenset({self.call.actor.user})

    async def _jobs(self, *, steps: bool) -> list[JobRecord]:
        asked, host = self.asked, self.call.context.host
        recorder = Recorder(self.call.context, self.view.now_s, actor=self.call.actor, steps=steps)
        wanted = JobSieve(
            refs=RefIndex(self.refs),
            users=self._users(),
            partitions=frozenset(filter(None, asked.get("partition", "").split(","))),
            names=frozenset(filter(None, asked.get("name", "").split(","))),
            split="array" in asked,
            steps=steps,
            rounds="duplicates" in asked,
        )
        found = {_key(job): job for job in await unfinished(host, wanted, recorder)}
        await host.on_disk()
        over = await ended(host, wanted, recorder, self.begin_s)
        found |= {_key(job): job for job in over}
        chosen = [job for job in found.values() if self._takes(job)]
        for job in chosen if "truncate" in asked else ():
            self._cut(job)
        return sorted(chosen, key=_order)

    def _takes(self, job: JobRecord) -> bool:
        """Whether it was there, in one of the states, within the window."""
        asked = self.asked
        over = job.state not in UNFINISHED
        if job.submit_s > self.end_s or (over and job.end_s < self.begin_s):
            return False
        # Accounting knows nothing of jobs that a signal has stopped.
        state = "RUNNING" if job.state == "STOPPED" else job.state
        if self.states and state not in self.states:
            return False
        words = {"accounts": job.account, "qos": job.qos, "wckeys": job.wckey, "gid": job.group}
        words |= {"constraints": job.features, "reason": waiting_reason(job)}
        for key, value in words.items():
            if asked.get(key) and value not in self._named[key]:
                return False
        if not all(low <= value <= high for value, (low, high) in self._sizes(job)):
            return False
        return not asked.get("nodelist") or not self._nodes.isdisjoint(job.nodes)

    def _cut(self, job: JobRecord) -> None:
        """``-T``: of its time only what lies within the window."""
        if job.start_s:
            job.start_s = max(job.start_s, self.begin_s)
            job.end_s = min(job.end_s, self.end_s) if job.end_s else 0.0
            until_s = job.end_s if job.state not in UNFINISHED else min(self.end_s, self.view.now_s)
            job.run_s = max(0, int(until_s - job.start_s))

    def _sizes(self, job: JobRecord) -> Iterator[tuple[int, tuple[int, int]]]:
        """Its nodes, CPUs and minutes, each with the range that they are wanted in."""
        asked = self.asked
        for key, value in (("nnodes", job.node_count), ("ncpus", job.cpus)):
            if asked.get(key):
                yield value, self._range(key, asked[key])
        if least := asked.get("timelimit-min"):
            limit = (job.limit_s or 0) // 60
            yield limit, (self._limit(least), self._limit(asked.get("timelimit-max", least)))

    def _range(self, key: str, text: str) -> tuple[int, int]:
        try:
            least, most = node_counts(text)
        except ValueError:
            raise CommandFailed(f"sacct: error: Invalid --{key} specification: {text}\n") from None
        return least, most or least

    def _limit(self, text: str) -> int:
        try:
            return minutes(text)
        except ValueError:
            raise CommandFailed(
                f"sacct: error: Invalid time limit specification: {text}\n"
            ) from None

    @cached_property
    def _named(self) -> dict[str, frozenset[str]]:
        """Lists of words, read once for all jobs."""
        keys = ("accounts", "qos", "wckeys", "gid", "constraints", "reason")
        return {key: frozenset(self.asked.get(key, "").split(",")) for key in keys}

    @cached_property
    def _nodes(self) -> frozenset[str]:
        try:
            return frozenset(hostlist.expand(self.asked["nodelist"]))
        except ValueError:
            return frozenset()

    def _rows(self, jobs: list[JobRecord]) -> Iterator[AccountingRow]:
        alone = {ref.id: ref.step for ref in self.refs if ref.step}
        for job in jobs:
            step_id = alone.get(job.job_id) or alone.get(job.array_id or job.job_id)
            if not step_id:
                yield AccountingRow(job)
            if "allocations" in self.asked:
                continue
            yield from (
                AccountingRow(job, step) for step in job.steps if step_id in (None, "", step.id)
            )

    async def _scripts(self, jobs: list[JobRecord]) -> Answer:
        """The scripts of jobs, each below its name."""
        if not self.refs:
            raise CommandFailed(
                "sacct: fatal: When requesting job scripts you must also request "
                "specific jobs with the '-j' option.\n"
            )
        parts = []
        for job in jobs:
            head = f"Batch Script for {job.shown_id}\n{'-' * 80}\n"
            parts.append(f"{head}{await self._script(job) or 'NONE'}\n\n")
        return Answer("".join(parts))

    async def _script(self, job: JobRecord) -> str:
        found, actor = await self.view.find(job.job_id), self.call.actor
        if found is None or not is_kin(actor, found.id, found.spec):
            return ""
        digest = script_of(found.spec)
        if not digest or not may_look_into(actor, found.spec.user):
            return ""
        body = await self.view.read(lambda store: store.blob(digest))
        return "" if body is None else bytes(body).decode(errors="replace").rstrip("\n")


def _key(job: JobRecord) -> tuple[str, int]:
    return job.shown_id, job.restarts


def _order(job: JobRecord) -> tuple[int, int, int]:
    # The waiting rest of an array comes behind its elements.
    last = 1 << 40
    index = job.array_index if job.array_index is not None else last
    return job.array_id or job.job_id, index, job.restarts


def _user(word: str, cluster: Cluster) -> str:
    """A name, or the name behind a number."""
    entry = PEOPLE.entry(int(word) if is_digits(word) and len(word) < 11 else word)
    if entry is not None:
        return entry.name
    if is_digits(word) or is_known(cluster, word):
        return word
    raise CommandFailed(f"sacct: error: Invalid user id: {word}\n")
