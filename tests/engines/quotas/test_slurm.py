"""Accounts of a real Slurm are the quotas of projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.quotas.conftest import SlurmSite


def test_a_quota_set_through_rota_holds_jobs_back_in_slurm_until_it_is_raised(
    slurm_site: SlurmSite,
):
    site = slurm_site
    set_ = site.quota(cpu_quota=2, memory_quota=4, gpu_quota=1)
    running = site.job(2, "/bin/sleep", "600")
    site.box.reach(running, "running")
    outside = site.sbatch(1, "true")
    inside = site.job(1, "/bin/true")

    until(lambda: site.told(outside) == f"PENDING {site.reason}", "Slurm to hold it back")
    text = "holds 2 of at most 2 CPUs, 1 wanted"
    until(lambda: text in site.box.why(inside), "the reason")
    why = site.box.why(inside)
    raised = site.quota(cpu_quota=4)

    assert set_["provider"] == "slurm"
    assert set_["cpu"] == {"limit": 2.0, "used": 0.0, "available": 2.0, "percent": 0.0}
    assert set_["synced_at"]
    assert f"rota quota set --project {site.project} --cpus 3" in why
    assert site.limits() == "cpu=4,gres/gpu=1,mem=4G"
    assert raised["outer"]["cpu"] == {"limit": 4.0, "used": 2.0}
    assert site.box.ended(inside)["state"] == "completed"
    until(lambda: site.told(outside, "%T") in ("COMPLETED", ""), "the other one to run")


@pytest.mark.parametrize("slurm_site", ["rest"], indirect=True)
def test_use_outside_rota_counts_and_is_shown_with_the_numbers(slurm_site: SlurmSite):
    site = slurm_site
    site.quota(cpu_quota=4)
    first = site.job(1, "/bin/true")
    site.box.ended(first)
    outside = site.sbatch(3, "sleep 600")
    until(lambda: site.told(outside, "%T") == "RUNNING", "it to run")

    until(lambda: site.shown()["cpu"]["used"] == 3, "its use")
    waits = site.job(2, "/bin/true")
    until(lambda: "3 outside Rota" in site.box.why(waits), "the reason")
    why, shown = site.box.why(waits), site.shown()
    told = site.box.rota("quota", "show", "--project", site.project).stdout
    site.slurm.run("scancel", outside)

    text = "holds 3 (3 outside Rota) of at most 4 CPUs by the quota in slurm, 2 wanted"
    assert f"project {site.project} {text}" in why
    assert "use of CPUs: 0 by Rota, 3 by slurm" in shown["drift"]
    assert "provider: slurm, last told 20" in told
    assert "use of CPUs: 0 by Rota, 3 by slurm" in told
    assert site.box.ended(waits)["state"] == "completed"


@pytest.mark.parametrize("slurm_site", ["commands"], indirect=True)
def test_one_that_slurm_holds_back_itself_says_so_with_the_numbers(slurm_site: SlurmSite):
    site = slurm_site
    site.box.down()
    site.box.env["ROTA_QUOTAS_POLL_S"] = "600"
    site.up()
    site.quota(cpu_quota=2)
    site.box.ended(site.job(1, "/bin/true"))
    outside = site.sbatch(2, "sleep 600")
    until(lambda: site.told(outside, "%T") == "RUNNING", "it to run")

    held = site.job(2, "/bin/true")
    until(lambda: site.reason in site.box.why(held), "the reason of Slurm")
    site.synced()
    why = site.box.why(held)
    site.quota(cpu_quota=4)

    numbers = "has at most 2 CPUs, of which 2 were used (2 outside Rota)"
    assert f"{site.reason}: by the quota in slurm project {site.project} {numbers}" in why
    assert site.box.ended(held)["state"] == "completed"
    site.slurm.run("scancel", outside)


@pytest.mark.parametrize("slurm_site", ["commands"], indirect=True)
def test_a_limit_that_is_changed_in_slurm_shows_as_drift_and_holds(slurm_site: SlurmSite):
    site = slurm_site
    site.quota(cpu_quota=4)
    site.change("cpu=1")

    drift = "limit of CPUs: 4 in Rota, 1 in slurm"
    until(lambda: drift in site.shown()["drift"], "the drift")
    job = site.job(2, "/bin/true")
    reason = f"project {site.project} holds 0 of at most 1 CPU by the quota in slurm, 2 wanted"
    until(lambda: reason in site.box.why(job), "the reason")
    again = site.quota(cpu_quota=4)
    site.box.api("PUT", f"/projects/{site.project}-free", {"parent": site.project})
    free = site.box.ran(["/bin/true"], project=f"{site.project}-free", resources={"cpus": 1})

    assert free["state"] == "completed", "a project without limits has an account, too"
    assert (again["drift"], site.limits()) == ([], "cpu=4")
    assert site.box.ended(job)["state"] == "completed"


# A command waits a minute for a slurmctld that is gone.
@pytest.mark.parametrize("slurm_site", ["rest"], indirect=True)
def test_without_an_answer_the_last_known_values_hold_and_what_was_never_told_of_is_held(
    slurm_site: SlurmSite,
):
    site = slurm_site
    site.quota(cpu_quota=3)
    site.box.ended(site.job(1, "/bin/true"))
    before = site.shown()
    site.stop("slurmctld", "slurmdbd")

    until(lambda: site.shown()["warning"], "the warning", 120)
    silent = site.shown()
    warned = site.box.status()["warning"]
    site.box.api("PUT", f"/projects/{site.project}-new", {})
    new = site.box.job(["/bin/true"], project=f"{site.project}-new", resources={"cpus": 1})
    unseen = f"slurm has never told the quota of project {site.project}-new"
    until(lambda: unseen in site.box.why(new), "the reason")
    raised = site.quota(cpu_quota=5)
    site.box.kill("controller")
    until(lambda: site.shown()["cpu"]["limit"] == 3, "the last known limit after a restart")
    site.slurm.start()

    assert silent["warning"].startswith("slurm does not answer: ")
    assert silent["warning"].endswith("what it said last holds")
    assert warned.startswith("slurm, which has the quotas of projects, does not answer since 20")
    assert silent["outer"] == before["outer"]
    assert "its limits could not be set in slurm" in raised["warning"]
    until(lambda: site.synced()["warning"] == "", "the end of the warning")
    assert site.limits() == "cpu=5"
    assert unseen not in site.box.why(new)
