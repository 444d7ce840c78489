"""A job in a container: the argument list for podman or apptainer. Nothing goes through a shell.

The engine runs with the rights of the job's user, as any other command of a job does. The container
shares the process table of the node, so that signals and the accounting reach what is inside.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.rpc.messages import Launch

#: In this order: podman runs images of registries without a conversion.
ENGINES = ("podman", "apptainer")
#: The label by which a node says which of them it has.
LABEL = "containers"


class CannotContain(Exception):
    """The image cannot be run here; the text says why."""


def engines(path: str | None = None) -> list[str]:
    """Those that are installed."""
    return [name for name in ENGINES if shutil.which(name, path=path)]


def contain(
    launch: Launch,
    argv: tuple[str, ...],
    workdir: str,
    mounts: Iterable[str],
    *,
    bounded: bool = False,
) -> EngineCommand:
    """What starts ``argv`` in the image of the launch.

    ``bounded``: the attempt has a cgroup with a memory limit. The engine puts the container into
    one of its own, which gets the same limit.
    """
    found = engines()
    if not found:
        raise CannotContain(
            f"image {launch.image}: this node has neither podman nor apptainer; install one, or "
            f"choose a node with the label {LABEL}"
        )
    folders = [path for path in dict.fromkeys((workdir, *mounts)) if path != "/"]
    if odd := [path for path in folders if ":" in path or "," in path]:
        raise CannotContain(f"image {launch.image}: {odd[0]!r} has a colon or comma in its path")
    if found[0] == "podman":
        memory = launch.memory_mib if bounded else 0
        return _podman(launch, argv, workdir, folders, memory)
    return _apptainer(launch, argv, workdir, folders)


class EngineCommand:
    """An argument list, and the environment of the engine itself."""

    def __init__(self, argv: tuple[str, ...], environment: dict[str, str]) -> None:
        self.argv = argv
        self.environment = environment


def _podman(
    launch: Launch, argv: tuple[str, ...], workdir: str, folders: list[str], memory_mib: int
) -> EngineCommand:
    words = ["podman", "run", "--rm", "--name", f"rota-{launch.uid}", "--replace"]
    words += ["--network=host", "--pid=host", "--ipc=host"]
    words += ["--security-opt=label=disable", f"--workdir={workdir}", "--entrypoint="]
    if memory_mib:
        words.append(f"--memory={memory_mib}m")
    if launch.user not in ("", "root"):
        # Files that it writes belong to the user outside, too.
        words.append("--userns=keep-id")
    if launch.stdin:
        words.append("--interactive")
    if launch.terminal:
        words += ["--interactive", "--tty"]
    words += [f"--ulimit={name}={value}" for name, value in launch.ulimits.items()]
    words += [f"--volume={folder}:{folder}" for folder in folders]
    words += [f"--device=nvidia.com/gpu={device}" for device in launch.devices]
    # By name alone: values stay in the environment, where other users cannot read them.
    words += [f"--env={name}" for name in launch.inside]
    return EngineCommand((*words, launch.image, *argv), launch.environment)


def _apptainer(
    launch: Launch, argv: tuple[str, ...], workdir: str, folders: list[str]
) -> EngineCommand:
    words = ["apptainer", "exec", "--cleanenv", "--no-home", f"--pwd={workdir}"]
    words += [f"--bind={folder}:{folder}" for folder in folders]
    if launch.devices:
        words.append("--nv")
    image = launch.image
    if "://" not in image and not os.path.isabs(image):
        image = f"docker://{image}"
    given = {
        f"APPTAINERENV_{name}": launch.environment[name]
        for name in launch.inside
        if name in launch.environment
    }
    return EngineCommand((*words, image, *argv), {**launch.environment, **given})
