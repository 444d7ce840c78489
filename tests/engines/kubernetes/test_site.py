"""Rota's controller, its host and a real Kubernetes together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.kubernetes.cluster import Kube
    from tests.engines.kubernetes.conftest import KubeSite


def test_jobs_run_in_pods_and_their_output_outlives_them(site: KubeSite):
    box = site.box

    good, bad = box.ran(["echo", "hi"]), box.ran(["sh", "-c", "exit 3"])

    assert (good["state"], good["exit_code"], bad["exit_code"]) == ("completed", 0, 3)
    assert good["nodes"][0] in ("fake-1.lab", "fake-2.lab", "fake-3.lab")
    until(lambda: not site.pods(), "the pods to be gone")
    assert box.output(good["id"]) == "hi\n"


def test_a_running_job_is_cancelled_and_its_output_stays(site: KubeSite):
    job = site.box.job(["sh", "-c", "echo begun; sleep 600"])
    shown = site.box.reach(job, "running")
    until(lambda: site.box.output(job) == "begun\n", "its output")

    site.box.rota("cancel", str(job))

    assert site.box.ended(job)["state"] == "cancelled"
    until(lambda: not site.pods(), "its pod to be gone")
    assert site.box.output(job).startswith("begun\n")
    assert shown["attempts"][0]["external_id"].startswith("rota-")


def test_over_quota_a_job_waits_with_the_words_of_kubernetes_and_starts_when_it_is_raised(
    site: KubeSite, kube: Kube
):
    kube.quota(pods="0")
    try:
        job = site.box.job(["true"])
        cancelled = site.box.job(["true"])
        for number in (job, cancelled):
            until(lambda n=number: "exceeded quota: small" in site.box.why(n), "the reason")
        site.box.rota("cancel", str(cancelled))
        assert site.box.ended(cancelled)["state"] == "cancelled"
    finally:
        kube.no_quota()

    assert site.box.ended(job)["state"] == "completed"


def test_a_host_that_is_killed_among_twenty_jobs_loses_and_doubles_nothing(site: KubeSite):
    box = site.box
    marks = box.work / "marks"
    mark = f"echo x >>{marks}.$ROTA_JOB_ID; sleep 0.5"
    jobs = [box.job(["sh", "-c", mark]) for _ in range(20)]
    box.reach(jobs[0], "running", "completed")

    site.kill()
    site.begin()

    assert {box.ended(job)["state"] for job in jobs} == {"completed"}
    assert [(box.work / f"marks.{job}").read_text() for job in jobs] == ["x\n"] * 20
    assert {len(box.ended(job)["attempts"]) for job in jobs} == {1}
    until(lambda: not site.pods(), "all pods to be gone")


def test_a_job_on_a_node_that_dies_is_tried_again_on_another(site: KubeSite, kube: Kube):
    job = site.box.job(["sleep", "600"], retries=1, grace_s=1)
    first = site.box.reach(job, "running")["nodes"][0]
    dead = first.removesuffix(".lab")

    kube.ctl("annotate", "node", dead, "fake-node/state=dead")
    try:
        until(lambda: len(site.box.api("GET", f"/jobs/{job}")[1]["attempts"]) == 2, "a retry")
        shown = site.box.reach(job, "running")
    finally:
        kube.ctl("annotate", "node", dead, "fake-node/state-")

    assert shown["attempts"][0]["cause_code"] == "node_lost"
    assert shown["nodes"][0] != first


def test_a_node_that_is_cordoned_gets_no_jobs(site: KubeSite, kube: Kube):
    site.stop()
    kube.ctl("cordon", "fake-1", "fake-2")
    try:
        site.begin()
        jobs = [site.box.ran(["true"]) for _ in range(3)]
    finally:
        kube.ctl("uncordon", "fake-1", "fake-2")

    assert {job["nodes"][0] for job in jobs} == {"fake-3.lab"}
