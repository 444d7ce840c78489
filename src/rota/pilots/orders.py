"""The order for one allocation: our own agent in it, and how that joins the controller.

The token is the standard input, which drivers keep in a file for the user alone (Slurm) or in a
secret (Kubernetes). It is never on a command line or in the environment, lets one node in, and is
revoked with the allocation.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rota.backends.orders import AttemptOrder, Key
from rota.pilots.shapes import node_of
from rota.rpc.messages import Launch

if TYPE_CHECKING:
    from rota.core.facts.site.pilot import Pilot
    from rota.pilots.shapes import PilotShape

#: The agent counts its end from its own start, which comes a little after the allocation's.
RESERVE_S = 15
#: Between TERM and KILL, where the driver has a say in it.
GRACE_S = 30.0
LABEL = "pilot"
#: What our own program needs of our environment to be found and to run there.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
#: Its state is its node's alone, and goes with it. TERM may come to the shell alone.
_SCRIPT = b"""#!/bin/sh
state=$(mktemp -d "${TMPDIR:-/tmp}/rota-pilot-XXXXXXXX") || exit 1
exec 3<&0
"$@" --state-dir "$state" <&3 &
agent=$!
exec 3<&-
trap 'kill -TERM $agent 2>/dev/null' TERM INT HUP
wait $agent
code=$?
while kill -0 $agent 2>/dev/null; do wait $agent; code=$?; done
rm -rf "$state"
exit $code
"""


def usable_s(pilot: Pilot) -> int:
    """How long a job may take in an allocation that has just begun."""
    return max(0, pilot.time_s - RESERVE_S)


def order_for(
    pilot: Pilot, cluster: str, uid: str, shape: PilotShape, url: str, token: str
) -> AttemptOrder:
    """Ask for a node of this shape, or for a part of one."""
    launch = Launch(
        uid=uid,
        job=0,
        user="",
        argv=tuple(_command(pilot, node_of(pilot.name, uid), url)),
        workdir="/",
        environment=_environment(pilot, shape),
        script=_SCRIPT,
        stdin=f"{token}\n".encode(),
        cpu_milli=shape.cpu_milli,
        memory_mib=shape.memory_mib,
        grace_s=GRACE_S if pilot.kind == "kubernetes" else 0.0,
    )
    return AttemptOrder(
        key=Key(cluster, uid),
        launch=launch,
        name=f"rota-{pilot.name}",
        time_limit_s=pilot.time_s,
        gpus=shape.gpus,
        gpu_type=shape.gpu_type,
    )


def _command(pilot: Pilot, node: str, url: str) -> list[str]:
    program = [pilot.program] if pilot.program else [sys.executable, "-m", "rota.cli.main"]
    words = [*program, "agent", "--join", url, "--token-file", "-", "--name", node]
    words += ["--lifetime", f"{usable_s(pilot)}s", "--idle", f"{pilot.idle_s}s"]
    return words + (["--unlimited"] if pilot.unlimited else [])


def _environment(pilot: Pilot, shape: PilotShape) -> dict[str, str]:
    labels = {**pilot.labels, LABEL: pilot.name}
    found = {name: os.environ[name] for name in _KEPT if name in os.environ}
    found |= {
        "ROTA_AGENT_CPUS": f"{shape.cpu_milli / 1000:g}",
        "ROTA_AGENT_LABELS": ",".join(f"{key}={value}" for key, value in labels.items()),
        # The engine has a group for the whole allocation.
        "ROTA_AGENT_CGROUP_ROOT": "off",
    }
    if shape.memory_mib:
        found["ROTA_AGENT_MEMORY"] = f"{shape.memory_mib}m"
    return found
