"""``sprio``: what the priorities of waiting jobs are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.api.people import PEOPLE
from rota.core.facts.states import WAITING
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.order.orderings import terms
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, fill_in, read_words, require_cluster
from rota.slurm.call.view import SlurmView, each
from rota.slurm.formats.layout import Layout, Read, ShownField, read_percent
from rota.slurm.records.accounts import is_known
from rota.slurm.records.job_refs import parse_ref, split_refs

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.facts.array import Array
    from rota.core.facts.job import Job, JobSpec
    from rota.slurm.call.command import Call

OPTIONS = OptionTable(
    "federation: there is none: this cluster is shown",
    "h noheader: no line of headings",
    "j jobs|job=?IDS: these jobs",
    "l long: more fields",
    "local: this cluster, which is how it always is",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "n norm: factors between 0 and 1",
    "o format=FIELDS: which fields, in which order",
    "p partition=NAMES: jobs of these partitions",
    "sibling: there are no federations",
    "S sort=FIELDS: in the order of these fields; - turns it round",
    "u user|users=NAMES: jobs of these users",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "w weights: the weight of each factor",
    "help: this text",
    "usage: the names of all options",
)
FORMAT = "%.15i %9r %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q"
FORMAT_LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
FORMAT_NORM = "%.15i %9r %10y %10a %10f %10j %10p %10q"
FORMAT_USER = "%.15i %9r %.8u %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q"


class PriorityRow(NamedTuple):
    """A waiting job and the terms of its priority."""

    id: str
    spec: JobSpec
    terms: dict[str, float]

    @property
    def total(self) -> int:
        return round(sum(self.terms.values()))


async def sprio(call: Call) -> Answer:
    """Answer one call."""
    options, rest = read_words("sprio", OPTIONS, call.request.argv)
    asked = dict(options)
    if rest and asked.get("jobs") == "":
        # As in Slurm, the ids may stand apart although they may be left out.
        asked["jobs"] = rest.pop(0)
    if rest:
        raise CommandFailed(f"sprio: error: Unrecognized option: {rest[0]}\n")
    fill_in(OPTIONS, asked, call.env, {"clusters": "SLURM_CLUSTERS", "format": "SPRIO_FORMAT"})
    if told := about_itself("sprio", OPTIONS, asked):
        return told
    view = SlurmView(call.context)
    require_cluster("sprio", asked, view.cluster_name)
    layout, errors = _layout(asked)
    errors += "".join(
        f"sprio: error: Invalid user: {name}\n"
        for name in filter(None, asked.get("user", "").split(","))
        if PEOPLE.entry(name) is None and not is_known(view.cluster, name)
    )
    lines = [] if "noheader" in asked else [layout.header()]
    if "weights" not in asked:
        rows = _rows(call, view, asked)
        if not rows and asked.get("jobs"):
            return Answer("Unable to find jobs matching user/id(s) specified\n", errors)
        lines += await each(rows, layout.line)
    return Answer("".join(f"{line}\n" for line in lines), errors)


def _layout(asked: dict[str, str]) -> tuple[Layout[PriorityRow], str]:
    usual = FORMAT_LONG if "long" in asked else FORMAT_NORM if "norm" in asked else FORMAT
    if usual == FORMAT and "user" in asked:
        usual = FORMAT_USER
    read: Read[PriorityRow] = read_percent(asked.get("format") or usual, _FIELDS)
    text = "".join(
        f"sprio: error: Invalid job format specification: {word}\n" for word in read.unknown
    )
    return read.layout, text


def _rows(call: Call, view: SlurmView, asked: dict[str, str]) -> list[PriorityRow]:
    inquiry = Inquiry(call.context.host.scheduler, view.now_s)
    rows = []
    for item, shown in _waiting(view):
        if _takes(item, shown, asked):
            rows.append(
                PriorityRow(shown, item.spec, terms(inquiry.entry_of(item), inquiry.this.view))
            )
    return rows


def _waiting(view: SlurmView) -> list[tuple[Job | Array, str]]:
    """What competes for room: neither held nor waiting for something else."""
    cluster = view.cluster
    jobs: list[tuple[Job | Array, str]] = [
        (cluster.jobs[number], str(number))
        for state in WAITING
        for number in list(cluster.census.by_state[state])
        if cluster.jobs[number].eligible_s and not cluster.jobs[number].held
    ]
    jobs += [
        (array, str(array.id))
        for array in view.arrays()
        if array.waiting and array.eligible_s and not array.held
    ]
    return sorted(jobs, key=lambda pair: pair[0].id)


def _takes(item: Job | Array, shown: str, asked: dict[str, str]) -> bool:
    spec = item.spec
    for key, value in (("user", spec.user), ("partition", spec.queue)):
        if asked.get(key) and value not in asked[key].split(","):
            return False
    if not asked.get("jobs"):
        return True
    refs = [parse_ref(word) for word in split_refs(asked["jobs"])]
    if None in refs:
        raise CommandFailed(f"sprio: error: Invalid job id: {asked['jobs']}\n")
    return any(ref is not None and str(ref.id) == shown for ref in refs)


def _term(name: str) -> Callable[[PriorityRow], str]:
    return lambda row: str(round(row.terms.get(name, 0.0)))


def _part(name: str) -> Callable[[PriorityRow], str]:
    """The part of a term in the whole."""
    return lambda row: f"{row.terms.get(name, 0.0) / max(row.total, 1):.8f}"


def _nothing(_: PriorityRow) -> str:
    return "0"


_FIELDS = {
    "a": ShownField("AGE", _part("age")),
    "A": ShownField("AGE", _term("age")),
    "b": ShownField("ASSOC", _nothing),
    "B": ShownField("ASSOC", _nothing),
    "c": ShownField("CLUSTER", lambda _: "rota"),
    "f": ShownField("FAIRSHARE", _part("share")),
    "F": ShownField("FAIRSHARE", _term("share")),
    "i": ShownField("JOBID", lambda row: row.id),
    "j": ShownField("JOBSIZE", _part("limit bonus")),
    "J": ShownField("JOBSIZE", _term("limit bonus")),
    "N": ShownField("NICE", _nothing),
    "o": ShownField("ACCOUNT", lambda row: row.spec.project),
    "p": ShownField("PARTITION", _part("boost")),
    "P": ShownField("PARTITION", _term("boost")),
    "q": ShownField("QOS", _part("base")),
    "Q": ShownField("QOS", _term("base")),
    "r": ShownField("PARTITION", lambda row: row.spec.queue),
    "S": ShownField("SITE", _nothing),
    "t": ShownField("TRES", lambda _: ""),
    "T": ShownField("TRES", lambda _: ""),
    "u": ShownField("USER", lambda row: row.spec.user),
    "y": ShownField("PRIORITY", lambda row: f"{row.total / 2**32:.14f}"),
    "Y": ShownField("PRIORITY", lambda row: str(row.total)),
}
