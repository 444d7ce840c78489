"""What a plain ``pip install`` can do: no package of an extra is needed before it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box

#: What the extras of pyproject.toml bring.
EXTRAS = (
    *("psycopg", "pynvml", "fsspec", "s3fs", "plotly", "pyarrow", "cryptography", "grpc"),
    *("google", "lightkube", "opentelemetry"),
)


def leave_out(box: Box, folder: Path, packages: tuple[str, ...]) -> None:
    """Every Python that this box starts fails to import them."""
    lines = f"import sys\nsys.modules.update(dict.fromkeys({packages!r}))\n"
    (folder / "sitecustomize.py").write_text(lines)
    box.env["PYTHONPATH"] = os.pathsep.join([str(folder), box.env.get("PYTHONPATH", "")])


def test_a_rota_without_any_extra_runs_a_job_and_says_why_another_waits(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = new_box(cpus=1)
    leave_out(box, tmp_path, EXTRAS)

    box.up()
    ran = box.ran("echo done")
    box.job("sleep 60", resources={"cpus": 1})
    waiting = box.job("true", resources={"cpus": 1})

    assert ran["state"] == "completed"
    assert "not enough free cpus" in box.rota("why", str(waiting)).stdout
    assert "box" in box.rota("nodes").stdout


def test_a_package_that_is_missing_is_named_when_rota_starts(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = new_box()
    leave_out(box, tmp_path, ("uvicorn",))

    refused = box.rota("up", "--detach", check=False)

    assert refused.returncode == 2
    assert "the installation is not whole: " in refused.stderr
    assert "uvicorn" in refused.stderr
    assert "Traceback" not in refused.stderr
