"""One row for each option of sbatch, salloc and srun: parser, help and documentation follow it."""

import json
import re

import pytest

from rota.slurm.orders.options import KEPT, SECTIONS, SHEETS, from_environment
from rota.slurm.orders.orders import read_order
from rota.slurm.orders.page import page
from rota.slurm.orders.row import NUMBER, OptionRow, Sheet, Status
from rota.slurm.words import values
from tests.slurm.cluster import Cluster
from tests.support.machine import REPOSITORY

ROWS = {row.line: row for rows in SECTIONS.values() for row in rows}


def of_sbatch(status: Status) -> list[str]:
    return [line for line, row in ROWS.items() if row.status is status and "sbatch" in row.of]


#: Values that Slurm knows of options that take words.
EXAMPLES = {
    "gpu-bind": "single:1",
    "gres-flags": "enforce-binding",
    "hint": "nomultithread",
    "mem-bind": "map_mem:0,1",
    "profile": "task,energy",
}


def words_of(row: OptionRow) -> str:
    """The option as it may be typed."""
    if not row.takes.startswith("="):
        return f"--{row.key}"
    return f"--{row.key}={EXAMPLES.get(row.key, '1')}"


def test_the_documented_table_is_the_one_that_the_commands_read() -> None:
    assert (REPOSITORY / "docs" / "slurm-options.md").read_text() == page()


def test_an_option_that_only_changes_the_job_needs_one_row() -> None:
    row = OptionRow("tries=COUNT", "how often", read=values.whole, complaint=NUMBER, job="retries")
    sheet = Sheet("sbatch", {"New": [row]}, "script")

    order = read_order(sheet, [("tries", "3")])

    assert order.job == {"retries": 3}
    assert "--tries=COUNT" in sheet.help


def shown(cluster: Cluster, row: OptionRow, text: str) -> dict[str, str]:
    """Where the text of an option is to be seen: in scontrol, squeue and documents."""
    word = f"--{row.key}={text}" if row.takes else f"--{row.key}"
    job = cluster.submit("-H", word)
    block = cluster.text("scontrol", "show", "job", str(job))
    document = json.loads(cluster.text("squeue", "--json", "-j", str(job)))["jobs"][0]
    found = {}
    for place in row.shows.split():
        where, _, name = place.partition(":")
        if where == "scontrol":
            found[place] = re.search(rf"\b{name}=(\S*)", block)[1]  # type: ignore[index]
        elif where == "rest":
            found[place] = str(document[name])
        else:
            found[place] = cluster.text("squeue", "-h", "-j", str(job), "-O", name).strip()
    cluster.text("scancel", str(job))
    return found


@pytest.mark.parametrize("key", KEPT)
def test_the_text_of_an_option_is_shown_where_its_row_says(key: str, cluster: Cluster) -> None:
    value = "cpu:2" if KEPT[key].means else "2"
    seen = shown(cluster, KEPT[key], value)

    assert set(seen.values()) == {value if KEPT[key].takes else "1"}


@pytest.mark.parametrize(
    ("options", "field", "seen"),
    [
        (("-N", "1-3", "--use-min-nodes"), "NumNodes", "1-1"),
        (("--network=ib0",), "Network", "ib0"),
        (("--mcs-label=lab",), "MCS_label", "lab"),
    ],
)
def test_an_option_is_heeded_silently_and_shown(
    options: tuple[str, ...], field: str, seen: str, cluster: Cluster
) -> None:
    answer = cluster.run("sbatch", "-H", "--parsable", *options, "--wrap", "true")

    block = cluster.text("scontrol", "show", "job", str(answer.stdout).strip())
    assert answer.stderr == ""
    assert f" {field}={seen}" in block


def test_a_shorter_limit_that_would_do_is_shown(cluster: Cluster) -> None:
    job = cluster.submit("-H", "-t", "5", "--time-min=3")

    assert "TimeMin=00:03:00" in cluster.text("scontrol", "show", "job", str(job))
    assert cluster.text("squeue", "-h", "-j", str(job), "-O", "mintime").strip() == "3:00"
    cluster.text("scancel", str(job))


