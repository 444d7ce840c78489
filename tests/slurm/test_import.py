"""``rota slurm import``: a Slurm site's files become files that Rota reads."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rota import config
from rota.cli.service.slurm import slurm
from rota.slurm.site.site_import import read_site
from rota.slurm.site.site_plan import files_of, notes_of, seconds_of

CONF = """
ClusterName=old   # the old one
SchedulerType=sched/backfill
PriorityType=priority/multifactor
PriorityDecayHalfLife=14-0
NodeName=DEFAULT RealMemory=64000 Sockets=2 CoresPerSocket=8
NodeName=n[1-2] Gres=gpu:h200:4 Feature=ib,big
NodeName=n3 CPUs=4 \\
    RealMemory=2048
PartitionName=DEFAULT MaxTime=UNLIMITED
PartitionName=main Nodes=ALL Default=YES
PartitionName=fast Nodes=n[1-2] PriorityTier=3 MaxTime=1:00:00 State=DOWN
"""
GRES = "NodeName=n3 Name=gpu Type=t4 File=/dev/nvidia[0-1]\n"
DUMP = """
# To edit this file start with a cluster line
Cluster - 'old':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'lab':Description='the lab':Fairshare=10:GrpTRES=cpu=64,mem=500G,gres/gpu=8
Parent - 'lab'
Account - 'vision':Fairshare=3:GrpJobs=5
User - 'ann':DefaultAccount='lab':MaxJobs=2:MaxSubmitJobs=50
"""


def test_nodes_begin_with_the_defaults_and_end_with_their_own_lines():
    big, _, small = read_site(CONF, GRES).nodes

    assert (big.cpus, big.memory_mib, big.gpus, big.gpu_type) == (16, 64000, 4, "h200")
    assert big.features == ("ib", "big")
    assert (small.name, small.cpus, small.memory_mib) == ("n3", 4, 2048)
    assert (small.gpus, small.gpu_type) == (2, "t4")


def test_the_files_that_are_made_are_settings_that_rota_takes():
    files = files_of(read_site(CONF, GRES, DUMP))

    server = config.parse(files["rota.toml"], "rota.toml", {})
    node = config.parse(files["nodes/n1.toml"], "n1.toml", {})

    assert server.scheduling.policy == "multifactor"
    assert server.scheduling.rules["share.half_life_s"] == 14 * 86400
    assert (node.agent.name, node.agent.cpu_milli, node.agent.memory_mib) == ("n1", 16000, 64000)
    assert node.agent.labels == {"ib": "true", "big": "true"}


def test_the_script_makes_queues_projects_and_quotas():
    lines = files_of(read_site(CONF, GRES, DUMP))["setup.sh"].splitlines()

    assert "rota queue-admin add main --priority 50" in lines
    assert "rota queue-admin add fast --priority 70 --state paused" in lines
    assert "rota project add lab --shares 10" in lines
    assert "rota quota set --project lab --cpus 64 --mem 500g --gpus 8" in lines
    assert "rota project add vision --shares 3 --parent lab" in lines
    assert "rota quota set --project vision --jobs 5" in lines
    assert "rota quota set --user ann --jobs 2 --queued 50" in lines


def test_a_node_whose_name_leads_out_of_the_folder_is_left_out():
    site = read_site("NodeName=../../etc/passwd CPUs=4\n")

    assert not site.nodes
    assert site.strange == ["slurm.conf:1: '../../etc/passwd' is no name of a node"]


def test_what_has_no_counterpart_is_said():
    notes = notes_of(read_site(CONF + "nonsense\n", "", "what is this\n"))

    assert any("partition fast had 2 of 3 nodes" in note for note in notes)
    assert any("MaxTime=1:00:00" in note for note in notes)
    assert any("slurm.conf:13: 'nonsense' is no Key=Value" in note for note in notes)
    assert any("dump:1: 'what is this' is no line of a dump" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7-0", 604800), ("14-00:00:00", 1209600), ("12:00:00", 43200), ("30", 1800), ("no", 0)],
)
def test_half_lives_are_read_in_all_forms(text: str, seconds: int):
    assert seconds_of(text) == seconds


@given(st.text(), st.text(), st.text())
def test_no_file_however_broken_ends_the_import(conf: str, gres: str, dump: str):
    site = read_site(conf, gres, dump)

    assert "rota.toml" in files_of(site)


def test_the_command_writes_the_files_and_tells_how_many(tmp_path: Path):
    (tmp_path / "slurm.conf").write_text(CONF)
    words = ["import", str(tmp_path / "slurm.conf"), "--out", str(tmp_path / "site")]

    result = CliRunner().invoke(slurm, words)

    assert result.exit_code == 0, result.output
    assert "3 nodes, 2 queues, 0 projects" in result.output
    assert (tmp_path / "site" / "nodes" / "n3.toml").is_file()


def test_a_file_without_nodes_is_refused_by_name(tmp_path: Path):
    (tmp_path / "empty.conf").write_text("ClusterName=x\n")

    result = CliRunner().invoke(
        slurm, ["import", str(tmp_path / "empty.conf"), "--out", str(tmp_path / "site")]
    )

    assert result.exit_code != 0
    assert "names no nodes" in str(result.exception) + result.output
