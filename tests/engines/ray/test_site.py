"""Rota's controller, its host and a real Ray together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.ray.cluster import Ray
    from tests.engines.ray.conftest import RaySite


def test_jobs_run_in_ray_and_their_output_outlives_them(site: RaySite, ray: Ray):
    box = site.box

    good, bad = box.job(["sh", "-c", "echo hi; echo no >&2"]), box.job(["sh", "-c", "exit 3"])

    shown, failed = box.ended(good), box.ended(bad)
    assert (shown["state"], shown["exit_code"], failed["exit_code"]) == ("completed", 0, 3)
    assert shown["nodes"][0] in ("n1.lab", "n2.lab", "n3.lab")
    number = shown["attempts"][0]["external_id"]
    assert number.startswith("rota.")
    until(lambda: not ray.jobs(number), "the job to be gone from Ray")
    assert box.output(good) == "hi\n"


def test_a_running_job_is_cancelled_and_its_output_stays(site: RaySite):
    job = site.box.job(["sh", "-c", "echo begun; sleep 600"])
    site.box.reach(job, "running")
    until(lambda: site.box.output(job) == "begun\n", "its output")

    site.box.rota("cancel", str(job))

    assert site.box.ended(job)["state"] == "cancelled"
    assert site.box.output(job) == "begun\n"


def test_a_program_of_ray_finds_its_cluster(site: RaySite, ray: Ray):
    text = "import ray; ray.init(logging_level='ERROR'); print(ray.cluster_resources()['CPU'])"

    job = site.box.ran([ray.python, "-c", text])

    assert (job["state"], site.box.output(job["id"])) == ("completed", "12.0\n")


def test_a_host_that_is_killed_among_six_jobs_loses_and_doubles_nothing(site: RaySite):
    box = site.box
    marks = box.work / "marks"
    mark = f"echo x >>{marks}.$ROTA_JOB_ID; sleep 0.5"
    jobs = [box.job(["sh", "-c", mark]) for _ in range(6)]
    box.reach(jobs[0], "running", "completed")

    site.kill()
    site.begin()

    assert {box.ended(job)["state"] for job in jobs} == {"completed"}
    assert [(box.work / f"marks.{job}").read_text() for job in jobs] == ["x\n"] * 6
    assert {len(box.ended(job)["attempts"]) for job in jobs} == {1}
