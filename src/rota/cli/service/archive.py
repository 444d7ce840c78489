"""``rota archive``: finished jobs and the log in compressed columnar files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from rota import config
from rota.cli.service.backup import (
    database_option,
    own_database,
    state_dir_option,
    state_folder,
    without_password,
)
from rota.cli.shared import types


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--older",
    type=types.DURATION,
    default="90d",
    help="Jobs that ended longer ago than this.  [default: 90d]",
)
@state_dir_option
@database_option
def archive(folder: Path, older: int, state_dir: str, database: str) -> None:
    """Add finished jobs and the log to FOLDER, in Parquet files; nothing is removed.

    What is in FOLDER already is not written again, and Rota may run meanwhile. 'rota stats
    --archive', 'rota sim --history' and 'rota replay' read it. With 'archive' in the section
    [retention] of the settings it is done before jobs are forgotten.
    """
    from rota.store.archive.writing import write
    from rota.store.readonly import open_readonly

    place = state_folder(state_dir)
    url = database or config.load(os.environ).server.database or own_database(place)
    store = open_readonly(url)
    try:
        written = write(store, folder, time.time() - older)
    finally:
        store.close()
    click.echo(
        f"added {written.jobs} jobs, {written.arrays} arrays and {written.events} events to"
        f" {folder}, from {without_password(url)}"
    )
