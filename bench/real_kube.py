"""A real Kubernetes on this machine, private to one benchmark: started by ``kube-up``."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers import Missing, run_quietly, shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The first start on a machine compiles it.
START_S = 900.0
STOP_S = 60.0


@contextlib.contextmanager
def real_kube(nodes: int, cpus: int) -> Iterator[dict[str, str]]:
    """The environment in which ``kubectl`` finds it; ``Missing`` where there can be none."""
    shared = shared_folder()
    if shared is None:
        raise Missing("there is no folder ../shared with kube-up")
    if os.geteuid() != 0:
        raise Missing("kube-up needs root")
    engines = shared / "engines"
    # A unix socket's path is short, so the state folder must be near the root.
    state = tempfile.mkdtemp(prefix="rbk", dir="/tmp")
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ.get("HOME", "/root")}
    up = [str(engines / "kube-up"), "--nodes", str(nodes), "--cpus", str(cpus), state]
    try:
        try:
            done = subprocess.run(
                up, env=env, cwd=state, capture_output=True, text=True, timeout=START_S, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"kube-up started none: {error}") from None
        said = dict(re.findall(r"^export (\w+)=(.*)$", done.stdout, re.MULTILINE))
        yield {**env, **said, "PATH": f"{said['KUBE_BIN']}:{env['PATH']}"}
    finally:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            run_quietly([str(engines / "kube-down"), "--purge", state], limit_s=STOP_S, env=env)
        shutil.rmtree(Path(state), ignore_errors=True)