@pytest.mark.parametrize("line", of_sbatch(Status.IGNORED))
def test_an_option_without_an_effect_is_taken_and_told(line: str, cluster: Cluster) -> None:
    row = ROWS[line]

    answer = cluster.run("sbatch", "-H", words_of(row), "--wrap", "true")

    assert answer.code == 0
    assert answer.stderr == f"sbatch: warning: --{row.key} has no effect here\n"


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        ("--acctg-freq=x", 255, "Invalid --acctg-freq specification: x"),
        ("--core-spec=x", 1, 'Invalid numeric value "x" for --core-spec.'),
        ("--extra-node-info=x", 1, 'Invalid numeric value "x" for first arg of -B.'),
        ("--get-user-env=x", 255, "Invalid --get-user-env specification"),
        ("--gpu-bind=foo", 255, "Invalid --gpu-bind argument: gpu:foo"),
        ("--gres-flags=foo", 255, "Invalid --gres-flags specification"),
        ("--hint=foo", 1, 'unrecognized --hint argument "foo", see --hint=help'),
        ("--kill-on-invalid-dep=x", 255, "Invalid --kill-on-invalid-dep specification"),
        ("--mem-bind=foo", 255, 'unrecognized --mem-bind argument "foo"'),
        ("--no-kill=x", 255, "Invalid --no-kill specification"),
        ("--profile=x", 255, "invalid --profile=x option"),
        ("--switches=x", 1, 'Invalid numeric value "x" for --switches.'),
        ("--threads-per-core=x", 1, 'Invalid numeric value "x" for --threads-per-core.'),
        (
            "--cpu-freq=foo",
            255,
            'unrecognized --cpu-freq argument "foo"\nsbatch: error: Invalid --cpu-freq argument',
        ),
        (
            "--propagate=x",
            1,
            "Bad rlimit name: x\nsbatch: error: --propagate=x is not valid.",
        ),
    ],
)
def test_a_value_that_slurm_does_not_know_is_refused_in_its_words(
    option: str, code: int, said: str, cluster: Cluster
) -> None:
    answer = cluster.run("sbatch", "-H", option, "--wrap", "true")

    assert (answer.code, answer.stderr) == (code, f"sbatch: error: {said}\n")


@pytest.mark.parametrize("line", of_sbatch(Status.REFUSED))
def test_an_option_that_would_do_damage_unseen_is_refused(line: str, cluster: Cluster) -> None:
    row = ROWS[line]

    answer = cluster.run("sbatch", "-H", words_of(row), "--wrap", "true")

    said = f"sbatch: error: --{row.key} is not possible here: {row.says}\n"
    assert (answer.code, answer.stderr) == (255, said)


def test_quiet_leaves_the_warning_out_and_a_script_may_cause_it(cluster: Cluster) -> None:
    script = b"#!/bin/sh\n#SBATCH --switches=1\n"

    told = cluster.run("sbatch", "-H", stdin=script)
    quiet = cluster.run("sbatch", "-HQ", stdin=script)

    assert told.stderr == "sbatch: warning: --switches has no effect here\n"
    assert quiet.stderr == ""


@pytest.mark.parametrize("program", SHEETS)
def test_help_explains_every_option_on_its_line_and_usage_names_it(
    program: str, cluster: Cluster
) -> None:
    explained = cluster.text(program, "--help")
    named = cluster.text(program, "--usage")

    for row in SHEETS[program].rows.values():
        line = rf"(?m)^  (-\w,|   ) --{re.escape(row.key + row.takes)} +{re.escape(row.says)}"
        assert re.search(line, explained), row.key
        assert f"[--{row.key}{row.takes}]" in named
    assert max(map(len, named.splitlines())) <= 80


@pytest.mark.parametrize(
    ("program", "variable", "option"),
    [
        ("sbatch", "SBATCH_OUTPUT", "output"),
        ("sbatch", "SBATCH_ERROR", "error"),
        ("sbatch", "SBATCH_INPUT", "input"),
        ("sbatch", "SBATCH_DISTRIBUTION", "distribution"),
        ("srun", "SLURM_TASK_PROLOG", "task-prolog"),
        ("srun", "SRUN_CPUS_PER_TASK", "cpus-per-task"),
        ("salloc", "SALLOC_IMMEDIATE", "immediate"),
    ],
)
def test_variables_stand_for_options(program: str, variable: str, option: str) -> None:
    assert from_environment(program, {variable: "1"}) == [(option, "1")]


def test_files_named_by_variables_are_those_of_the_job(cluster: Cluster) -> None:
    env = {"SBATCH_OUTPUT": "x.%j", "SBATCH_ERROR": "y.%j"}

    number = cluster.text("sbatch", "-H", "--parsable", "--wrap", "true", env=env)

    spec = cluster.job(int(number)).spec
    assert (spec.output, spec.error) == ("x.%j", "y.%j")


def test_nodes_come_from_a_file_of_the_caller(cluster: Cluster) -> None:
    missing = cluster.run("sbatch", "-H", "-F", "nodes", "--wrap", "true")

    said = "sbatch: error: Unable to open node file nodes: No such file or directory\n"
    assert (missing.code, missing.stderr) == (1, said)
