"""What a job takes along: a working folder, an environment, a container image."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box

FAKE_PODMAN = """#!/bin/sh
# Not podman: says what it was told, then runs what stands behind the image.
echo "podman $1 for $ROTA_JOB_NAME"
while [ "$1" != the/image:1 ]; do shift; done
shift
exec "$@"
"""
FAKE_UV = """#!/bin/sh
# Not uv: says what it was told, then runs what stands behind the two dashes.
echo "uv $1 $2 $3"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    made = folder / name
    made.write_text(text)
    made.chmod(0o755)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    program(folder, "train.sh", '#!/bin/sh\necho "$(cat data/set) in $(pwd)"; echo trace > left\n')
    (folder / "data").mkdir()
    (folder / "data" / "set").write_text("digits")
    (folder / ".git").mkdir()
    (folder / ".git" / "huge").write_text("history")
    (folder / ".rotaignore").write_text("# not these\n*.tmp\n")
    (folder / "draft.tmp").write_text("x")
    return folder


def test_a_working_folder_travels_with_the_job_and_leaves_with_it(home: Box, project: Path) -> None:
    job = home.submit("--bundle", str(project), "--", "./train.sh")
    ended = home.ended(job)

    copy = home.state / "agent" / "work"
    assert ended["state"] == "completed", home.output(job, "stderr")
    assert home.output(job).startswith(f"digits in {copy}/")
    assert not (project / "left").exists(), "it ran in a copy"
    until(lambda: not list(copy.iterdir()), "the copy to go")
    assert len(str(ended["bundle"])) == 64


def test_an_unchanged_folder_is_sent_once_and_a_changed_one_again(home: Box, project: Path) -> None:
    line = ("--bundle", str(project), "--", "sh", "-c", "ls -A; cat data/set")
    first = home.ended(home.submit(*line))
    second = home.ended(home.submit(*line))
    (project / "data" / "set").write_text("letters")

    third = home.ended(home.submit(*line))

    assert first["bundle"] == second["bundle"] != third["bundle"]
    stored = {path.name for path in (home.state / "bundles").iterdir()}
    assert {first["bundle"], third["bundle"]} <= stored
    listed = home.output(third["id"]).split()
    assert listed == [".rotaignore", "data", "train.sh", "letters"]


def test_a_job_waits_for_a_controller_that_died_while_its_folder_was_fetched(
    box: Box, project: Path
) -> None:
    (project / "weights").write_bytes(os.urandom(8 << 20))

    job = box.submit("--bundle", str(project), "--hold", "--", "./train.sh")
    box.rota("release", str(job))
    box.kill("controller")

    assert box.ended(job)["state"] == "completed"


def test_a_folder_that_is_too_large_or_absent_is_refused_in_one_line(
    new_box: Callable[..., Box], project: Path
) -> None:
    box = new_box()
    box.env["ROTA_BUNDLES_MAX_SIZE"] = "1m"
    box.up()
    (project / "weights").write_bytes(os.urandom(2 << 20))

    large = box.refusal("submit", "--bundle", str(project), "--", "./train.sh")
    (project / "link").symlink_to("/etc/passwd")
    leads_out = box.refusal("submit", "--bundle", str(project), "--", "./train.sh")
    absent = box.refusal("submit", "--bundle", "nowhere", "--", "true")

    assert "has more than 1 MiB, packed" in large
    assert "'link' is a link out of the folder, to /etc/passwd" in leads_out
    assert "--bundle: 'nowhere' is not there" in absent


def test_the_api_takes_a_folder_only_under_its_own_digest(home: Box) -> None:
    status, wrong = home.api("PUT", f"/bundles/{'0' * 64}", {"not": "that"})
    odd_status, odd = home.api("PUT", "/bundles/..%2f..%2fetc", {})
    unknown_status, unknown = home.api("POST", "/jobs", {"command": "true", "bundle": "1" * 64})

    assert (status, wrong["field"]) == (400, "digest")
    assert odd_status in (400, 404), odd
    assert (unknown_status, unknown["field"]) == (400, "bundle")
    assert not (home.state / "bundles" / ("0" * 64)).exists()


def test_an_image_is_run_by_the_engine_of_the_node(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    program(tmp_path / "bin", "podman", FAKE_PODMAN)
    box = new_box()
    box.env["PATH"] = f"{tmp_path / 'bin'}:{box.env['PATH']}"
    box.up()

    job = box.submit("--name", "boxed", "--image", "the/image:1", "--", "sh", "-c", "echo inside")
    ended = box.ended(job)

    assert (ended["state"], ended["image"]) == ("completed", "the/image:1")
    assert box.output(job) == "podman run for boxed\ninside\n"
    assert "image:" in box.rota("show", str(job)).stdout


def test_without_an_engine_an_image_is_refused_at_submit(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    for name in ("sh", "true"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    box = new_box()
    box.env["PATH"] = str(tmp_path)
    box.up()

    refused = box.refusal("submit", "--image", "the/image:1", "--", "true")
    option = box.refusal("submit", "--image=--privileged", "--", "true")

    assert "image: no node can run containers" in refused
    assert "no node can run containers" in refused
    assert "image: '--privileged'" in option


def test_environments_are_activated_by_one_option(home: Box, tmp_path: Path) -> None:
    python = program(tmp_path / "env", "x", "")
    (python.parent / "bin").mkdir()
    program(python.parent / "bin", "python", "#!/bin/sh\necho python of the environment\n")
    program(tmp_path / "bin", "uv", FAKE_UV)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "pyproject.toml").write_text("[project]\n")
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}

    venv = home.submit("--activate", "venv", str(tmp_path / "env"), "--", "python")
    uv = home.submit("--activate", "uv", str(tmp_path / "lib"), "--", "echo", "ran", env=path)
    absent = home.refusal("submit", "--activate", "uv", str(tmp_path), "--", "true")

    home.ended(venv)
    home.ended(uv)
    assert home.output(venv) == "python of the environment\n"
    assert home.output(uv) == f"uv run --project {tmp_path / 'lib'}\nran\n"
    assert f"there is no pyproject.toml in {tmp_path}" in absent
    assert python.stat().st_mode & stat.S_IXUSR
