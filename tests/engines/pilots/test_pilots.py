"""Allocations of a real Slurm: asked for when jobs wait, known again, and let go."""

import stat
from pathlib import Path

import pytest

from tests.engines.pilots.conftest import PilotSite
from tests.journeys.box import until


def test_jobs_that_wait_run_in_an_allocation_that_goes_when_it_is_idle(site: PilotSite):
    site.add()

    jobs = [site.submit("/bin/true") for _ in range(3)]

    for job in jobs:
        site.until_state(job, "completed")
    site.until_gone()
    until(lambda: not site.nodes(), "the node to leave the list")
    assert len(site.allocations()) == 2  # Two jobs fill one.
    assert site.allocations()[0]["job_state"] == "COMPLETED"


def test_the_token_is_in_a_file_of_the_user_alone_and_goes_with_the_allocation(site: PilotSite):
    site.add()

    job = site.submit("/bin/true")

    site.until_state(job, "completed")
    (file,) = Path(site.folder).glob("*/pilot-*/stdin")
    secret = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in site.slurm.run("ps", "-eo", "args")
    site.until_gone()
    until(lambda: not site.tokens(), "the token to be revoked")


def test_an_allocation_that_waits_in_slurm_is_shown_with_its_reason_and_goes_with_the_wish(
    site: PilotSite,
):
    site.slurm.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        site.add()
        job = site.submit("/bin/true")
        shown = until(
            lambda: [a for a in site.pilot()["allocations"] if a["reason"]], "a reason in the list"
        )
        why = site.box.rota("why", str(job)).stdout
        listed = site.box.rota("engine", "pilot", "list").stdout

        site.box.rota("cancel", str(job))

        site.until_gone()
    finally:
        site.slurm.run("scontrol", "update", "PartitionName=main", "State=UP")
    assert (shown[0]["state"], shown[0]["reason"]) == ("waiting", "PartitionDown")
    assert f"a pilot of {site.name} waits in Slurm: PartitionDown" in why
    assert "1 waiting: PartitionDown" in listed


@pytest.mark.parametrize("lost", [False, True], ids=["journal kept", "journal lost"])
def test_killing_keeper_and_controller_loses_nothing_and_asks_for_nothing_twice(
    site: PilotSite, lost: bool
):
    site.add()
    job = site.submit("/bin/sh", "-c", "sleep 4")
    site.until_state(job, "running")

    site.kill_controller()
    if lost:
        for file in (site.box.state / "pilots" / site.name).glob("journal.db*"):
            file.unlink()
    site.kill_keeper()

    site.until_state(job, "completed")
    site.until_gone()
    assert len(site.allocations()) == 1
    assert site.box.api("GET", f"/jobs/{job}")[1]["attempts"][0]["exit_code"] == 0


def test_work_of_an_allocation_that_is_cancelled_starts_again_in_another(site: PilotSite):
    site.add()
    mark = site.box.work / "once"
    job = site.submit("/bin/sh", "-c", f"[ -e {mark} ] || {{ : >{mark}; sleep 60; }}", retries=1)
    site.until_state(job, "running")
    until(mark.exists, "the first run")
    first = site.nodes()

    site.slurm.run("scancel", str(site.alive()[0]["job_id"]))

    until(lambda: not set(first) & set(site.nodes()), "the node to leave the list")
    site.until_state(job, "completed")
    attempts = site.box.api("GET", f"/jobs/{job}")[1]["attempts"]
    causes = [attempt["cause"] for attempt in attempts]
    assert causes == ["node_lost: the node left: it was told to", "exit"]


def test_pilots_that_die_at_once_are_asked_for_less_and_less_often_and_say_why(site: PilotSite):
    site.add("--program", "/bin/false")

    job = site.submit("/bin/true")

    problem = until(lambda: site.pilot()["problem"], "what is wrong")
    assert "a pilot ended before it joined: exit code 1" in problem
    assert "the next one is asked for in" in problem
    assert f"no pilot of {site.name}: a pilot ended" in site.box.rota("why", str(job)).stdout
    assert len(site.allocations()) == 1


def test_a_partition_that_does_not_exist_is_told_in_one_line(site: PilotSite):
    site.add("--set", "partition=nowhere")

    site.submit("/bin/true")

    problem = until(lambda: site.pilot()["problem"], "what is wrong")
    assert problem.startswith("slurm refuses a pilot: ")
    assert site.allocations() == []


def test_no_more_are_asked_for_than_what_waits_would_fill(site: PilotSite):
    site.add("--most", "3")

    job = site.submit("/bin/sleep", "1")

    site.until_state(job, "completed")
    assert len(site.allocations()) == 1


def test_a_job_longer_than_any_allocation_asks_for_none(site: PilotSite):
    site.add("--time", "2m")

    long = site.submit("/bin/true", time_limit_s=3600)
    short = site.submit("/bin/true", time_limit_s=30)

    site.until_state(short, "completed")
    assert site.state(long) == "queued"
    assert "the node ends at" in site.box.rota("why", str(long)).stdout or not site.nodes()


def test_what_a_removed_pilot_has_asked_for_goes(site: PilotSite):
    site.add("--idle", "1s")
    job = site.submit("/bin/sleep", "3")
    site.until_state(job, "running")

    site.box.rota("engine", "pilot", "remove", site.name, "--yes")

    site.until_state(job, "completed")
    site.until_gone()
    until(lambda: not (site.box.state / "pilots" / site.name).exists(), "its journal to go")


def test_bad_settings_are_refused_in_one_line(site: PilotSite):
    for options, line in (
        (("--most", "0"), "most: 0 is not valid; 1 to 10000"),
        (("--set", "partitoin=main"), "unknown key pilots.bad.partitoin; did you mean partition?"),
        (("--time", "soon"), "time: 'soon' is not"),
        (("--set", "main"), "--set: 'main' is not valid; expected KEY=VALUE"),
        (("--set", "kind=ray"), "engine.kind: a pilot has no such key"),
    ):
        said = site.box.rota(
            "engine", "pilot", "add", "slurm", "bad", "--cpus", "1", *options, check=False
        )

        assert said.returncode != 0
        assert line in said.stderr
        assert said.stdout == ""


def test_without_a_size_an_allocation_is_a_whole_node(site: PilotSite):
    words = ("engine", "pilot", "add", "slurm", site.name, "--idle", "2s", "--time", "10m")
    site.box.rota(*words, "--set", f"folder={site.folder}")

    job = site.submit("/bin/sleep", "2")

    site.until_state(job, "running")
    (node,) = site.box.api("GET", "/nodes")[1]["items"]
    assert node["total"]["cpus"] == 4
    assert node["ends_at"] is not None
    assert site.alive()[0]["cpus"] == 4
