"""Whatever is typed or set: a command answers with text and a code, never with a bug of ours."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.errors import TooLarge
from rota.slurm.call.wire import decode_request
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


#: As long as an argument may be, each of a form that a careless reader looks at again and again.
LONG = tuple(word * (120_000 // len(word)) for word in (",", "1,", "[", "n[1-2],", "n[0-1]", "%i"))
LISTS = {
    "squeue": ("jobs", "nodelist", "account", "qos", "user", "format", "Format", "states", "sort"),
    "sacct": ("jobs", "nodelist", "accounts", "gid", "format", "state", "user"),
    "sinfo": ("nodes", "states", "partition", "format", "Format"),
    "scancel": ("account", "nodelist", "state"),
    "sstat": ("jobs", "format"),
    "sprio": ("jobs", "format"),
}


@pytest.mark.slow
@pytest.mark.parametrize("program", LISTS)
def test_no_argument_holds_up_the_controller(cluster: Cluster, program: str) -> None:
    took_s = {}

    for name in LISTS[program]:
        for text in LONG:
            began_s = time.process_time()
            cluster.run(program, f"--{name}={text}", user="bob")
            took_s[name, text[:8]] = time.process_time() - began_s

    assert {key: seconds for key, seconds in took_s.items() if seconds > 3.0} == {}


def test_a_longer_argument_than_a_kernel_hands_on_is_refused() -> None:
    words = ("1", "squeue", "/", "022", "80", "n1", "1", "-j" + "1," * 70_000)

    with pytest.raises(TooLarge, match="more than 131072 characters"):
        decode_request("\0".join(words).encode())
