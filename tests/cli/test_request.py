"""Options become the body of a request; work is taken as it was given."""

import subprocess
from datetime import UTC, datetime

import pytest

from rota.cli.submit import surroundings
from rota.cli.submit.request import option_fields
from rota.cli.submit.submit_options import merge
from rota.cli.submit.work import Work, with_hooks, work_from
from rota.client.errors import ClientError


def fields(**given):
    return option_fields(given, lambda text: [int(text) if text.isdecimal() else text])


def test_amounts_go_out_in_the_units_of_the_interface():
    body = fields(cpus=1500, mem=16_384, gpus=2, gpu_type="A100", disk=51_200, time=7200)

    assert body == {
        "resources": {
            "cpus": 1.5,
            "memory_mb": 16_384,
            "gpus": 2,
            "gpu_type": "A100",
            "disk_mb": 51_200,
        },
        "time_limit_s": 7200,
    }


def test_memory_per_cpu_is_multiplied_with_the_cpus():
    assert fields(cpus=4000, mem_per_cpu=2048)["resources"] == {"cpus": 4, "memory_mb": 8192}
    assert fields(mem_per_cpu=2048)["resources"] == {"memory_mb": 2048}


def test_naming_a_gpu_model_asks_for_one_gpu():
    assert fields(gpu_type="A100")["resources"] == {"gpu_type": "A100", "gpus": 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shared": True, "gpus": 1}, "--shared needs --gpu-mem"),
        ({"gpus": 0, "gpu_type": "A100"}, "--gpus 0 does not go with"),
        ({"array": "0-9", "params": ("a=1",)}, "exclude each other"),
        ({"any_of": True}, "--any needs"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given, words):
    with pytest.raises(ClientError, match=words):
        fields(**given)


def test_dependencies_keep_their_kind_and_elements_are_tied():
    body = fields(after_ok=(("12", "13_3"), ("14_*",)), after_any=(("15",),), any_of=True)

    assert body["depends_any"] is True
    assert body["depends_on"] == [
        {"kind": "after-ok", "job": 12},
        {"kind": "after-ok", "job": "13_3"},
        {"kind": "after-ok", "job": 14, "element": True},
        {"kind": "after-any", "job": 15},
    ]


def test_a_begin_time_goes_out_in_utc():
    begin_s = datetime(2026, 11, 15, 18, tzinfo=UTC).timestamp()

    assert fields(begin=begin_s) == {"begin_at": "2026-11-15T18:00:00Z"}


def test_the_command_line_wins_over_the_script_and_mappings_merge_by_key():
    script = {"cpus": 1000, "env": (("A", "1"), ("B", "1")), "after_ok": (("1",),)}
    line = {"cpus": 2000, "env": (("B", "2"),), "after_ok": (("9",),)}

    merged = merge(script, line)

    assert merged["cpus"] == 2000
    assert dict(merged["env"]) == {"A": "1", "B": "2"}
    assert merged["after_ok"] == (("9",),)


def test_arguments_behind_the_dashes_are_kept_exactly():
    words = ("python", "-c", "print('a  b')", "", "--", "*", "ü")

    work = work_from(words, is_command=True, line=None, run=False)

    assert work.body() == {"command": list(words)}


def test_a_script_file_is_stored_as_it_is_with_its_arguments(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text("exit 3 # no newline: ü & 'quotes'")

    work = work_from((str(path), "a b", "--flag"), is_command=False, line=None, run=False)

    assert work.body() == {
        "script": "exit 3 # no newline: ü & 'quotes'",
        "script_args": ["a b", "--flag"],
    }
    assert work.name() == "job.sh"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the script is empty"),
        (b" \n\n", "the script is empty"),
        (b"\x7fELF\0\0\0", "is not a text file"),
        (b"echo \xff\xfe\n", "is not UTF-8 text"),
        (b"#!/bin/bash\r\ntrue\r\n", "has DOS line ends"),
        (b"\xef\xbb\xbf#!/bin/bash\ntrue\n", "begins with a byte order mark"),
        (b"#" * (8 << 20) + b"\n", "larger than 8 MiB"),
    ],
)
def test_a_file_that_is_no_script_is_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "job.sh"
    path.write_bytes(content)

    with pytest.raises(ClientError, match=words) as caught:
        work_from((str(path),), is_command=False, line=None, run=False)

    assert "\n" not in str(caught.value)


def test_a_script_with_a_line_of_two_megabytes_is_taken(tmp_path):
    path = tmp_path / "long.sh"
    path.write_text("echo " + "x" * (2 << 20) + "\n")

    work = work_from((str(path),), is_command=False, line=None, run=False)

    assert len(work.script) > 2 << 20


def test_a_word_that_is_no_file_is_a_command_for_run_and_a_mistake_for_submit():
    assert work_from(("nvidia-smi", "-L"), is_command=False, line=None, run=True).argv

    with pytest.raises(ClientError, match="for a command write: rota submit -- nvidia-smi -L"):
        work_from(("nvidia-smi", "-L"), is_command=False, line=None, run=False)


def test_a_line_in_quotes_is_answered_with_the_option_for_lines():
    with pytest.raises(ClientError, match=r"write: rota submit --shell 'echo hi \| wc'$"):
        work_from(("echo hi | wc",), is_command=False, line=None, run=False)


@pytest.mark.parametrize("run", [True, False])
def test_a_folder_is_no_script_and_no_command(tmp_path, run):
    with pytest.raises(ClientError, match=f"^{tmp_path} is a folder; give a script"):
        work_from((str(tmp_path),), is_command=False, line=None, run=run)


