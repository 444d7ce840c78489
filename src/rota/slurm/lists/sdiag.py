"""``sdiag``: how busy the controller is, in the lines that exporters read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.facts.states import ACTIVE, WAITING, JobState
from rota.slurm.call.command import Answer
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.later import later_statistics
from rota.slurm.formats.shown_document import shape_asked
from rota.slurm.words.amounts import Moments, zone_of

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.slurm.call.command import Call

OPTIONS = OptionTable(
    "a all: all figures, which is how it always is",
    "h help: this text",
    "i sort-by-id: no messages are counted by type",
    "json=?VERSION: a JSON document, with the keys of this version",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "r reset: taken; the figures stay those since the start",
    "t sort-by-time: no messages are counted by type",
    "T sort-by-time2: no messages are counted by type",
    "usage: the names of all options",
    "V version: the version of Slurm whose behaviour this is",
    "yaml=?VERSION: a YAML document",
)
STARS = "*" * 55


async def sdiag(call: Call) -> Answer:
    """Answer one call."""
    options, _ = read_words("sdiag", OPTIONS, call.request.argv)
    asked = dict(options)
    if told := about_itself("sdiag", OPTIONS, asked):
        return told
    view = SlurmView(call.context)
    require_cluster("sdiag", asked, view.cluster_name)
    shape = shape_asked("sdiag", asked, call.env)
    if shape is not None:
        of = shape.item(later_statistics)
        return await shape.answer("statistics", of(statistics(view, call.context.host)))
    moments = Moments(view.now_s, zone_of(call.env.get("TZ", "")))
    if "reset" in asked:
        # All figures are of since the start, and stay so.
        return Answer("Reset scheduling statistics\n")
    host = call.context.host
    cycle_us = int(1e6 * host.meters.commit_s / max(host.meters.ticks, 1))
    lines = [
        STARS,
        f"sdiag output at {_when(moments, view.now_s)}",
        f"Data since      {_when(moments, view.started_s)}",
        STARS,
        "Server thread count:  1",
        f"Agent queue size:     {host.waiting}",
        f"Agent count:          {len(view.cluster.nodes)}",
        "Agent thread count:   0",
        "DBD Agent queue size: 0",
        "",
        *_jobs(view, moments),
        "",
        "Main schedule statistics (microseconds):",
        f"\tLast cycle:   {cycle_us}",
        f"\tMax cycle:    {cycle_us}",
        f"\tTotal cycles: {host.meters.ticks}",
        f"\tMean cycle:   {cycle_us}",
        "\tMean depth cycle:  0",
        f"\tLast queue length: {_waiting(view)}",
        "",
        *_backfill(view),
    ]
    return Answer("".join(f"{line}\n" for line in lines))


def _when(moments: Moments, moment_s: float) -> str:
    return f"{moments.long_text(moment_s)} ({int(moment_s)})"


def _waiting(view: SlurmView) -> int:
    counts = view.cluster.count_states()
    return sum(counts[state] for state in WAITING)


def _jobs(view: SlurmView, moments: Moments) -> list[str]:
    counts = job_counts(view)
    return [
        f"Jobs submitted: {counts['jobs_submitted']}",
        f"Jobs started:   {counts['jobs_started']}",
        f"Jobs completed: {counts['jobs_completed']}",
        f"Jobs canceled:  {counts['jobs_canceled']}",
        f"Jobs failed:    {counts['jobs_failed']}",
        "",
        f"Job states ts:  {_when(moments, view.now_s)}",
        f"Jobs pending:   {counts['jobs_pending']}",
        f"Jobs running:   {counts['jobs_running']}",
    ]


def job_counts(view: SlurmView) -> dict[str, int]:
    """How many jobs came, ran and ended."""
    counts = view.cluster.count_states()
    failed = (JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAILED, JobState.UNSCHEDULABLE)
    ended = view.cluster.ids.ended.counts
    running = sum(counts[state] for state in ACTIVE)
    return {
        "jobs_submitted": sum(counts.values()),
        "jobs_started": running + sum(ended.values()),
        "jobs_completed": ended[JobState.COMPLETED],
        "jobs_canceled": ended[JobState.CANCELLED],
        "jobs_failed": sum(ended[state] for state in failed),
        "jobs_pending": _waiting(view),
        "jobs_running": running,
    }


def statistics(view: SlurmView, host: Host) -> dict[str, Any]:
    """The counters as a document; Rota counts no messages by their type."""
    return {
        "rpcs_by_message_type": [],
        "rpcs_by_user": [],
        "req_time": int(view.now_s),
        "req_time_start": int(view.started_s),
        "server_thread_count": 1,
        "agent_queue_size": host.waiting,
        **job_counts(view),
        "schedule_cycle_total": host.meters.ticks,
    }


def _backfill(view: SlurmView) -> list[str]:
    return [
        "Backfilling stats",
        "\tTotal backfilled jobs (since last slurm start): 0",
        "\tTotal backfilled jobs (since last stats cycle start): 0",
        "\tTotal backfilled heterogeneous job components: 0",
        "\tTotal cycles: 0",
        "\tLast cycle when: N/A",
        "\tLast cycle: 0",
        "\tMax cycle:  0",
        "\tLast depth cycle: 0",
        "\tLast depth cycle (try sched): 0",
        f"\tLast queue length: {_waiting(view)}",
        "\tLast table size: 0",
        "",
        "Latency for 1000 calls to gettimeofday(): 0 microseconds",
        "",
        "Remote Procedure Call statistics by message type",
        "",
        "Remote Procedure Call statistics by user",
        "",
        "Pending RPC statistics",
        "\tNo pending RPCs",
    ]
