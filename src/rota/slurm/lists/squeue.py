"""``squeue``: the jobs that wait, run, or ended a moment ago."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rota import hostlist
from rota.api.people import PEOPLE
from rota.digits import is_digits
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, fill_in, read_words, require_cluster, usage_of
from rota.slurm.call.view import SlurmView, each
from rota.slurm.formats.documents import job_document
from rota.slurm.formats.later import later_job
from rota.slurm.formats.layout import Layout, Read, read_long, read_percent
from rota.slurm.formats.long_documents import LongList
from rota.slurm.formats.repeating import repeated
from rota.slurm.formats.shown_document import shape_asked
from rota.slurm.lists.squeue_fields import letters, names
from rota.slurm.lists.squeue_steps import step_lines
from rota.slurm.records.accounts import is_known
from rota.slurm.records.gather import MIN_JOB_AGE_S, JobSieve, lately_ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex, parse_ref, split_refs
from rota.slurm.words.amounts import Moments, zone_of
from rota.slurm.words.states import COMPACT, ENDED, UNFINISHED, parse_state, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.slurm.call.command import Call
    from rota.slurm.formats.shown_document import DocumentShape
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord

OPTIONS = OptionTable(
    "A account|accounts=NAMES: jobs of these accounts",
    "a all: jobs of hidden partitions, too; there are none",
    "array-unique: waiting arrays on one line each",
    "federation: there is none: this cluster is shown",
    "h noheader: no line of headings",
    "hide: no jobs of hidden partitions",
    "i iterate=SECONDS: again and again, every SECONDS seconds",
    "j jobs|job=?IDS: these jobs",
    "json=?VERSION: a JSON document, with the keys of this version",
    "l long: more fields",
    "L licenses=NAMES: jobs with these licences",
    "local: this cluster, which is how it always is",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "me: one's own jobs",
    "n name=NAMES: jobs of these names",
    "noconvert: sizes in the unit that they are kept in",
    "o format=FIELDS: which fields, in which order",
    "O Format=FIELDS: the same by their long names",
    "only-job-state: states only",
    "P priority: one line for each partition of a job; here one for each job",
    "p partition|partitions=NAMES: jobs of these partitions",
    "q qos=NAMES: jobs of these qualities of service",
    "r array: each element of an array on a line",
    "R reservation=NAME: jobs in this reservation",
    "s steps|step=?IDS: steps, of all jobs or these",
    "S sort=FIELDS: in the order of these fields; - turns it round",
    "sib|sibling: there are no federations",
    "start: when waiting jobs are expected to start",
    "t states=STATES: jobs in these states; all: in any",
    "u user|users=NAMES: jobs of these users",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "w nodelist|nodes=HOSTS: jobs on these nodes",
    "yaml=?VERSION: a YAML document",
    "help: this text",
    "usage: the names of all options",
    later=(
        "expand-patterns: names of files are shown whole, which is how it always is",
        "notme: jobs of others",
    ),
)
#: Option -> the variable that stands in for it.
VARIABLES = {
    "account": "SQUEUE_ACCOUNT",
    "all": "SQUEUE_ALL",
    "array": "SQUEUE_ARRAY",
    "clusters": "SLURM_CLUSTERS",
    "format": "SQUEUE_FORMAT",
    "Format": "SQUEUE_FORMAT2",
    "licenses": "SQUEUE_LICENSES",
    "name": "SQUEUE_NAMES",
    "partition": "SQUEUE_PARTITION",
    "priority": "SQUEUE_PRIORITY",
    "qos": "SQUEUE_QOS",
    "sort": "SQUEUE_SORT",
    "states": "SQUEUE_STATES",
    "user": "SQUEUE_USERS",
}
FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
FORMAT_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
FORMAT_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
#: Options that are asked of each record.
SIEVES = frozenset({"account", "qos", "reservation", "nodelist", "licenses"})
#: More jobs than this are sorted in a thread of their own.
MANY = 5000
UNKNOWN = "slurm_load_jobs error: Invalid job id specified\n"


async def squeue(call: Call) -> Answer:
    """Answer one call."""
    asked = read_options(call)
    if told := about_itself("squeue", OPTIONS, asked):
        return told
    if "iterate" in asked:
        return await repeated(call, asked, lambda: JobListing(call, asked).answer())
    return await JobListing(call, asked).answer()


def read_options(call: Call) -> dict[str, str]:
    """The options by name, variables included."""
    options, rest = read_words("squeue", OPTIONS, call.request.argv)
    asked = dict(options)
    if rest:
        # ``-j`` and ``-s`` take a value that stands apart as well; further words are an error.
        late = next((key for key in ("jobs", "steps") if asked.get(key) == ""), "")
        if not late or len(rest) > 1:
            word = rest[0] if not late else rest[1]
            text = f"squeue: error: Unrecognized option: {word}\n"
            raise CommandFailed(text, 1, usage_of("squeue", OPTIONS))
        asked[late] = rest[0]
    open_ones = {key: name for key, name in VARIABLES.items() if not _overrules(asked, key)}
    fill_in(OPTIONS, asked, call.env, open_ones)
    return asked


def _overrules(asked: dict[str, str], key: str) -> bool:
    """Whether a form of the output was named, so that no variable names another one."""
    forms = {"format", "Format", "long", "start", "json", "yaml"}
    return key in forms and bool(forms & asked.keys())


class JobListing:
    """One listing: what it wants, and how it is to look."""

    def __init__(self, call: Call, asked: dict[str, str]) -> None:
        self.call = call
        self.asked = asked
        self.view = SlurmView(call.context)
        env = call.env
        self.moments = Moments(
            self.view.now_s, zone_of(env.get("TZ", "")), env.get("SLURM_TIME_FORMAT", "")
        )
        self.errors: list[str] = []
        require_cluster("squeue", asked, self.view.cluster_name)
        self.states = self._states()
        self.refs = self._refs()
        self.nodes = self._nodes() if asked.get("nodelist") else frozenset[str]()
        self.shape = shape_asked("squeue", asked, env)

    async def answer(self) -> Answer:
        if "steps" in self.asked:
            return await self._steps()
        layout = self._layout()
        jobs = await self.jobs()
        if self.shape is not None:
            return await self._document(jobs, self.shape)
        if len(self.refs) == 1 and not jobs and not self._known(self.refs[0]):
            return Answer("", "".join(self.errors) + UNKNOWN, 1)
        shown = [job for job in jobs if job.state in self.states]
        # Sorting very many of them beside the controller lets it go on meanwhile.
        jobs = (
            await asyncio.to_thread(self._sorted, shown)
            if len(jobs) > MANY
            else self._sorted(shown)
        )
        lines = [] if "noheader" in self.asked else self._heading(layout)
        lines += await each(jobs, layout.line)
        return Answer("".join(f"{line}\n" for line in lines), "".join(self.errors))

    async def jobs(self, *, steps: bool = False) -> list[JobRecord]:
        """Every job that was asked for, in whatever state."""
        host = self.call.context.host
        recorder = Recorder(self.call.context, self.view.now_s, actor=self.call.actor, steps=steps)
        wanted = self._wanted(steps)
        jobs = await unfinished(host, wanted, recorder)
        if self.refs or not self.states.isdisjoint(ENDED):
            await host.on_disk()
            since_s = self.view.now_s - MIN_JOB_AGE_S
            over = await lately_ended(host, wanted, recorder, since_s)
            # Who ended meanwhile is in both: its end counts.
            jobs = list({job.shown_id: job for job in (*jobs, *over)}.values())
        if "notme" in self.asked:
            jobs = [job for job in jobs if job.user != self.call.actor.user]
        if not SIEVES & self.asked.keys():
            return jobs
        return [job for job in jobs if self._fits(job)]

    def _wanted(self, steps: bool) -> JobSieve:
        return JobSieve(
            refs=RefIndex(self.refs),
            users=self._users(),
            partitions=_words(self.asked.get("partition", "")),
            names=_words(self.asked.get("name", "")),
            split="array" in self.asked,
            steps=steps,
        )

    def _fits(self, job: JobRecord) -> bool:
        asked = self.asked
        named = {"account": job.account, "qos": job.qos, "reservation": job.reservation}
        for key, value in named.items():
            if self._named[key] and value not in self._named[key]:
                return False
        if asked.get("nodelist"):
            return not self.nodes.isdisjoint(job.nodes)
        return not asked.get("licenses") or bool(job.licenses)

    @cached_property
    def _named(self) -> dict[str, frozenset[str]]:
        return {key: _words(self.asked.get(key, "")) for key in ("account", "qos", "reservation")}

    def _nodes(self) -> frozenset[str]:
        text = self.asked["nodelist"]
        try:
            found = frozenset(hostlist.expand(text))
        except ValueError:
            raise CommandFailed(f"squeue: error: Invalid node name {text}\n") from None
        for name in found:
            if name not in self.view.cluster.nodes:
                raise CommandFailed(f"squeue: error: Invalid node name {name}\n")
        return found

    def _users(self) -> frozenset[str]:
        if "me" in self.asked:
            return frozenset({self.call.actor.user})
        text = self.asked.get("user", "")
        if not text:
            return frozenset()
        return frozenset(filter(None, (self._user(word) for word in text.split(",") if word)))

    def _user(self, word: str) -> str:
        if is_digits(word) and len(word) < 11:
            entry = PEOPLE.entry(int(word))
            return entry.name if entry is not None else word
        if PEOPLE.entry(word) is None and not is_known(self.view.cluster, word):
            self.errors.append(f"squeue: error: Invalid user: {word}\n\n")
        return word

    def _states(self) -> frozenset[str]:
        text = self.asked.get("states", "")
        if text.lower() == "all":
            return frozenset(COMPACT)
        if "start" in self.asked and not text:
            return frozenset({"PENDING"})
        found = set()
        for word in filter(None, text.split(",")):
            state = parse_state(word)
            if state is None:
                raise CommandFailed(
                    f"squeue: error: Invalid job state specified: {word}\n"
                    f"squeue: error: Valid job states include: {','.join(COMPACT)}\n\n"
                )
            found.add(state)
        return frozenset(found or UNFINISHED)

    def _refs(self) -> tuple[JobRef, ...]:
        found = []
        for word in split_refs(self.asked.get("jobs", "")):
            ref = parse_ref(word)
            if ref is None or ref.step:
                raise CommandFailed(f"squeue: error: Invalid job id: {word}\n")
            found.append(ref)
        return tuple(found)

    def _known(self, ref: JobRef) -> bool:
        """Whether there is such a job that only the other filters keep out."""
        cluster = self.view.cluster
        array = cluster.arrays.get(ref.id)
        return ref.id in cluster.jobs or bool(array and array.waiting)

    def _layout(self) -> Layout[JobRecord]:
        asked, cluster = self.asked, self.view.cluster_name
        convert = "noconvert" not in asked
        read: Read[JobRecord]
        if "Format" in asked:
            read = read_long(asked["Format"], names(self.moments, cluster, convert=convert))
        else:
            text = asked.get("format") or self._usual_format()
            read = read_percent(text, letters(self.moments, cluster, convert=convert))
        self.errors += [
            f"squeue: error: Invalid job format specification: {word}\n" for word in read.unknown
        ]
        return read.layout

    def _usual_format(self) -> str:
        if "start" in self.asked:
            return FORMAT_START
        return FORMAT_LONG if "long" in self.asked else FORMAT

    def _heading(self, layout: Layout[JobRecord]) -> list[str]:
        named = [f"CLUSTER: {self.view.cluster_name}"] if "clusters" in self.asked else []
        dated = [self.moments.date_line()] if "long" in self.asked else []
        return [*named, *dated, layout.header()]

    def _sorted(self, jobs: list[JobRecord]) -> list[JobRecord]:
        """By the keys of ``-S``, the last one first, because sorting keeps the order of equals."""
        default = "S" if "start" in self.asked else "P,t,-p"
        jobs.sort(key=lambda job: (job.array_id or job.job_id, job.array_index or 0))
        for letter, down in reversed(_sort_keys(self.asked.get("sort", default))):
            key = SORT_KEYS.get(letter)
            if key is not None:
                jobs.sort(key=key, reverse=down)
        return jobs

    async def _document(self, jobs: list[JobRecord], shape: DocumentShape) -> Answer:
        shown = sorted(
            (job for job in jobs if job.state in self.states or "states" not in self.asked),
            key=lambda job: job.job_id,
        )
        cluster, of = self.view.cluster_name, shape.item(later_job)
        items = LongList(shown, lambda job: of(job_document(job, cluster)))
        return await shape.answer("jobs", items, command="squeue")

    async def _steps(self) -> Answer:
        meant = self.refs + _step_refs(self.asked["steps"])
        self.refs = meant
        jobs = await self.jobs(steps=True)
        shown = [job for job in jobs if job.state in UNFINISHED]
        lines = step_lines(shown, self.asked, meant, self.errors, self.moments)
        return Answer("".join(f"{line}\n" for line in lines), "".join(self.errors))


def _step_refs(text: str) -> tuple[JobRef, ...]:
    found = []
    for word in split_refs(text):
        ref = parse_ref(word)
        if ref is None:
            raise CommandFailed(f"squeue: error: Invalid job_step id: {word}\n")
        if not ref.step:
            raise CommandFailed(f"squeue: error: Invalid job_step id: {word}.??\n")
        found.append(ref)
    return tuple(found)


def _sort_keys(text: str) -> list[tuple[str, bool]]:
    """``P,t,-p`` or ``Pt-p``: letters, and whether each one counts downwards."""
    found: list[tuple[str, bool]] = []
    down = False
    for letter in text.replace(",", ""):
        if letter in "+-":
            down = letter == "-"
            continue
        if letter not in SORT_LETTERS:
            raise CommandFailed(f"squeue: error: Invalid sort specification: {letter}\n")
        found.append((letter, down))
        down = False
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def _start_key(job: JobRecord) -> float:
    return job.start_s or float("inf")


#: What ``-S`` sorts by, by letter.
SORT_KEYS: dict[str, Callable[[JobRecord], Any]] = {
    "a": lambda job: job.account,
    "A": lambda job: job.raw_id,
    "C": lambda job: job.cpus,
    "D": lambda job: job.node_count,
    "e": lambda job: job.end_s,
    "i": lambda job: (job.array_id or job.job_id, job.array_index or 0),
    "j": lambda job: job.name,
    "l": lambda job: job.limit_s if job.limit_s is not None else float("inf"),
    "m": lambda job: job.memory_mib,
    "M": lambda job: job.run_s,
    "N": lambda job: job.nodes,
    "p": lambda job: job.priority,
    "P": lambda job: job.partition,
    "Q": lambda job: job.priority,
    "S": _start_key,
    "t": lambda job: place_of(job.state),
    "T": lambda job: place_of(job.state),
    "u": lambda job: job.user,
    "U": lambda job: job.uid,
    "V": lambda job: job.submit_s,
}
#: What Slurm takes; those without a key of their own are equal for all jobs here.
SORT_LETTERS = frozenset(SORT_KEYS) | frozenset("BEFGHIJKLORXYZbcdfghknqrsvwxz")