@pytest.mark.parametrize(("words", "line"), [((), None), (("a",), "b"), ((), " "), (("",), None)])
def test_nothing_to_run_is_refused(words, line):
    with pytest.raises(ClientError):
        work_from(words, is_command=True, line=line, run=False)


def run_wrapped(work, folder):
    if work.source:
        path = folder / "wrapped"
        path.write_text(work.script)
        path.chmod(0o700)
        argv = [str(path), *work.script_args]
    else:
        argv = list(work.argv)
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize(
    "work",
    [
        Work(argv=("bash", "-c", 'echo "work $1"; exit 3', "x", "a b")),
        Work(line="echo 'work a b'; exit 3 # talk"),
        Work(script='#!/bin/bash\necho "work $1"\nexit 3', script_args=("a b",), source="j.sh"),
    ],
)
def test_hooks_run_round_the_work_and_its_exit_code_stays(work, tmp_path):
    ended = run_wrapped(with_hooks(work, "echo before # talk", "echo after"), tmp_path)

    assert ended.stdout.splitlines() == ["before", "work a b", "after"]
    assert ended.returncode == 3


def test_a_prologue_that_fails_ends_the_job_with_its_code(tmp_path):
    ended = run_wrapped(with_hooks(Work(argv=("echo", "work")), "false", "echo after"), tmp_path)

    assert ended.returncode == 1
    assert ended.stdout == ""


def test_the_environment_travels_without_tokens_and_without_another_jobs_variables():
    found = surroundings.captured(
        {"PATH": "/bin", "ROTA_TOKEN": "s", "ROTA_JOB_ID": "7", "ROTA_URL": "u", "X": "\udcff"}
    )

    assert found.kept == {"PATH": "/bin", "ROTA_URL": "u"}
    assert found.odd == ["X"]


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "hf_token", "HFTOKEN", "TOKEN_FILE", "CLIENT_SECRET", "PGPASSWORD"),
        *("MYSQL_PASSWD", "SSH_PASSPHRASE", "GOOGLE_APPLICATION_CREDENTIALS", "WANDB_API_KEY"),
        *("OPENAI_APIKEY", "DEPLOY_PRIVATE_KEY", "AWS_PROFILE", "S3_ACCESS_KEY"),
    ],
)
def test_a_name_that_looks_like_a_secret_stays_behind(name):
    found = surroundings.captured({name: "x", "HOME": "/root"})

    assert (found.kept, found.secret) == ({"HOME": "/root"}, [name])
    assert name in found.warnings()[0]
    assert found.warnings(asked=[name]) == []


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "PWD", "KEYBOARD", "PASS", "SSH_AUTH_SOCK", "AWS_REGION"]
)
def test_a_name_that_only_reminds_of_a_secret_travels(name):
    found = surroundings.captured({name: "x"})

    assert (found.kept, found.secret) == ({name: "x"}, [])


def test_an_environment_that_is_too_large_is_refused_in_one_line():
    with pytest.raises(ClientError, match="the environment has 10 MiB; at most 2"):
        surroundings.captured({f"V{n}": "x" * 100_000 for n in range(105)})

    with pytest.raises(ClientError, match="BIG has 200 KiB"):
        surroundings.captured({"BIG": "x" * (200 << 10)})


def test_a_variable_by_name_alone_takes_its_value_from_here():
    assert surroundings.variables([("A", None), ("B", "2")], {"A": "1"}) == {"A": "1", "B": "2"}

    with pytest.raises(ClientError, match="C is not set here"):
        surroundings.variables([("C", None)], {})


def test_a_python_environment_is_put_first_on_the_path(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()

    chosen = surroundings.venv_variables(str(tmp_path), {"PATH": "/bin"})

    assert chosen == {"VIRTUAL_ENV": str(tmp_path), "PATH": f"{tmp_path}/bin:/bin"}
    with pytest.raises(ClientError, match="there is no bin/python"):
        surroundings.venv_variables(str(tmp_path / "bin"), {})


def test_a_conda_environment_is_asked_from_conda_itself(tmp_path):
    conda = tmp_path / "conda"
    conda.write_text(
        '#!/bin/sh\n[ "$4" = good ] || { echo "EnvironmentLocationNotFound: no $4" >&2; exit 1; }\n'
        "printf 'CONDA_PREFIX=/envs/good\\0HOME=%s\\0SHLVL=9\\0' \"$HOME\"\n"
    )
    conda.chmod(0o700)
    environment = {"CONDA_EXE": str(conda), "HOME": "/h"}

    assert surroundings.conda_variables("good", environment) == {"CONDA_PREFIX": "/envs/good"}
    with pytest.raises(ClientError, match="--conda: bad: EnvironmentLocationNotFound"):
        surroundings.conda_variables("bad", environment)


def test_a_job_that_is_to_be_debugged_says_more_and_its_own_variables_win():
    given = {"debug": True, "env": [("NCCL_DEBUG", "TRACE")]}

    found = surroundings.basics(given, {})["variables"]

    assert (found["ROTA_DEBUG"], found["PYTHONFAULTHANDLER"]) == ("1", "1")
    assert found["NCCL_DEBUG"] == "TRACE"


def test_jobs_may_wait_for_checkpoints_and_for_data():
    body = fields(after_checkpoint=[("12",)], after_data=[("12", "features")])

    assert body["depends_on"] == [
        {"kind": "after-checkpoint", "job": 12},
        {"kind": "after-data", "job": 12, "data": "features"},
    ]


def test_gpus_may_be_named_by_their_numbers():
    assert fields(gpu_index=(0, 2))["resources"] == {"gpu_indices": (0, 2)}


def test_licences_are_asked_for_by_name_and_count():
    fields = option_fields({"license": ("matlab:2", "ansys")}, list)

    assert fields["licenses"] == ["matlab:2", "ansys"]
