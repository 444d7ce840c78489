"""How Slurm and Kubernetes write limits and use."""

import pytest

from rota.core.facts.resources import Amount
from rota.core.facts.tenant import Limits
from rota.quotas import tres
from rota.quotas.slurm_ways import accounts_of

ASSOC = (
    "ClusterName=c Account={account} UserName={user} Partition= Priority=0 ID=7 "
    "ParentAccount={parent} SharesRaw/Norm/Level/Factor=1/0.25/7/0.50 "
    "UsageRaw/Norm/Efctv=4711.00/0.50/0.75 GrpJobs=N(1) GrpTRES={tres} "
    "GrpTRESMins=cpu=N(0),mem=N(0) MaxJobs="
)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("cpu=1000,mem=500G,gres/gpu=10", {"cpu": 1000, "mem": 512000, "gres/gpu": 10}),
        ("cpu=4,mem=1000M,node=1,billing=4", {"cpu": 4, "mem": 1000, "node": 1, "billing": 4}),
        ("mem=2048", {"mem": 2048}),
        ("mem=1.5T", {"mem": 1572864}),
        ("mem=512K", {"mem": 0.5}),
        ("cpu=2K", {"cpu": 2048}),
        ("", {}),
    ],
)
def test_tres_text_is_read(text, amounts):
    assert tres.parse_tres(text) == amounts


def test_tres_text_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'cpu=many' is not valid; expected such as cpu=4"):
        tres.parse_tres("cpu=many")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(cpu_milli=4000, memory_mib=2048, device_milli=1000), "cpu=4,mem=2048M,gres/gpu=1"),
        (Limits(cpu_milli=2500), "cpu=2,mem=-1,gres/gpu=-1"),
        (Limits(cpu_milli=0), "cpu=0,mem=-1,gres/gpu=-1"),
    ],
)
def test_limits_are_written_for_sacctmgr(limits, text):
    assert tres.format_tres(limits) == text


def test_limits_and_use_of_accounts_are_read_from_slurmctld_with_a_qos_of_their_name():
    text = "\n".join(
        [
            "Association Records",
            ASSOC.format(
                account="a", user="", parent="root(1)", tres="cpu=4(3),mem=N(100),gres/gpu=1(0)"
            ),
            ASSOC.format(account="a", user="alice(1003)", parent="", tres="cpu=N(3),mem=N(100)"),
            "QOS Records",
            "QOS=a(5) UsageRaw=0.0 GrpJobs=N(0) GrpTRES=cpu=2(3),mem=N(0) MaxWallPJ=",
        ]
    )

    (account,) = tres.parse_assoc_mgr(text).values()

    assert account.parent == "root"
    assert account.seen.limits == Limits(cpu_milli=2000, device_milli=1000)
    assert account.seen.used == Amount(cpu_milli=3000, memory_mib=100)
    assert account.seen.users == {"alice"}
    assert account.seen.load == 0.75


def test_by_rest_use_is_that_of_running_jobs_and_counts_for_accounts_above():
    def assoc(account, parent, user=None, **total):
        entries = [{"type": kind, "name": None, "count": n} for kind, n in total.items()]
        limits = {"tres": {"total": entries}}
        return {"account": account, "parent_account": parent, "user": user, "max": limits}

    jobs = [
        {"account": "b", "job_state": "RUNNING", "tres_alloc_str": "cpu=2,mem=1G,gres/gpu=1"},
        {"account": "b", "job_state": ["RUNNING"], "tres_alloc_str": "cpu=1,mem=1G"},
        {"account": "b", "job_state": "PENDING", "tres_alloc_str": ""},
    ]

    found = accounts_of(
        [assoc("a", "root", cpu=8), assoc("b", "a"), assoc("b", "", "bob")], [], jobs
    )

    assert found["a"].seen.limits == Limits(cpu_milli=8000)
    assert found["a"].seen.used == found["b"].seen.used == Amount(3000, 2048, 0, 1000)
    assert (found["a"].seen.users, found["b"].seen.users) == (frozenset(), {"bob"})


def test_what_stands_in_a_resource_quota_is_written_and_read():
    k8s = pytest.importorskip("rota.quotas.k8s")
    gpus = "requests.nvidia.com/gpu"
    limits = Limits(cpu_milli=2500, memory_mib=1536, device_milli=2000)

    hard = k8s.hard_of(limits, gpus)
    read = {"cpu": "2000m", "requests.memory": "2Gi", gpus: "3", "memory": "1048576Ki"}

    assert hard == {
        "requests.cpu": "2500m",
        "limits.cpu": "5",
        "requests.memory": "1536Mi",
        "limits.memory": "3Gi",
        gpus: "2",
    }
    assert k8s.limits_of(hard, gpus) == limits
    assert k8s.limits_of(read, gpus) == Limits(cpu_milli=2000, memory_mib=1024, device_milli=3000)
    assert k8s.amount_of({"requests.cpu": "1500m", "requests.memory": "512Mi"}, gpus) == Amount(
        cpu_milli=1500, memory_mib=512
    )
