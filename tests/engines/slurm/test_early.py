"""A real Slurm gets jobs before there is room while jobs end often, and gives them back after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.engines.slurm.test_site import SlurmSite, serving
from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.slurm.site import Site

CPUS = 12
DEADLINE_S = 240.0


@pytest.fixture(params=["ours", "theirs"])
def site(request: pytest.FixtureRequest, slurm: Site, tmp_path: Path) -> Iterator[SlurmSite]:
    with serving(slurm, tmp_path, placement=request.param) as made:
        until(lambda: cpus_of(made) == CPUS, "all nodes in service")
        yield made


def cpus_of(site: SlurmSite) -> int:
    return sum(node["total"]["cpus"] for node in site.nodes())


def shown(site: SlurmSite, jobs: list[int]) -> list[dict[str, Any]]:
    return [site.box.api("GET", f"/jobs/{job}")[1] for job in jobs]


def test_short_jobs_wait_inside_for_their_turn_and_long_ones_in_our_own_queue(site: SlurmSite):
    short = [site.box.job(["/bin/true"]) for _ in range(60)]
    until(lambda: len(site.listed()) > CPUS, "more jobs inside than there are CPUs", DEADLINE_S)
    ended = [site.box.ended(job) for job in short]
    long = [site.box.job(["/bin/sleep", "600"]) for _ in range(CPUS + 4)]

    def is_only_inside_what_runs() -> bool:
        states = [job["state"] for job in shown(site, long)]
        return states.count("running") == CPUS and states.count("queued") == 4

    until(is_only_inside_what_runs, "only what runs to be inside", DEADLINE_S)

    assert {job["state"] for job in ended} == {"completed"}
    assert site.listed("-t", "PD") == []
    back = [attempt for job in (*ended, *shown(site, long)) for attempt in job["attempts"][:-1]]
    assert {attempt["cause_code"] for attempt in back} <= {"preempted"}
    assert not any(attempt["started_at"] for attempt in back)


def test_a_daemon_of_slurm_that_dies_leaves_its_core_in_the_folder_of_its_test(slurm: Site):
    pid = (slurm.state / "run" / "slurmctld.pid").read_text().split()[0]

    folder = slurm.run("readlink", f"/proc/{pid}/cwd")

    assert folder == str(slurm.state)


def test_a_pool_of_a_slurm_that_looks_late_keeps_what_it_was_given(slurm: Site, tmp_path: Path):
    """What it has not looked at is not too much: taken back, its kind would stay out a minute."""
    settings = slurm.state / "etc" / "slurm.conf"
    before = settings.read_text()
    settings.write_text(f"{before}\nSchedulerParameters=batch_sched_delay=12\n")
    slurm.run("scontrol", "reconfigure")
    try:
        with serving(slurm, tmp_path, placement="theirs") as site:
            until(lambda: cpus_of(site) == CPUS, "all nodes in service")
            site.box.ran(["/bin/true"])  # It has just looked: the next look is far.
            ended = [site.box.ended(job) for job in [site.box.job(["/bin/true"]) for _ in "12345"]]
    finally:
        settings.write_text(before)
        slurm.run("scontrol", "reconfigure")

    assert {(job["state"], len(job["attempts"])) for job in ended} == {("completed", 1)}
