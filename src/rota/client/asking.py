"""From what a program asks for to the request that the server takes."""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from rota.client.outcomes import RESULT_DIR
from rota.core.words.units import parse_duration_s, parse_memory_mib
from rota.inherited import is_inherited, is_text, looks_secret, umask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger("rota")

#: Names of ``resources`` in Python, and what they are called in a request.
RESOURCES = {
    "cpu": "cpus",
    "cpus": "cpus",
    "memory": "memory_mb",
    "disk": "disk_mb",
    "gpu": "gpus",
    "gpus": "gpus",
    "gpu_type": "gpu_type",
    "gpu_memory": "gpu_memory_mb",
    "shared": "shared",
    "device": "device",
}
#: These say something about the job that we are in ourselves.
_OF_A_JOB = ("SLURM_", "CUDA_VISIBLE_", "HIP_VISIBLE_", "ROCR_VISIBLE_", "NVIDIA_VISIBLE_")


def resources(asked: Mapping[str, Any]) -> dict[str, Any]:
    """``{"cpu": 2, "memory": "4g"}`` in the server's words."""
    request: dict[str, Any] = {}
    for name, value in asked.items():
        field = RESOURCES.get(name)
        if field is None:
            known = ", ".join(RESOURCES)
            raise ValueError(f"resources: {name!r} is not known; known are {known}")
        in_text = field.endswith("_mb") and isinstance(value, str)
        request[field] = parse_memory_mib(value) if in_text else value
    return request


def surroundings(environment: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Where a job runs: this folder, this environment, this umask; results go to ``folder``."""
    inside = "ROTA_JOB_ID" in environment
    _say_left_out(tuple(name for name in environment if is_inherited(name) and looks_secret(name)))
    kept = {
        name: value
        for name, value in environment.items()
        if is_inherited(name)
        and not looks_secret(name)
        and not (inside and name.startswith(_OF_A_JOB))
        and is_text(name)
        and is_text(value)
    }
    variables = {RESULT_DIR: folder}
    return {"workdir": os.getcwd(), "env": kept, "umask": umask(), "variables": variables}


@cache
def _say_left_out(names: tuple[str, ...]) -> None:
    """Once per program: jobs are submitted in loops."""
    if names:
        listed = ", ".join(names)
        log.warning("left out what looks like a secret: %s (env={...} takes one along)", listed)


def parents(jobs: int | Iterable[int]) -> list[dict[str, Any]]:
    """Jobs to wait for, each of which must complete."""
    listed = [jobs] if isinstance(jobs, int) else list(jobs)
    return [{"kind": "after-ok", "job": int(job)} for job in listed]


def options(
    given: Mapping[str, Any], asked: Mapping[str, Any] | None, base: Mapping[str, Any]
) -> dict[str, Any]:
    """All fields of a request but its work: ours, then what the caller said.

    ``env``, ``time_limit`` and ``after_ok`` are said in the words of Python; any other name is a
    field of a job request, and the server refuses one that it does not know.
    """
    fields = dict(given)
    request = {**base, "resources": resources(asked or {})}
    if env := fields.pop("env", None):
        request["variables"] = {**base["variables"], **{k: str(v) for k, v in env.items()}}
    if (limit := fields.pop("time_limit", None)) is not None:
        request["time_limit_s"] = parse_duration_s(str(limit))
    if (after := fields.pop("after_ok", None)) is not None:
        request["depends_on"] = parents(after)
    return {**request, **fields}
