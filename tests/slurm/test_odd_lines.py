"""Whatever is typed or set: a command answers with text and a code, never with a bug of ours."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slurm.cluster import Cluster

PROGRAMS = (
    *("squeue", "sinfo", "sacct", "sacctmgr", "sprio", "sshare", "sdiag", "sstat", "sreport"),
    "scontrol",
)
WORDS = (
    *("-j", "-o", "-O", "-t", "-u", "-n", "-p", "-S", "-E", "-s", "-r", "-l", "-a", "-h", "-w"),
    *("-M", "-i", "-P", "-X", "-D", "-B", "-dd", "-N", "-R", "-e", "-U", "--json", "--yaml"),
    *("%i", "%", "%.", "%99999999999i", "jobid:###", "jobid%-5", "ALL", "all", "PD,,", "main"),
    *("1", "8_[1-3]", "8_", "8_*", "1.batch", "61+1", "abc", "9" * 30, "n[1-", "n[1-4]", "*"),
    *("now", "now-1hour", "whenever", "2026-13-45", "--units", "G", "--delimiter", "", "--"),
    *("show", "list", "add", "modify", "delete", "set", "where", "=", "format=", "format=%"),
    *("account", "user", "qos", "assoc", "tres", "cluster", "job", "node", "partition", "config"),
    *("step", "reservation", "hostnames", "hostlist", "ping", "GrpTRES=x", "fairshare=-1"),
    *("utilization", "AccountUtilizationByUser", "start=x"),
)
VARIABLES = ("SQUEUE_FORMAT", "SQUEUE_STATES", "SQUEUE_SORT", "SINFO_FORMAT", "SACCT_FORMAT", "TZ")
words = st.sampled_from(WORDS) | st.text(max_size=8)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(PROGRAMS),
    st.lists(words, max_size=6),
    st.dictionaries(st.sampled_from((*VARIABLES, "SLURM_TIME_FORMAT")), words, max_size=2),
    st.sampled_from(("root", "bob")),
)
def test_no_line_and_no_environment_breaks_a_showing_command(
    cluster: Cluster, program: str, argv: list[str], env: dict[str, str], user: str
) -> None:
    answer = cluster.run(program, *argv, env=env, user=user)

    assert "internal error" not in answer.stderr
    assert answer.code in (0, 1)
