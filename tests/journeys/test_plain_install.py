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
#: Every Python that sees this module fails to import them.
WITHOUT = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n"


def test_a_rota_without_any_extra_runs_a_job_and_says_why_another_waits(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    (tmp_path / "usercustomize.py").write_text(WITHOUT)
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    box = new_box(cpus=1)
    box.env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), box.env.get("PYTHONPATH", "")])

    box.up()
    ran = box.ran("echo done")
    box.job("sleep 60", resources={"cpus": 1})
    waiting = box.job("true", resources={"cpus": 1})

    assert ran["state"] == "completed"
    assert "not enough free cpus" in box.rota("why", str(waiting)).stdout
    assert "box" in box.rota("nodes").stdout
