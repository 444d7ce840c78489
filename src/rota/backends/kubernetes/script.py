"""What runs inside a pod: folder, umask and output as asked, then the command, nothing between.

The environment is exactly the job's. What the image, the node and Kubernetes add is left behind,
except for the devices that they have chosen.
"""

from __future__ import annotations

from posixpath import dirname
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.rpc.messages import Launch

#: Where the secret is mounted when it has files.
FOLDER = "/rota"
#: Which devices a pod has is said by its node.
_THEIRS = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def shell_text(launch: Launch, gpus: int = 0) -> str:
    """For a POSIX shell. Its last line becomes the job: signals and the exit code are the job's.

    With arguments it becomes them instead: a program beside the job, with what the job has.
    """
    argv = list(launch.argv)
    if launch.script:
        argv.insert(0, f"{FOLDER}/script")
    workdir = quote(launch.workdir)
    exported = [quote(f"{name}={value}") for name, value in launch.environment.items()]
    # Unquoted on purpose: a variable that is not set adds no word.
    passed = [f'${{{name}+"{name}=${name}"}}' for name in _THEIRS if gpus]
    output = _redirection(launch)
    return "\n".join(
        [
            f"cd {workdir} 2>/dev/null || {{",
            f"echo rota: there is no working folder {workdir} >&2; exit 126; }}",
            f"umask {launch.umask:04o}",
            "if [ $# = 0 ]; then",
            *output[:-1],
            " ".join(["set --", *map(quote, argv)]),
            f"exec {output[-1]}".rstrip(),
            "fi",
            " ".join(["exec env -i", *passed, *exported, '"$@"']),
            "",
        ]
    )


def _redirection(launch: Launch) -> list[str]:
    """Folders to be made, and the words that end the last line."""
    words = [f"<{FOLDER}/stdin"] if launch.stdin else []
    arrow = ">" if launch.outputs == "truncate" else ">>"
    made = []
    for number, path in (("1", launch.stdout), ("2", launch.stderr)):
        if path:
            made.append(f"mkdir -p {quote(dirname(path))} || exit 126")
            same = number == "2" and path == launch.stdout
            words.append("2>&1" if same else f"{number}{arrow}{quote(path)}")
    if launch.stdout and not launch.stderr:
        words.append("2>&1")
    return [*(made if launch.outputs else []), " ".join(words)]
