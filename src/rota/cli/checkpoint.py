"""``rota checkpoint``: a job, or its owner, says that its work is saved."""

from __future__ import annotations

import json
import os

import click

from rota.cli import session, types
from rota.cli.job_fields import local_time
from rota.cli.options import json_option


@click.command()
@click.argument("job", type=types.JobRef(), required=False)
@click.option("--data", multiple=True, metavar="NAME", help="These data are ready now. Repeatable.")
@json_option
def checkpoint(job: str | None, data: tuple[str, ...], as_json: bool) -> None:
    """Say that the work of a JOB is saved up to now. Inside a job: of this job.

    If it must give way, the jobs that lose the least unsaved work are chosen. Files belong in the
    folder ROTA_CHECKPOINT_DIR, which is the same for every try of a job:

    \b
      mkdir -p "$ROTA_CHECKPOINT_DIR"
      python train.py --save "$ROTA_CHECKPOINT_DIR/model.pt" && rota checkpoint

    With --data NAME, jobs that wait with --after-data JOB:NAME may start.
    """
    name = job or os.environ.get("ROTA_JOB_ID", "")
    if not name:
        raise click.UsageError("name a job; without one it is meant to be called inside a job")
    client = session.connect()
    body = {"data": list(data)} if data else {}
    answer = client.post(f"{session.job_path(client, name)}/checkpoint", body)
    if as_json:
        click.echo(json.dumps(answer))
    else:
        click.echo(f"{answer['id']}: saved as of {local_time(answer['saved_at'])}")
