"""``sdiag``: how busy the controller is, in the lines that exporters read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.states import ACTIVE, WAITING, JobState
from rota.slurm.call.command import Answer
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.words.amounts import Moments, zone_of

if TYPE_CHECKING:
    from rota.slurm.call.command import Call

OPTIONS = OptionTable(
    "a all: all figures, which is how it always is",
    "h help: this text",
    "i sort-by-id: no messages are counted by type",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "r reset: begin to count anew",
    "t sort-by-time: no messages are counted by type",
    "T sort-by-time2: no messages are counted by type",
    "usage: the names of all options",
    "V version: the version of Slurm whose behaviour this is",
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
    moments = Moments(view.now_s, zone_of(call.env.get("TZ", "")))
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
    counts = view.cluster.count_states()
    failed = (JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAILED, JobState.UNSCHEDULABLE)
    ended = view.cluster.ids.ended.counts
    running = sum(counts[state] for state in ACTIVE)
    return [
        f"Jobs submitted: {sum(counts.values())}",
        f"Jobs started:   {running + sum(ended.values())}",
        f"Jobs completed: {ended[JobState.COMPLETED]}",
        f"Jobs canceled:  {ended[JobState.CANCELLED]}",
        f"Jobs failed:    {sum(ended[state] for state in failed)}",
        "",
        f"Job states ts:  {_when(moments, view.now_s)}",
        f"Jobs pending:   {_waiting(view)}",
        f"Jobs running:   {running}",
    ]


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
