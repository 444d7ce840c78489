"""What a waiting job is told of its start comes true, if nothing else comes and limits are exact.

Sites and jobs are drawn at random, with node lists, excluded and tainted nodes, nodes to oneself,
a reservation and a drained node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.changes import events as ev
from rota.core.facts.job import JobSpec
from rota.core.facts.placing import Placement, Taint, Toleration
from rota.core.facts.tenant import Reservation
from rota.core.words.presets import PRESETS
from rota.scheduling.answers.advice import explain_and_advise
from rota.scheduling.answers.waiting_line import waiting_line
from rota.testing.stage import Stage, node
from tests.property import sites

if TYPE_CHECKING:
    from rota.core.facts.node import NodeSpec
    from rota.scheduling.answers.reasons import Expected

NAMES = ("n0", "n1", "n2")
LATE_S = 0.01


class Told(NamedTuple):
    """What a job was told, when, and the jobs that waited then, in the order of the policy."""

    at_s: float
    job: int
    placement: Placement
    expected: Expected
    order: list[int]


@st.composite
def machines(draw: st.DrawFn) -> list[NodeSpec]:
    found = []
    for name in NAMES[: draw(st.integers(1, 3))]:
        made = node(name, cpus=draw(st.sampled_from([2, 4])), gpus=draw(st.sampled_from([0, 2])))
        taints = draw(st.sampled_from([(), (), (Taint("special"),)]))
        found.append(msgspec.structs.replace(made, taints=taints))
    return found


placements = st.builds(
    Placement,
    nodes=st.sampled_from([(), (), ("n0",), ("n0", "n1")]),
    exclude=st.sampled_from([(), (), ("n1",)]),
    tolerations=st.sampled_from([(), (Toleration("special"),)]),
    exclusive=st.sampled_from([False, False, False, True]),
)


@st.composite
def jobs(draw: st.DrawFn) -> list[JobSpec]:
    def one() -> JobSpec:
        spec = draw(sites.simple_specs(widest=2))
        priority, grace_s = draw(st.sampled_from([10, 50, 80])), draw(st.sampled_from([0, 5]))
        return msgspec.structs.replace(
            spec, placement=draw(placements), priority=priority, grace_s=grace_s
        )

    return [one() for _ in range(draw(st.integers(3, 10)))]


def played(stage: Stage, specs: list[JobSpec], kept_s: int, drained: str) -> list[Told]:
    """All jobs come at once, a node goes out of service, and then each is asked at each moment."""
    if kept_s:
        start_s = stage.begin_s + kept_s
        stage.reserve(Reservation(1, "alice", start_s, start_s + 30, nodes=("n0",)))
    for spec in specs:
        stage.submit(spec)
    stage.run()
    if drained in stage.cluster.nodes:
        stage.tell(ev.NodeDrained(node=drained, drained=True, note="bad disk"))
        stage.run()
    found: list[Told] = []
    while True:
        order = waiting_line(stage.scheduler, stage.now_s, lambda _spec, _ran_s: 60.0).jobs
        for job in stage.waiting:
            expected = explain_and_advise(stage.scheduler, job, stage.now_s).tree.expected
            if expected is not None:
                placement = stage.cluster.jobs[job].spec.placement
                found.append(Told(stage.now_s, job, placement, expected, order))
        if not stage.step():
            return found


def is_passed(stage: Stage, told: Told) -> bool:
    """Whether a job started since then while one that stood before it still waited."""
    last_s = stage.started_s.get(told.job, float("inf"))
    starts_s = [stage.started_s.get(job, float("inf")) for job in told.order]
    return any(
        start_s < min(last_s, max(starts_s[:at])) for at, start_s in enumerate(starts_s) if at
    )


def may_be_there(told: Told, drained: str) -> bool:
    names = told.expected.nodes
    return bool(names) and all(name != drained and told.placement.admits(name) for name in names)


stories = given(
    nodes=machines(),
    specs=jobs(),
    kept_s=st.sampled_from([0, 0, 25]),
    drained=st.sampled_from(["", "", "n0", "n1"]),
)


@pytest.mark.parametrize("preset", ["conservative", "conservative-rebuild"])
@settings(max_examples=30)
@stories
def test_where_every_job_is_promised_its_start_each_told_start_is_kept_or_beaten(
    preset, nodes, specs, kept_s, drained
):
    stage = Stage(nodes, PRESETS[preset])

    for told in played(stage, specs, kept_s, drained):
        assert may_be_there(told, drained)
        assert stage.started_s[told.job] <= told.expected.start_s + LATE_S


@pytest.mark.parametrize("preset", ["default", "easy", "fifo", "priority", "preemptive", "lab"])
@settings(max_examples=30)
@stories
def test_a_told_start_is_kept_or_beaten_unless_a_job_passes_another(
    preset, nodes, specs, kept_s, drained
):
    stage = Stage(nodes, PRESETS[preset])

    for told in played(stage, specs, kept_s, drained):
        assert may_be_there(told, drained)
        late = stage.started_s.get(told.job, float("inf")) > told.expected.start_s + LATE_S
        assert not late or is_passed(stage, told)
