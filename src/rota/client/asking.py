"""From what a program asks for to the request that the server takes.

A keyword of ``cluster.submit`` may be meant for the function or for the job. The function comes
first: it gets every keyword that it names. A keyword that it does not name is an option of the
job, if there is such an option.
"""

from __future__ import annotations

import difflib
import inspect
import logging
import os
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from rota.client.calls import name_of
from rota.client.ids import id_of, in_numbers
from rota.client.outcomes import RESULT_DIR
from rota.core.words.units import parse_duration_s, parse_memory_mib, refuse_bare_size
from rota.inherited import is_inherited, is_text, looks_secret, umask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rota.client.ids import AnyJob

    Parents = AnyJob | Iterable[AnyJob]

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
#: Options that say the same as another one.
SAME = {
    "cpu": "cpus",
    "gpu": "gpus",
    "time": "time_limit",
    "scheduling_timeout_seconds": "scheduling_timeout_s",
}
#: Of these, what is said last is added to what was said before.
ADDED = ("env", "labels")
#: These say something about the job that we are in ourselves.
_OF_A_JOB = ("SLURM_", "CUDA_VISIBLE_", "HIP_VISIBLE_", "ROCR_VISIBLE_", "NVIDIA_VISIBLE_")


class JobOptions(TypedDict, total=False):
    """What ``cluster.options``, ``@rota.job`` and ``map`` take; the first lines are Python's own.

    All others are fields of a request, described in ``/docs`` of the server.
    """

    name: str
    cpus: float
    cpu: float
    memory: str | int
    disk: str | int
    gpus: int
    gpu: int
    gpu_type: str
    gpu_memory: str | int
    shared: bool
    device: str
    resources: Mapping[str, Any]
    time: str | int
    time_limit: str | int
    env: Mapping[str, str]
    after_ok: Parents
    scheduling_timeout_seconds: float

    apart: list[str]
    backoff_s: float
    begin_at: float | str
    bundle: str
    checkpoint_signal: str
    cluster: str
    constraints: list[str]
    data: list[str]
    deadline_at: float | str
    dependency_timeout_s: float
    depends_any: bool
    depends_on: list[dict[str, Any]]
    engine: str
    error: str
    estimate_s: float
    exclude: list[str]
    exclusive: bool
    executor: dict[str, Any]
    grace_s: float
    group: str
    health: dict[str, Any]
    hold: bool
    image: str
    keep_waiting: bool
    labels: Mapping[str, str]
    licenses: list[str]
    min_tasks: int
    near: list[str]
    node_list: list[str]
    nodes: int
    notify: list[str]
    output: str
    ports: list[str]
    preempt_mode: str
    preempt_retries: int
    preemptible: bool
    priority: int | str
    project: str
    promise: bool
    pty: bool
    qos: str
    queue: str
    restart: str
    restart_cost_s: float
    retries: int
    retry_on: list[int | str]
    roles: list[dict[str, Any]]
    save_every_s: float
    save_signal: str
    scheduling_timeout_s: float
    secrets: list[str]
    tasks: int
    time_limit_s: float
    tolerate: list[str]
    topology: str
    type: str
    ulimits: dict[str, Any]
    umask: int
    variables: Mapping[str, str]
    workdir: str
    vdc: str
    warn_s: float
    warn_signal: str


OPTIONS = frozenset(JobOptions.__annotations__)


