"""ResourceQuota objects of a real Kubernetes are the quotas of projects."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from tests.engines.kubernetes.cluster import NAMESPACE
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.kubernetes.cluster import Kube
    from tests.engines.quotas.conftest import KubeSite


def test_a_quota_set_through_rota_is_enforced_by_kubernetes_until_it_is_raised(
    kube_site: KubeSite,
):
    site = kube_site
    set_ = site.quota(cpu_quota=2, memory_quota=4, gpu_quota=1)
    running = site.job(2, "sleep", "600")
    site.box.reach(running, "running")
    until(lambda: site.object()["status"]["used"]["requests.cpu"] == "2", "its use")
    refused = site.pod("1")
    inside = site.job(1, "true")

    text = f"project {site.project} holds 2 of at most 2 CPUs, 1 wanted"
    until(lambda: text in site.box.why(inside), "the reason")
    raised = site.quota(cpu_quota=4)

    assert set_["provider"] == "k8s"
    assert "exceeded quota: project-" in refused
    assert "used: limits.cpu=2" in refused or "used: requests.cpu=2" in refused
    assert site.object()["spec"]["hard"] == {
        "requests.cpu": "4",
        "limits.cpu": "8",
        "requests.memory": "4Gi",
        "limits.memory": "8Gi",
        "requests.nvidia.com/gpu": "1",
    }
    assert raised["outer"]["cpu"] == {"limit": 4.0, "used": 2.0}
    assert site.box.ended(inside)["state"] == "completed"


def test_one_that_kubernetes_refuses_itself_says_so_and_starts_when_the_quota_is_raised(
    kube_site: KubeSite,
):
    site = kube_site
    site.box.down()
    site.box.env["ROTA_QUOTAS_POLL_S"] = "600"
    site.up()
    site.quota(cpu_quota=2)
    site.box.ended(site.job(1, "true"))
    assert site.pod("2") == ""

    held = site.job(2, "true")
    words = f"exceeded quota: project-{site.project}"
    until(lambda: words in site.box.why(held), "the words of Kubernetes")
    site.quota(cpu_quota=4)

    assert site.box.ended(held)["state"] == "completed"


def test_use_outside_rota_and_other_limits_show_as_drift_and_hold(kube_site: KubeSite):
    site = kube_site
    site.quota(cpu_quota=4)
    assert site.pod("1") == ""
    change = {"spec": {"hard": {"requests.cpu": "2", "pods": "50"}}}
    name = f"project-{site.project}"
    site.kube.ctl("-n", NAMESPACE, "patch", "resourcequota", name, "-p", json.dumps(change))

    drift = ["limit of CPUs: 4 in Rota, 2 in k8s", "use of CPUs: 0 by Rota, 1 by k8s"]
    until(lambda: site.shown()["drift"] == drift, "the drift")
    job = site.job(2, "true")
    text = "holds 1 (1 outside Rota) of at most 2 CPUs by the quota in k8s, 2 wanted"
    until(lambda: text in site.box.why(job), "the reason")
    site.quota(cpu_quota=4)

    assert site.object()["spec"]["hard"] == {"requests.cpu": "4", "limits.cpu": "8", "pods": "50"}
    assert site.box.ended(job)["state"] == "completed"


def test_a_quota_that_is_switched_off_no_longer_holds_in_kubernetes(kube_site: KubeSite):
    site = kube_site
    site.quota(cpu_quota=1)

    off = site.quota(enforce_quota=False)

    assert (off["enforce_quota"], off["outer"]["cpu"]["limit"]) == (False, None)
    assert site.object()["spec"].get("hard", {}) == {}


def test_without_an_answer_the_last_known_values_hold_and_what_was_never_told_of_is_held(
    kube_site: KubeSite,
):
    site = kube_site
    site.quota(cpu_quota=3)
    before = site.shown()
    site.box.down()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = site.box.work / "away.kubeconfig"
    config.write_text(
        site.kube.config.read_text().replace(site.kube.url, f"https://127.0.0.1:{port}")
    )
    site.box.env["ROTA_QUOTAS_K8S_KUBECONFIG"] = str(config)
    site.up()

    until(lambda: site.shown()["warning"], "the warning")
    silent = site.shown()
    site.box.api("PUT", f"/projects/{site.project}-new", {})
    new = site.box.job(["true"], project=f"{site.project}-new", resources={"cpus": 1})
    unseen = f"k8s has never told the quota of project {site.project}-new: until it does"
    until(lambda: unseen in site.box.why(new), "the reason")
    status = site.box.rota("quota", "show", "--project", site.project).stdout

    assert silent["warning"].startswith("k8s does not answer: ConnectError")
    assert silent["warning"].endswith("; what it said last holds")
    assert (silent["outer"], silent["cpu"]["limit"]) == (before["outer"], 3.0)
    assert "warning:  k8s does not answer" in status


def test_where_rota_may_not_write_what_the_site_has_set_holds(kube_site: KubeSite):
    site = kube_site
    site.box.down()
    site.box.env["K8S_CREATE_RESOURCE_QUOTAS"] = "false"
    site.up()

    told = site.quota(cpu_quota=2)

    assert "K8S_CREATE_RESOURCE_QUOTAS is off" in told["warning"]
    assert told["drift"] == ["limit of CPUs: 2 in Rota, no limit in k8s"]
    assert site.box.ended(site.job(1, "true"))["state"] == "completed"


def test_projects_with_namespaces_of_their_own_do_not_hold_each_other_back(
    kube_site: KubeSite, kube: Kube
):
    site = kube_site
    site.box.down()
    site.in_namespaces("team-{project}")
    other = f"{site.project}-other"
    site.up()
    site.quota(cpu_quota=1)
    status, _ = site.box.api("PATCH", f"/queues/quota/{other}", {"cpu_quota": 2})
    full = site.job(1, "sleep", "600")
    site.box.reach(full, "running")

    beside = site.box.ran(["echo", "hi"], project=other, resources={"cpus": 2, "memory_mb": 64})
    used = kube.used(f"team-{site.project}", f"project-{site.project}")

    assert (status, beside["state"], site.box.output(beside["id"])) == (200, "completed", "hi\n")
    assert used["requests.cpu"] == "1"
    site.box.rota("cancel", str(full))
    assert site.box.ended(full)["state"] == "cancelled"
