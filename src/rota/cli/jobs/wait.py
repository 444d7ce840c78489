"""``rota wait``: until jobs have ended."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs.far import TOLD, tell_efficiency
from rota.cli.jobs.follow import MOST_IDS, POLL_S, patiently, wait_for
from rota.cli.shared import exits, session, types
from rota.cli.shared.job_fields import FINISHED
from rota.cli.shared.live_line import LiveLine
from rota.cli.shared.naming import Meant, jobs_named
from rota.cli.shared.options import json_option

if TYPE_CHECKING:
    from rota.client.http import Client

#: Asking after more arrays than this each second would be a burden.
_ARRAYS_SHOWN = 5


def progress_line(done: int, bad: int, total: int, waited_s: float) -> str:
    """``37/100 done, 2 failed (12 s)``."""
    trouble = f", {bad} failed" if bad else ""
    return f"{done}/{total} done{trouble} ({int(waited_s)} s)"


def end_line(job: dict[str, Any], name: str = "") -> str:
    """``12 failed (exit code 3)``; ``name`` is what it was asked for by, such as ``15_3``."""
    code = job.get("exit_code")
    return f"{name or job['id']} {job['state']}" + (f" (exit code {code})" if code else "")


class LongPolls:
    """Long polls until all jobs have ended or the time is up."""

    def __init__(self, client: Client, ids: list[int], *, live: bool) -> None:
        self.client = client
        self.pending = list(dict.fromkeys(ids))
        self.done: dict[int, dict[str, Any]] = {}
        self.live = live
        self.started_s = time.monotonic()
        self._line = LiveLine()
        #: Elements of the arrays among them: (all, ended, not well).
        self.elements: dict[int, tuple[int, int, int]] = {}

    def until(self, timeout_s: float | None) -> dict[str, Any]:
        poll_s = 1.0 if self.live else POLL_S
        while self.pending:
            left_s = poll_s
            if timeout_s is not None:
                left_s = min(poll_s, max(timeout_s - self._waited_s(), 0.0))
            self._poll(left_s)
            if timeout_s is not None and self._waited_s() >= timeout_s:
                break
        self._line.end()
        return {"done": list(self.done.values()), "pending": self.pending}

    def _waited_s(self) -> float:
        return time.monotonic() - self.started_s

    def _poll(self, wait_s: float) -> None:
        """All of them must end, so looking at the first few at a time is enough."""
        asked = self.pending[:MOST_IDS]
        answer = patiently(self.client, lambda: wait_for(self.client, asked, wait_s))
        self.done |= {job["id"]: job for job in answer["done"]}
        self.pending = [*answer["pending"], *self.pending[MOST_IDS:]]
        if self.live:
            self._show()

    def _show(self) -> None:
        for item in self.pending[:_ARRAYS_SHOWN]:
            if self.elements.get(item) != (0, 0, 0):
                job = self.client.get(f"/jobs/{item}")
                self.elements[item] = array_progress(job)
        arrays = [self.elements.get(item, (0, 0, 0)) for item in self.pending]
        bad = sum(job["state"] != "completed" for job in self.done.values())
        line = progress_line(
            len(self.done) + sum(ended for _, ended, _ in arrays),
            bad + sum(unwell for _, _, unwell in arrays),
            len(self.done) + sum(max(count, 1) for count, _, _ in arrays),
            self._waited_s(),
        )
        self._line.show(line)


def array_progress(job: dict[str, Any]) -> tuple[int, int, int]:
    """How many elements an array has, how many have ended and how many of those not well."""
    states: dict[str, int] = job.get("states") or {}
    if not job.get("count") or not states:
        return (0, 0, 0)
    ended = sum(count for state, count in states.items() if state in FINISHED)
    return (int(job["count"]), ended, ended - states.get("completed", 0))


def verdict(answer: dict[str, Any]) -> int:
    """0 if all completed, 1 if any did not, 124 if some have not ended."""
    if any(job["state"] != "completed" for job in answer["done"]):
        return exits.NEGATIVE
    return exits.TIMEOUT if answer["pending"] else exits.OK


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=types.JobRefs())
@click.option("--timeout", type=types.SHORT_DURATION, help="Give up after 90, 15m, 2h …")
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code tells.")
def wait(jobs: tuple[str, ...], timeout: float | None, as_json: bool, quiet: bool) -> int:
    """Wait until the JOBS have ended. An array stands for all its elements.

    Exits with 0 if all completed, 1 if any did not, 124 if the time was up first.
    """
    client = session.connect()
    named = jobs_named(client, jobs, Meant(ended=True))
    names = {session.id_of(client, one): str(one) for one in named}
    live = sys.stderr.isatty() and not quiet and not as_json
    answer = LongPolls(client, list(names), live=live).until(timeout)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    elif not quiet:
        for job in answer["done"]:
            click.echo(end_line(job, names.get(job["id"], "")))
        for job in answer["done"][:TOLD] if live else ():
            tell_efficiency(client, job["id"], names[job["id"]])
        for pending in answer["pending"]:
            click.echo(f"{names.get(pending, pending)} has not ended")
    return verdict(answer)
