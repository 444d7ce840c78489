"""What a program finds when a real Slurm starts it, and what is left of what it printed."""

import re
import secrets
import stat

import pytest
from msgspec.structs import replace

from rota.backends.api import EngineRefused
from rota.backends.orders import Gang
from rota.core.facts.states import Cause


def test_the_environment_is_exact_but_for_slurms_own_words(bench):
    given = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LINES": "one\ntwo\n\n",
        "QUOTES": """a'b"c\\d$e`f`!g""",
        "EMPTY": "",
        "SPACES": "  a  b  ",
        "UMLAUT": "äöü",
        "SLURM_JOB_ID": "17",
        "SLURM_OF_OURS": "kept",
    }
    uid = bench.submit("env", "-0", environment=given)

    printed = bench.printed(uid)

    found = dict(line.split("=", 1) for line in printed.split("\0") if line)
    slurms = {name for name in found if name.startswith("SLURM")}
    assert {k: v for k, v in found.items() if k not in slurms} == {
        k: v for k, v in given.items() if not k.startswith("SLURM")
    }
    assert found["SLURM_OF_OURS"] == "kept"
    assert found["SLURM_JOB_ID"] == bench.listed()[uid].id
    assert "SLURM_EXPORT_ENV" not in found


def test_input_arguments_umask_and_limits_are_as_asked(bench, tmp_path):
    body = "cat; printf '<%s>' \"$@\"; pwd; umask; ulimit -Sn; ulimit -Sc"
    uid = bench.submit(
        "a b",
        "c'd",
        script=f"#!/bin/bash\n{body}\n".encode(),
        stdin=b"in\nput",
        umask=0o027,
        ulimits={"nofile": 100, "core": 2048},
        workdir="/usr/share",
    )
    bare = bench.submit("x", script=b'echo "$0" | grep -c script; echo $1')

    printed = bench.printed(uid)

    assert printed == "in\nput<a b><c'd>/usr/share\n0027\n100\n2\n"
    assert bench.printed(bare) == "1\nx\n"


def test_output_goes_where_it_was_asked_to_and_is_read_from_there(bench, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "log").write_text("before\n")
    text = "echo out; echo err >&2"
    added = bench.shell(text, workdir=str(tmp_path), stdout="log", outputs="append")
    bench.until_ended(added)
    made = bench.shell(
        text, workdir=str(tmp_path), stdout="d/both", stderr="d/both", outputs="append"
    )
    bench.until_ended(made)
    again = bench.shell(text, workdir=str(tmp_path), stderr="d/both", outputs="truncate")

    job = bench.until_ended(again)

    assert (bench.log(job), bench.log(job, "stderr")) == (b"out\n", b"err\n")
    assert (tmp_path / "d/both").read_text() == "err\n"
    assert bench.log(bench.listed()[added]) == b"before\nout\n"


def test_a_megabyte_of_output_is_whole_and_read_from_any_place(bench):
    uid = bench.shell("seq 1 150000; echo last")

    job = bench.until_ended(uid)

    whole = "".join(f"{number}\n" for number in range(1, 150001)).encode() + b"last\n"
    body, size = bench.do(bench.driver.read_log(job, "stdout", 0, 1 << 20))
    assert (body, size) == (whole[: 1 << 20], len(whole))
    assert bench.log(job, offset=1 << 20) == whole[1 << 20 :]
    assert bench.log(job, offset=-1, lines=2) == b"150000\nlast\n"


def test_the_log_of_one_that_runs_is_read_while_it_grows(bench, tmp_path):
    tmp_path.chmod(0o755)
    gate = tmp_path / "gate"
    uid = bench.shell(f"echo one; until [ -e {gate} ]; do sleep 0.1; done; echo two")
    job = bench.until_running(uid)
    bench.until_log(job, b"one\n")

    gate.touch()

    bench.until_log(job, b"one\ntwo\n")
    assert bench.log(job, offset=4) == b"two\n"


def test_it_runs_as_its_user_who_alone_can_read_what_it_printed(bench, slurm):
    uid = bench.shell("id -un; id -u", user="alice")

    job = bench.until_ended(uid)

    printed = bench.log(job).decode().split()
    folder = slurm.folder / "alice" / uid
    assert (job.user, printed[0]) == ("alice", "alice")
    assert folder.stat().st_uid == int(printed[1])
    assert stat.S_IMODE((folder / "stdout").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_log_that_leads_to_a_file_of_root_is_not_read_for_its_user(bench, slurm, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("for root alone")
    secret.chmod(0o600)
    uid = bench.shell("echo mine", user="alice")
    job = bench.until_ended(uid)
    link = slurm.folder / "alice" / uid / "stdout"
    link.unlink()
    link.symlink_to(secret)

    with pytest.raises(EngineRefused, match="permission denied"):
        bench.log(job)


def test_it_gets_the_gpus_that_slurm_chose(bench):
    uid = bench.shell("echo $CUDA_VISIBLE_DEVICES", gpus=2, gpu_type="h200")

    assert bench.printed(uid) == "0,1\n"


def test_a_gang_is_one_job_whose_members_know_their_ranks_and_the_address_of_the_first(
    bench, slurm
):
    uids = tuple(secrets.token_hex(16) for _ in range(3))
    text = "echo $ROTA_RANK $WORLD_SIZE $NODE_RANK $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $OWN"
    environment = {"PATH": "/usr/bin:/bin", "OWN": "a b"}
    bench.shell(text, uid=uids[0], gang=Gang(uids, per_node=1), environment=environment)

    job = bench.until_ended(uids[0])

    members = [bench.log(replace(job, uid=uid)).decode() for uid in uids]
    (port,) = {line.split()[5] for line in members}
    address = re.search(r"NodeAddr=(\S+)", slurm.run("scontrol", "show", "node", "n1"))[1]
    assert members == [f"{rank} 3 {rank} 0 {address} {port} a b\n" for rank in range(3)]
    assert job.code == 0
    left = {path.name for path in (slurm.folder / "root" / uids[0]).iterdir()}
    assert "exit" in left
    assert "task" not in left  # It had the environment in it.


def test_a_gang_ends_as_a_whole_when_one_of_it_fails(bench):
    fails, unstarted = [tuple(secrets.token_hex(16) for _ in range(2)) for _ in range(2)]
    bench.shell("[ $RANK = 1 ] && exit 3; sleep 60", uid=fails[0], gang=Gang(fails, per_node=2))
    bench.submit("nosuch", uid=unstarted[0], gang=Gang(unstarted, per_node=2))

    failed, never = bench.ended([fails[0], unstarted[0]])

    assert failed.code or failed.signal
    assert failed.ended_s - failed.started_s < 30
    assert (never.cause, never.detail) == (Cause.START_FAILED, "command not found: nosuch")
