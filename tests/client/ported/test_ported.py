"""Programs written for submitit, Dask and Ray run here with another import and another set-up."""

import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.client.ports import ray, submitit

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent

#: Style -> line of the program -> the line that stands for it here.
CHANGES = {
    "submitit": {"import submitit": "from rota.client.ports import submitit"},
    "ray": {"import ray": "from rota.client.ports import ray"},
    "dask": {
        "from dask.distributed import Client, as_completed, wait": (
            "import rota\nfrom rota import as_completed, wait"
        ),
        "client = Client(processes=False, dashboard_address=None)": "client = rota.connect()",
    },
}


def loaded(style: str) -> types.ModuleType:
    """The programs of a style, as a module that no job can import: they travel by value."""
    source = (HERE / f"{style}_programs.py").read_text()
    for before, after in CHANGES[style].items():
        assert source.count(f"\n{before}\n") == 1
        source = source.replace(f"\n{before}\n", f"\n{after}\n")
    module = types.ModuleType(f"{style}_ported")
    exec(compile(source, f"{style}_programs.py", "exec"), module.__dict__)
    return module


def names(style: str) -> list[str]:
    """The programs, by the table at the end of the file."""
    lines = (HERE / f"{style}_programs.py").read_text().partition("EXPECTED = {\n")[2].splitlines()
    return [line.partition(":")[0].strip() for line in lines if ":" in line]


@pytest.fixture(scope="module")
def programs(_own_cluster: rota.ClusterContext) -> Iterator[dict[str, Any]]:
    """Every style's programs, on the tests' own Rota; Dask's client is a connection to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROTA_URL", _own_cluster.url)
        modules = {style: loaded(style) for style in CHANGES}
    yield modules
    modules["dask"].client.close()


@pytest.mark.parametrize(
    ("style", "name"), [(style, name) for style in CHANGES for name in names(style)]
)
def test_a_program_says_here_what_it_says_there(
    programs: dict[str, Any], style: str, name: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setenv("PORTED_FOLDER", str(tmp_path))
    module = programs[style]
    program = getattr(module, name)

    assert program() == module.EXPECTED[program]


def test_there_are_ten_programs_of_each_style():
    assert {style: len(names(style)) for style in CHANGES} == dict.fromkeys(CHANGES, 10)


ITSELF = """
import {style}_programs as programs
for program, expected in programs.EXPECTED.items():
    assert program() == expected, program.__name__
"""


@pytest.mark.parametrize("style", ["submitit", "dask"])
def test_the_programs_say_the_same_with_the_library_that_they_were_written_for(
    style: str, tmp_path: Path
):
    (tmp_path / "left").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ITSELF.format(style=style)],
        cwd=tmp_path,
        env={**os.environ, "PORTED_FOLDER": str(tmp_path / "left"), "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("refused", "error", "words"),
    [
        (lambda: ray.remote(num_returns=2), ValueError, "num_returns: this option of Ray"),
        (lambda: ray.remote(type("Actor", (), {})), TypeError, "Actor is a class; actors"),
        (lambda: ray.wait([], num_returns=1), ValueError, "num_returns: 1 is not valid; 1 to 0"),
    ],
)
def test_what_has_no_twin_is_refused_in_one_line(refused: Any, error: type, words: str):
    with pytest.raises(error, match=words) as caught:
        refused()
    assert "\n" not in str(caught.value)


def test_parameters_of_submitit_become_options(cluster: rota.ClusterContext):
    executor = submitit.AutoExecutor(folder="logs")
    executor.update_parameters(timeout_min=5, mem_gb=1, cpus_per_task=2, name="set", nodes=1)
    executor.update_parameters(tasks_per_node=2)

    job = executor.submit(abs, -4)

    record = job.handle.status().record
    assert (record["name"], record["time_limit_s"], record["tasks"]) == ("set", 300, 2)
    assert (record["resources"]["cpus"], record["resources"]["memory_mb"]) == (2, 1024)
    assert job.results() == [4, 4]
    assert job.handle.home == cluster.url
    with pytest.raises(ValueError, match="slurm_qos: this parameter has no twin here; known are"):
        executor.update_parameters(slurm_qos="high")
