"""Clusters and virtual data centres: names that jobs give, and the centres themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, NotFound, Rejected
from rota.core.facts.site.clusters import Choice
from rota.core.words.policy_text import nearest
from rota.core.words.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.controller.commands import commands as cmd
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec
    from rota.core.facts.site.clusters import Vdc


def clusters_in(cluster: Cluster) -> list[str]:
    """Every cluster that has a node on record, also where the node is away."""
    return sorted({node.cluster for node in cluster.nodes.values()})


def refuse_place(cluster: Cluster, spec: JobSpec) -> None:
    """A cluster, engine or virtual data centre that a job names must be known."""
    placement = spec.placement
    if placement.cluster:
        refuse_unknown("cluster", placement.cluster, clusters_in(cluster))
    if placement.engine:
        engines = {node.spec.engine for node in cluster.nodes.values()}
        refuse_unknown("engine", placement.engine, sorted(engines - {""}))
    if placement.vdc:
        refuse_unknown("vdc", placement.vdc, [vdc.name for vdc in cluster.policy.vdcs])


def refuse_unknown(field: str, name: str, known: Iterable[str], kind: str = "") -> None:
    """``kind``: what it is, where the field is called otherwise."""
    names = [*known]
    if name not in names:
        hint = nearest(name, names) if names else "there is none yet"
        raise Rejected.unknown(field, name, kind or field, hint)


def set_vdc(scribe: Scribe, command: cmd.SetVdc) -> object:
    """Its clusters must have been seen once."""
    policy, vdc = scribe.cluster.policy, command.vdc
    known = clusters_in(scribe.cluster)
    for name in vdc.names:
        refuse_unknown("clusters", name, known, "cluster")
    for name in vdc.preferred:
        refuse_unknown("preferred", name, vdc.names, "cluster in clusters")
    if vdc.strategy is Choice.AFFINITY and not vdc.preferred:
        raise Rejected.because("preferred", "", "the strategy affinity needs at least one cluster")
    others = tuple(other for other in policy.vdcs if other.name != vdc.name)
    after = replace(policy, vdcs=tuple(sorted((*others, vdc), key=_by_name)))
    if after != policy:
        scribe.emit(ev.PolicySet(policy=after))
    return vdc


def _by_name(vdc: Vdc) -> str:
    return vdc.name


def remove_vdc(scribe: Scribe, command: cmd.RemoveVdc) -> object:
    """Refused while it has jobs."""
    cluster, name = scribe.cluster, command.vdc
    policy = cluster.policy
    if policy.vdc(name) is None:
        known = ", ".join(vdc.name for vdc in policy.vdcs) or "none"
        raise NotFound(f"there is no vdc {name}; known: {known}", field="vdc", value=name)
    specs = [job.spec for job in cluster.jobs.values()]
    specs += [array.spec for array in cluster.arrays.values() if array.waiting]
    count = sum(spec.vdc == name for spec in specs)
    if count:
        raise Conflict(f"vdc {name} still has {counted(count, 'jobs')}", field="vdc", value=name)
    left = tuple(vdc for vdc in policy.vdcs if vdc.name != name)
    scribe.emit(ev.PolicySet(policy=replace(policy, vdcs=left)))
    return name
