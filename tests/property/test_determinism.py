"""Equal inputs, equal decisions: in another process, with another hash seed, in a new Scheduler."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import crowd
from rota.core.facts.policy import Backfill, Policy
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage
from tests.property import crowds, sites

ROOT = Path(__file__).parents[2]


def story_digest(policy: Policy) -> str:
    """Everything that was decided while a crowd of jobs came and went."""
    nodes = [node.spec for node in crowd.site(12, 0).nodes.values()]
    stage = Stage(nodes, policy, checked=False)
    for number, job in enumerate(crowd.site(1, 60).jobs.values()):
        spec = msgspec.structs.replace(job.spec, preemptible=job.id % 2 == 0, grace_s=5)
        stage.submit_later(number * 60.0, spec, spec.time_limit_s * 0.7)
    stage.play()
    digest = hashlib.sha256()
    for at_s, plan in stage.plans:
        digest.update(repr((at_s, plan)).encode())
    return digest.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "conservative", "preemptive"])
def test_a_story_is_decided_the_same_in_every_process_and_with_every_hash_seed(name):
    code = (
        "from rota.core.words.presets import PRESETS; "
        "from tests.property.test_determinism import story_digest; "
        f"print(story_digest(PRESETS[{name!r}]))"
    )
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
            capture_output=True,
            cwd=ROOT,
            check=True,
            timeout=240,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


#: Rules whose answers follow from the Cluster alone: nothing is remembered and nothing ages.
timeless = st.builds(
    lambda kind, primary, strategy: msgspec.structs.replace(
        sites.backfilling(kind),
        order=msgspec.structs.replace(sites.backfilling(kind).order, primary=primary),
        place=msgspec.structs.replace(Policy().place, strategy=strategy),
    ),
    st.sampled_from([Backfill.NONE, Backfill.EASY]),
    st.sampled_from(["fifo", "sjf", "priority", "fairshare"]),
    st.sampled_from(sites.STRATEGIES),
)


@settings(max_examples=60)
@given(
    nodes=sites.nodes(),
    policy=timeless,
    jobs=sites.submissions(sites.specs(), most=14),
    steps=st.integers(0, 12),
    late=st.lists(sites.specs(), min_size=1, max_size=3),
    starts=sites.hosts,
)
def test_a_scheduler_that_lived_through_a_story_decides_as_a_new_one_does(
    nodes, policy, jobs, steps, late, starts
):
    lived, twin = (sites.hosted(nodes, policy, starts) for _ in range(2))
    for stage in (lived, twin):
        for job in jobs:
            stage.submit_later(job.at_s, job.spec, job.runs_s)
    for _ in range(steps):
        # The twin forgets everything before each step.
        crowds.forget(twin)
        lived.step()
        twin.step()

        assert decisions(twin) == decisions(lived)
    for stage in (lived, twin):
        for spec in late:
            stage.submit(spec)
    crowds.forget(twin)

    lived.run()
    twin.run()

    assert decisions(twin) == decisions(lived)


def decisions(stage: Stage) -> list[object]:
    """What was decided so far and when, in however many passes and whatever order in a moment."""
    found = [
        (at_s, decision)
        for at_s, plan in stage.plans
        for decision in (*plan.evictions, *plan.starts)
    ]
    return sorted(found, key=repr)


@given(
    nodes=sites.nodes(),
    jobs=st.lists(sites.specs(), min_size=1, max_size=10),
    starts=sites.hosts,
)
def test_a_pass_over_an_unchanged_site_decides_nothing_new(nodes, jobs, starts):
    stage = sites.hosted(nodes, PRESETS["default"], starts)
    for spec in jobs:
        stage.submit(spec)
    stage.run()

    again = stage.run()

    assert again.starts == []
    assert again.evictions == []


@given(
    nodes=sites.nodes(),
    jobs=st.lists(sites.specs(), min_size=2, max_size=12),
    limit=st.integers(1, 3),
    policy=timeless,
    starts=sites.hosts,
)
def test_passes_with_a_small_limit_start_what_one_large_pass_starts(
    nodes, jobs, limit, policy, starts
):
    large, small = (sites.hosted(nodes, policy, starts) for _ in range(2))
    for stage in (large, small):
        for spec in jobs:
            # Whoever waits for a neighbour is looked at again in between.
            stage.submit(sites.without_neighbours(spec))

    large.run()
    small.run(limit)

    assert sorted(small.started_s) == sorted(large.started_s)


def started_by_one(name: str, seed: int, limit: int, **share: float) -> list[int]:
    """Jobs that only one of two starts: a large pass, or passes that start ``limit`` each."""
    rules = crowds.policy(name, **share)
    stages = [crowds.stage(rules, starts=(1, 256)[seed % 2]) for _ in range(2)]
    for stage in stages:
        crowds.tell(stage, crowds.jobs(seed, 24))
        for _ in range(8):
            stage.step()
        for job in stage.running[::2]:
            stage.end(job)
        for late in crowds.jobs(seed + 1000, 30):
            stage.submit(late.spec, late.runs_s)
    large, small = stages

    large.run()
    small.run(limit)

    return sorted(large.started_s.keys() ^ small.started_s.keys())


def all_started_by_one(name: str, **share: float) -> list[list[int]]:
    return [started_by_one(name, seed, limit, **share) for seed in range(4) for limit in (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_under_every_policy_small_passes_start_what_a_large_one_starts(name):
    assert all_started_by_one(name) == [[]] * 8


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_beyond_a_soft_share_small_passes_start_what_a_large_one_starts(name):
    assert all_started_by_one(name, soft_ratio=0.5) == [[]] * 8


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_beyond_a_hard_share_small_passes_start_what_a_large_one_starts(name):
    assert all_started_by_one(name, hard_ratio=0.5) == [[]] * 8
