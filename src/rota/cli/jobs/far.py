"""How far jobs are, as they said themselves, and what they used of what they held."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rota.cli.shared.job_fields import clock
from rota.cli.shared.session import warn
from rota.client.errors import ClientError
from rota.core.words.units import format_mib

if TYPE_CHECKING:
    from rota.client.http import Client

#: The most running jobs of a list that are asked.
ASKED = 100
#: What a shorter run used says little: most of it may be its beginning.
TELLING_S = 30.0
#: Where less than this part of what was held is used, less could be asked for.
LITTLE = 0.5
#: The most ended jobs of which it is told.
TOLD = 5


def add_progress(client: Client, jobs: list[dict[str, Any]]) -> bool:
    """Put what they said into those that run; whether any said something."""
    running = [job for job in jobs if job["state"] == "running"][:ASKED]
    if not running:
        return False
    try:
        ids = ",".join(str(job["id"]) for job in running)
        said = {one["id"]: one for one in client.get("/jobs/progress", ids=ids)["items"]}
    except ClientError:
        # An older server does not know of it.
        return False
    for job in running:
        if job["id"] in said:
            job["progress"] = said[job["id"]]
    return bool(said)


def figures_text(job: Any) -> str:  # noqa: ANN401 - a job as JSON
    """``loss=0.31 lr=0.001``."""
    said = job.get("progress") or {}
    return " ".join(f"{key}={value}" for key, value in (said.get("figures") or {}).items())


def tell_efficiency(client: Client, job: int, name: str) -> None:
    """A line at a terminal for a job that ended and could have asked for less."""
    with suppress(ClientError):
        if line := efficiency_line(name, client.get(f"/jobs/{job}/metrics")):
            warn(line)


def efficiency_line(name: str, figures: dict[str, Any]) -> str:
    """``job 12 used 3% of its CPU time (1:02 of 40:00), …``; empty: that says nothing."""
    if (figures.get("run_s") or 0.0) < TELLING_S:
        return ""
    parts = []
    used, held = figures.get("cpu_s") or 0.0, figures.get("cpu_held_s") or 0.0
    # Of a single CPU there is nothing to give back.
    several = held > 1.5 * figures["run_s"]
    if several and _is_little(figures.get("cpu_efficiency")):
        share = f"{100 * figures['cpu_efficiency']:.0f}% of its CPU time"
        parts.append(f"{share} ({clock(used)} of {clock(held)} held)")
    if _is_little(figures.get("memory_efficiency")):
        peak = format_mib(int(figures["peak_memory_mb"]))
        parts.append(f"{100 * figures['memory_efficiency']:.0f}% of the memory asked for ({peak})")
    if _is_little(figures.get("gpu_efficiency")):
        parts.append(f"{100 * figures['gpu_efficiency']:.0f}% of its GPU time")
    return f"job {name} used {', '.join(parts)}" if parts else ""


def _is_little(share: float | None) -> bool:
    return share is not None and share < LITTLE


def efficiency_pairs(figures: dict[str, Any]) -> list[tuple[str, object]]:
    """What it used of what it held; known of tries that have ended."""
    pairs: list[tuple[str, object]] = []
    if figures.get("cpu_efficiency") is not None:
        held = clock(figures["cpu_held_s"])
        used = f"{clock(figures['cpu_s'])} of {held} CPU time held"
        pairs.append(("cpu used", f"{100 * figures['cpu_efficiency']:.0f}% ({used})"))
    if figures.get("memory_efficiency") is not None:
        peak = format_mib(int(figures["peak_memory_mb"]))
        share = f"{100 * figures['memory_efficiency']:.0f}% of what it asked for"
        pairs.append(("memory used", f"{share} (at most {peak})"))
    if figures.get("gpu_held_s"):
        pairs.append(("gpu held", f"{clock(figures['gpu_held_s'])} GPU time"))
    if figures.get("gpu_efficiency") is not None:
        peak = format_mib(int(figures["gpu_peak_memory_mib"]))
        busy = f"{100 * figures['gpu_efficiency']:.0f}% busy"
        pairs.append(("gpu used", f"{busy} (at most {peak} of its memory)"))
    return pairs
