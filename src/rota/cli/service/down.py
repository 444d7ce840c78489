"""``rota down``: ends the processes of this machine's Rota, and jobs only if told to."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota import paths
from rota.cli.service import pretend
from rota.cli.service.state_folder import StateFolder
from rota.cli.service.stop_jobs import active, heard_by, stop_jobs
from rota.cli.shared.asking import confirm_ends, each_of
from rota.cli.shared.session import my_name, warn
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.cli.service.service_options import DownOptions

#: Jobs that a message lists.
NAMED = 5


def down(options: DownOptions) -> int:
    """Stop what runs here: supervisor, agent, controller. Jobs go on unless told otherwise."""
    if options.state_dir:
        os.environ["ROTA_STATE_DIR"] = str(Path(options.state_dir).absolute())
    place = StateFolder(paths.state_dir(os.environ))
    pids = _pids(place)
    made_up = StateFolder(paths.pretended_dir(os.environ))
    if not any(pids.values()) and any(_pids(made_up).values()):
        place, pids = made_up, _pids(made_up)
    if not any(pids.values()):
        return _none_of_ours(place.folder)
    if options.stop_jobs and not (pids["supervisor"] or pids["controller"]):
        raise Rejected(
            "--stop-jobs: only an agent runs here, and its controller ends jobs: "
            "'rota drain NODE' or 'rota cancel' there, then 'rota down' here"
        )
    if options.dry_run:
        return _foretell(place, pids, options.stop_jobs)
    if options.stop_jobs:
        client = place.client()
        confirm_ends("cancel", active(client), my_name(client), yes=options.yes)
    until_s = time.monotonic() + options.timeout_s
    if options.stop_jobs and (jobs := stop_jobs(place.client(), until_s)):
        if heard_by(place.client(), jobs):
            warn(f"some jobs have not ended within {options.timeout_s:g} s; rota is left running")
            return 1
        warn(_unheard(jobs))
    going = _active(place.status())
    left = _stop(place, pids, until_s)
    place.dismiss_keeper()
    stopped = ", ".join(f"{name} (pid {pid})" for name, pid in pids.items() if pid)
    if left:
        warn(f"still running: {', '.join(left)}")
        return 1
    print(f"stopped {stopped}{_what_becomes_of(going, pretend.is_marked(place.folder))}")
    return 0


def _foretell(place: StateFolder, pids: dict[str, int], stop_jobs: bool) -> int:
    """What would be stopped, and which jobs would end with it."""
    named = ", ".join(f"{name} (pid {pid})" for name, pid in pids.items() if pid)
    ended = active(place.client()) if stop_jobs else []
    jobs = f"; would cancel {each_of(ended)}" if ended else ""
    pretended = pretend.is_marked(place.folder)
    going = "" if stop_jobs else _what_becomes_of(_active(place.status()), pretended)
    print(f"would stop {named}{jobs}{going}")
    return 0


def _pids(place: StateFolder) -> dict[str, int]:
    """The processes that work in a state folder, by their part; 0: there is none."""
    return {
        "supervisor": place.supervisor.holder(),
        "controller": place.controller.holder(),
        "agent": place.agent_pid(),
    }


def _what_becomes_of(active: int, pretended: bool) -> str:
    """The words for the jobs that ran."""
    if pretended:
        ended = f"; jobs that ran there end with it: {active}" if active else ""
        return f"; its machines were pretended{ended}"
    going = "1 running job goes on" if active == 1 else f"{active} running jobs go on"
    return f"; {going}" if active else ""


def _none_of_ours(folder: Path) -> int:
    """Nothing that this user may stop runs here; who may stop what does."""
    if (owner := _owner(folder)) and not os.access(folder, os.R_OK | os.X_OK):
        may = "root" if owner == "root" else f"{owner} or root"
        warn(f"the Rota with its state in {folder} is of {owner}: only {may} can stop it")
        return 1
    print(f"rota is not running (state in {folder})")
    if StateFolder(paths.SYSTEM_SOCKET.parent).status():
        owner = _owner(paths.SYSTEM_SOCKET) or "root"
        warn(f"{owner} runs one for this machine; it ends when {owner} runs 'rota down'")
    return 0


def _owner(path: Path) -> str:
    """The user of a file; empty where there is none."""
    try:
        return path.owner()
    except (PermissionError, KeyError):
        return "another user"
    except OSError:
        return ""


def _unheard(jobs: list[dict[str, Any]]) -> str:
    """What is said of jobs that nobody can end now."""
    nodes = ", ".join(sorted({node for job in jobs for node in job["nodes"]}))
    names = ", ".join(job["ref"] for job in jobs[:NAMED]) + (", …" if len(jobs) > NAMED else "")
    return f"node {nodes} is not connected; what runs there ends when it is back: job {names}"


def _active(status: dict[str, Any]) -> int:
    jobs = status.get("jobs") or {}
    return int(jobs.get("running", 0)) + int(jobs.get("scheduled", 0))


def _stop(place: StateFolder, pids: dict[str, int], until_s: float) -> list[str]:
    """TERM to the supervisor, which ends the others; or to each when there is none."""
    names = ["supervisor"] if pids["supervisor"] > 0 else ["agent", "controller"]
    for name in names:
        if pids[name] > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[name], signal.SIGTERM)
    finders = {
        "supervisor": place.supervisor.holder,
        "controller": place.controller.holder,
        "agent": place.agent_pid,
    }
    while True:
        left = [name for name, find in finders.items() if find()]
        if not left or time.monotonic() > until_s:
            return left
        time.sleep(0.02)
