"""``rota new``: a script to start from."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from rota.client.errors import ClientError

#: A line with two # is a comment.
TEXT = """#!/bin/bash
#ROTA --name {name}
#ROTA --cpus 1
##ROTA --mem 4G
##ROTA --gpus 1
##ROTA --time 2h
##ROTA --output logs/%j.txt
##ROTA --retries 2

# Take one # away to use a line; 'rota submit --help' lists all options.
# --time: nothing runs longer, and short jobs start sooner. The folder of --output is made.
set -euo pipefail

echo "job $ROTA_JOB_ID on $(hostname)"
"""


@click.command()
@click.argument("file", default="job.sh", metavar="[FILE]", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a script to start from (job.sh); change it, then submit it.

    A FILE that is there already is left alone.
    """
    text = TEXT.format(name=shlex.quote(file.stem))
    try:
        with open(file, "x", encoding="utf-8", opener=_executable) as made:
            made.write(text)
    except OSError as error:
        raise ClientError(f"{file}: {(error.strerror or str(error)).lower()}") from None
    click.echo(f"wrote {file}; change it, then: rota submit {shlex.quote(str(file))}")


def _executable(path: str, flags: int) -> int:
    return os.open(path, flags, 0o777)
