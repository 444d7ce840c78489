"""A real Slurm on this machine, private to one benchmark: started by ``slurm-up``, gone after."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers import Missing, run_quietly, shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The first start on a machine installs its packages.
START_S = 400.0
STOP_S = 60.0


@contextlib.contextmanager
def real_slurm(profile: str, settings: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """The environment in which its commands find it; ``Missing`` where there can be none.

    ``settings`` are further variables of ``slurm-up``.
    """
    shared = shared_folder()
    if shared is None:
        raise Missing("there is no folder ../shared with slurm-up")
    if os.geteuid() != 0:
        raise Missing("slurm-up needs root")
    engines = shared / "engines"
    # A unix socket's path is short, so the state folder must be near the root.
    state = tempfile.mkdtemp(prefix="rbs", dir="/tmp")
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "SLURM_UP_PROFILE": profile}
    env |= settings or {}
    try:
        try:
            # A daemon that dies leaves its core in the folder that it was started in.
            up = [str(engines / "slurm-up"), state]
            run_quietly(up, limit_s=START_S, env=env, cwd=state)
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"slurm-up started none: {error}") from None
        yield {**env, "SLURM_CONF": str(Path(state) / "etc" / "slurm.conf")}
    finally:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            down = [str(engines / "slurm-down"), "--purge", state]
            run_quietly(down, limit_s=STOP_S, env=env)
        shutil.rmtree(state, ignore_errors=True)