def sort_keywords(
    function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords for the function and options of the job, from those of one ``submit``.

    ``kwargs={…}`` are keywords for the function, too. Where both could be meant, a warning says
    what was done.
    """
    named, takes_any, known = _taken(function)
    kwargs: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for key, value in given.items():
        is_option = key in OPTIONS
        if key in named:
            kwargs[key] = value
            if is_option:
                _warn(f"{key}: given to {name_of(function)}(), which names it; {_FOR_THE_JOB}")
        elif key == "kwargs":
            kwargs.update(value or {})
        elif is_option:
            options[key] = value
            if takes_any and known:
                _warn(f"{key}: taken as an option of the job; {_FOR_THE_FUNCTION}")
        elif takes_any:
            kwargs[key] = value
        else:
            raise TypeError(_no_such(function, key))
    check_call(function, args, kwargs)
    return kwargs, options


_FOR_THE_JOB = "an option of the job goes through cluster.options(...)"
_FOR_THE_FUNCTION = "all keywords of cluster.options(...).submit go to the function"


_SUCH_AS = "options are those of cluster.options(...), such as cpus, memory, gpus, time and name"
#: Of this package; the program that uses it is elsewhere.
_HERE = os.path.dirname(__file__) + os.sep


def _warn(words: str) -> None:
    """At the line of the program, through whichever functions of ours it came here."""
    level, frame = 1, sys._getframe()
    while frame.f_code.co_filename.startswith(_HERE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(words, UserWarning, stacklevel=level)


def _no_such(function: object, key: str) -> str:
    near = difflib.get_close_matches(key, OPTIONS, 1)
    hint = f"did you mean cluster.options({near[0]}=...)?" if near else _SUCH_AS
    return (
        f"{key}: {name_of(function)}() takes no such keyword, and there is no such option; {hint}"
    )


def _taken(function: Callable[..., Any]) -> tuple[set[str], bool, bool]:
    """The keywords that a function names, whether it takes any other, and whether we know."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set(), True, False
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {parameter.name for parameter in parameters if parameter.kind in kinds}
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    return named, takes_any, True


def refuse_keywords(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """What a map takes no keyword for: keywords of the function go elsewhere there."""
    named, takes_any, known = _taken(function)
    for key in sorted(options.keys() - OPTIONS):
        if key in named or (takes_any and known):
            raise TypeError(
                f"{key}: there is no such option; map hands keywords on to {name_of(function)}() "
                f"by kwargs={{{key!r}: ...}}"
            )
        near = difflib.get_close_matches(key, OPTIONS, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise TypeError(f"{key}: there is no such option; {meant}{_SUCH_AS}")


def _not_a_function(given: object) -> TypeError:
    words = given if isinstance(given, (list, tuple)) else [given]
    hint = "; for a command: rota.Job(NAME).command(…)"
    return TypeError(
        f"submit: {given!r} is not a function; expected something to call"
        + (hint if words and all(isinstance(word, str) for word in words) else "")
    )


def check_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Refuse a call that could only fail in the job."""
    if not callable(function):
        raise _not_a_function(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name_of(function)}(): {error}") from None


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options under one name each: ``resources`` laid out, other names for the same replaced."""
    laid_out = {**given}
    for name, value in (laid_out.pop("resources", None) or {}).items():
        if name not in RESOURCES:
            known = ", ".join(RESOURCES)
            raise ValueError(f"resources: {name!r} is not known; known are {known}")
        laid_out.setdefault(name, value)
    found: dict[str, Any] = {}
    for name, value in laid_out.items():
        name = SAME.get(name, name)
        if name in found and found[name] != value:
            raise ValueError(f"{name}: {found[name]!r} and {value!r} are both given; say one")
        found[name] = value
    return found


def _refuse_misspelt(options: Mapping[str, Any]) -> None:
    """A name that is nearly that of an option; the server judges all others."""
    for name in sorted(options.keys() - OPTIONS):
        if near := difflib.get_close_matches(name, OPTIONS, 1):
            raise TypeError(f"{name}: there is no such option; did you mean {near[0]}?")


def merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Options of which the later ones count; variables and labels are added."""
    _refuse_misspelt(after)
    first, last = plain(before), plain(after)
    for name in ADDED:
        if name in first and name in last:
            last[name] = {**first[name], **last[name]}
    return {**first, **last}


def resources(asked: Mapping[str, Any]) -> dict[str, Any]:
    """``{"cpus": 2, "memory": "4g"}`` in the server's words."""
    request: dict[str, Any] = {}
    for name, value in asked.items():
        field = RESOURCES[name]
        in_text = field.endswith("_mb") and isinstance(value, str)
        request[field] = _mebibytes(name, value) if in_text else value
    return request


def _seconds(name: str, given: object) -> float:
    try:
        return parse_duration_s(str(given))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _mebibytes(name: str, given: str) -> int:
    try:
        refuse_bare_size(given)
        return parse_memory_mib(given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


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


def parents(jobs: Parents, home: str) -> list[dict[str, Any]]:
    """Jobs to wait for, each of which must complete."""
    # A text is one id, though it has letters to go through.
    several = hasattr(jobs, "__iter__") and not isinstance(jobs, str)
    listed: Any = jobs if several else [jobs]
    return [{"kind": "after-ok", "job": id_of(job, home)} for job in listed]


def changes(given: Mapping[str, Any], home: str) -> dict[str, Any]:
    """Options in the words of a request, and no more than those."""
    fields = plain(given)
    request: dict[str, Any] = {}
    asked = {name: fields.pop(name) for name in RESOURCES if name in fields}
    if asked:
        request["resources"] = resources(asked)
    if env := {**fields.pop("variables", {}), **fields.pop("env", {})}:
        request["variables"] = {name: str(value) for name, value in env.items()}
    if (limit := fields.pop("time_limit", None)) is not None:
        request["time_limit_s"] = _seconds("time_limit", limit)
    if entries := fields.get("depends_on"):
        fields["depends_on"] = in_numbers(entries, home)
    if (after := fields.pop("after_ok", None)) is not None:
        request["depends_on"] = [*fields.pop("depends_on", []), *parents(after, home)]
    return {**request, **fields}


def options(given: Mapping[str, Any], base: Mapping[str, Any], home: str) -> dict[str, Any]:
    """All fields of a request but its work: ours, then what the caller said.

    A name that is not an option here goes to the server, which refuses what it does not know.
    """
    asked = changes(given, home)
    asked["variables"] = {**base["variables"], **asked.get("variables", {})}
    asked["name"] = asked.get("name") or base["name"]
    return {**base, **asked}
