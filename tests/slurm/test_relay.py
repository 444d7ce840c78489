"""The commands on PATH: both relays say the same, and find Rota without any variable."""

import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.journeys.box import Box
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow

COMMANDS = (
    *("sbatch", "srun", "salloc", "sbcast", "sattach", "squeue", "scancel", "sinfo", "sacct"),
    *("scontrol", "sacctmgr", "sprio", "sshare", "sdiag", "sstat", "sreport"),
)


def test_a_script_is_submitted_from_a_file_from_stdin_and_wrapped(either: Slurm) -> None:
    (either.work / "job.sh").write_text('#!/bin/sh\necho "$1 in $PWD"\n')

    from_file = either.text("sbatch", "-W", "-o", "out", "job.sh", "hello")
    from_stdin = either.text("sbatch", "-o/dev/null", stdin="#!/bin/sh\ntrue\n")
    wrapped = either.text("sbatch", "--parsable", "-o/dev/null", "--wrap", "true")

    assert from_file.startswith("Submitted batch job ")
    assert from_stdin.startswith("Submitted batch job ")
    assert int(wrapped) > 0
    assert (either.work / "out").read_text() == f"hello in {either.work}\n"


def test_errors_go_to_stderr_with_the_exit_code_of_slurm(either: Slurm) -> None:
    absent = either.run("sbatch", "nosuch.sh")
    wrong = either.run("sbatch", "--bogus")

    assert (absent.returncode, absent.stdout) == (1, "")
    assert absent.stderr == "sbatch: error: Unable to open file nosuch.sh\n"
    assert wrong.returncode == 255
    assert wrong.stderr.startswith("sbatch: unrecognized option '--bogus'\n")


def test_a_file_is_written_where_the_command_was_called(either: Slurm) -> None:
    job = either.text("sbatch", "-H", "--parsable", stdin="#!/bin/sh\necho mine\n").strip()

    either.text("scontrol", "write", "batch_script", job)

    assert (either.work / f"slurm-{job}.sh").read_text() == "#!/bin/sh\necho mine\n"
    either.text("scancel", job)


def test_a_large_script_and_a_large_answer_pass_whole(either: Slurm) -> None:
    body = "#!/bin/sh\n" + "# filler\n" * 60_000 + "echo end\n"
    job = either.text("sbatch", "-H", "--parsable", stdin=body).strip()

    assert either.text("scontrol", "write", "batch_script", job, "-") == body
    either.text("scancel", job)


def test_arguments_and_variables_that_are_no_text_give_no_traceback(either: Slurm) -> None:
    odd = os.fsdecode(b"\xff\xfe")

    done = either.run("sbatch", "-o/dev/null", "-J", odd, "--wrap", "true", env={"ODD": odd})

    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("Submitted") != bool(done.stderr)


def test_a_server_that_is_asked_too_much_is_heard_in_one_line(either: Slurm) -> None:
    """The door refuses it before it reads what the relay has to say."""
    place = either.work / "busy.sock"
    problem = b'{"code":"busy","detail":"requests: 200 in a second are taken of ann","status":429}'
    head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n"

    with socket.socket(socket.AF_UNIX) as door, ThreadPoolExecutor(1) as clerk:
        door.bind(str(place))
        door.listen()

        def refuse() -> None:
            line, _ = door.accept()
            with line:
                line.recv(65536)
                line.sendall(head % len(problem) + problem)
                while line.recv(65536):
                    pass

        answered = clerk.submit(refuse)
        done = either.run("squeue", env={"ROTA_URL": f"unix://{place}"})
        answered.result()

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "squeue: error: requests: 200 in a second are taken of ann\n"


@pytest.mark.parametrize("kind", ["compiled", "python"])
def test_without_a_controller_the_commands_say_what_slurms_say(
    kind: str, slurm_box: Box, tmp_path: Path
) -> None:
    slurm = Slurm(slurm_box, slurm_box.work / kind, tmp_path)
    nowhere = {"ROTA_STATE_DIR": str(tmp_path / "nowhere")}

    listed = slurm.run("squeue", env=nowhere)
    submitted = slurm.run("sbatch", "--wrap", "true", env=nowhere)

    away = "Unable to contact slurm controller (connect failure)\n"
    assert (listed.returncode, listed.stderr) == (1, f"slurm_load_jobs error: {away}")
    assert submitted.returncode == 1
    assert submitted.stderr == f"sbatch: error: Batch job submission failed: {away}"


@pytest.mark.parametrize("options", [(), ("--no-compile",)])
def test_while_its_own_rota_is_down_no_other_one_answers(
    slurm_box: Box, tmp_path: Path, options: tuple[str, ...]
) -> None:
    own, home, commands = tmp_path / "own", tmp_path / "home", tmp_path / "commands"
    own.mkdir()
    words = ("slurm", "install", *options, str(commands))
    slurm_box.rota(*words, env={"ROTA_STATE_DIR": str(own)})
    (home / ".local/state").mkdir(parents=True)
    (home / ".local/state/rota").symlink_to(slurm_box.state)
    slurm = Slurm(slurm_box, commands, tmp_path)

    listed, started = (
        slurm.run(*words, env={"HOME": str(home)}) for words in (["squeue"], ["srun", "true"])
    )
    own.rmdir()
    moved = slurm.run("squeue", env={"HOME": str(home)})

    assert (listed.returncode, started.returncode, moved.returncode) == (1, 1, 0)
    assert "Unable to contact slurm controller" in listed.stderr
    assert "Unable to contact slurm controller" in started.stderr


def test_over_the_network_a_token_says_who_asks(slurm: Slurm) -> None:
    status, made = slurm.box.api("POST", "/tokens", {"user": "ada"})
    assert status == 201
    url = json.loads((slurm.box.state / "controller.json").read_text())["url"]

    env = {"ROTA_URL": url, "ROTA_TOKEN": made["token"]}
    shown = slurm.run("sbatch", "-H", "--parsable", "--wrap", "true", env=env)
    denied = slurm.run("squeue", env={"ROTA_URL": url})

    assert shown.returncode == 0, shown.stderr
    assert slurm.box.show(shown.stdout.strip())["user"] == "ada"
    assert denied.returncode == 1
    assert "token" in denied.stderr
    slurm.text("scancel", shown.stdout.strip())


def test_install_puts_every_command_and_can_be_repeated(slurm_box: Box, tmp_path: Path) -> None:
    for _ in range(2):
        slurm_box.rota("slurm", "install", str(tmp_path / "bin"))

    assert sorted(os.listdir(tmp_path / "bin")) == sorted([".rota", *COMMANDS])


def test_install_spares_a_real_slurm_unless_forced(slurm_box: Box, tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho real\n")

    refused = slurm_box.refusal("slurm", "install", str(tmp_path))
    assert "has a sbatch that is not ours" in refused
    assert (tmp_path / "sbatch").read_text() == "#!/bin/sh\necho real\n"

    slurm_box.rota("slurm", "install", "--force", str(tmp_path))
    assert (tmp_path / "sbatch").is_symlink()
