"""What agents are told after a commit: complete sets for those that came, changes for the others.

Made after the commit and not before: a tick that does not reach the disk has told nothing to
anybody, and used up no number of any session.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.controller.launches.launch import is_withheld, wanted
from rota.controller.launches.world import GangWorld, world_of
from rota.core.changes import events as ev
from rota.core.facts.states import Phase
from rota.rpc.messages import ControllerMessage, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rota.controller.agents.sessions import Session, Sessions
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt

log = logging.getLogger("rota.controller")


class News:
    """What one tick changed in the sets of the nodes."""

    def __init__(self) -> None:
        #: By node: the attempts that are wanted in another way than before, and those gone.
        self.fresh: dict[str, dict[str, None]] = {}
        self.gone: dict[str, list[str]] = {}
        #: Agents that came in this tick: they are told everything.
        self.greeted: list[Session] = []
        #: The newest event that is on disk by the time at which they are told.
        self.seq = 0
        #: Blobs that the tick stored.
        self.blobs: dict[str, bytes] = {}

    def freshen(self, node: str, uid: str) -> None:
        self.fresh.setdefault(node, {})[uid] = None


class Orders:
    """Knows what each agent has to be told."""

    def __init__(
        self,
        cluster: Cluster,
        sessions: Sessions,
        read_blob: Callable[[str], bytes | None],
        variables: Mapping[str, str] | None = None,
        open_sealed: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self._cluster = cluster
        self._sessions = sessions
        self._read_blob, self._open = read_blob, open_sealed
        #: What every job finds in its environment, such as where Rota is.
        self._variables = dict(variables or {})
        #: Placed attempts that wait for others to leave, and their nodes: no agent knows of them.
        self._withheld = {
            uid: node.name
            for node in cluster.nodes.values()
            for uid in node.withheld
            if is_withheld(cluster, uid)
        }
        #: The worlds of gangs, made once for all their tasks that are told of in one tick.
        self._worlds: dict[int, GangWorld] = {}
        #: Blobs that were asked for and are not at hand.
        self._missing: set[str] = set()
        self._fresh_blobs: dict[str, bytes] = {}
        #: Attempts whose launch cannot be made, and why: the next tick ends them.
        self.failed: dict[str, str] = {}

    def note(self, scribe: Scribe, news: News) -> None:
        """What the events of a tick mean for the agents."""
        cluster = self._cluster
        for record in scribe.recorded:
            event = record.event
            if isinstance(event, ev.AttemptPlaced) and event.after:
                self._withheld[event.uid] = event.allocation.node
            elif isinstance(event, ev.AttemptPlaced):
                news.freshen(event.allocation.node, event.uid)
            elif isinstance(event, ev.AttemptStopAsked) and event.uid in cluster.live.where:
                allocation = cluster.jobs[event.job].tasks[event.task].attempts[-1].allocation
                news.freshen(allocation.node, event.uid)
            elif isinstance(event, ev.JobSuspended | ev.JobResumed | ev.SaveAsked):
                for attempt in self._running_of(event.job):
                    news.freshen(attempt.allocation.node, attempt.uid)
            elif isinstance(event, ev.AttemptEnded):
                news.gone.setdefault(_node_of(cluster, event), []).append(event.uid)
        for attempt in self._resized(scribe):
            news.freshen(attempt.allocation.node, attempt.uid)
        for uid in self._let_in():
            news.freshen(self._withheld.pop(uid), uid)

    def _running_of(self, job_id: int) -> list[Attempt]:
        job = self._cluster.jobs.get(job_id)
        return job.live_attempts if job is not None else []

    def _resized(self, scribe: Scribe) -> list[Attempt]:
        """The members of gangs that somebody joined or left: they are told of it."""
        elastic = self._cluster.census.elastic
        if not elastic:
            return []
        moved = (ev.AttemptPlaced, ev.AttemptStopAsked)
        events = [record.event for record in scribe.recorded]
        jobs = dict.fromkeys(event.job for event in events if isinstance(event, moved))
        return [a for job in jobs if job in elastic for a in self._running_of(job)]

    def _let_in(self) -> list[str]:
        """Attempts that waited for others to leave, and those have gone."""
        nodes, live = self._cluster.nodes, self._cluster.live.where
        for uid in [uid for uid in self._withheld if uid not in live]:
            del self._withheld[uid]
        return [uid for uid, node in self._withheld.items() if uid not in nodes[node].withheld]

    def make(self, news: News, out: list[tuple[int, ControllerMessage]]) -> set[str]:
        """Tell each connected agent what changed in its set.

        Gives the digests of blobs that have to be at hand first: then nothing was told yet.
        """
        self._worlds.clear()
        self._missing = set()
        self._fresh_blobs = news.blobs
        came = [s for s in news.greeted if self._sessions.by_link.get(s.link) is s]
        full = [(session, self._all(self._due(session))) for session in came]
        changes = []
        for node in dict.fromkeys([*news.fresh, *news.gone]):
            told = self._sessions.by_node.get(node)
            if told is not None and told not in came:
                live = [
                    uid
                    for uid in news.fresh.get(node, ())
                    if uid in self._cluster.live.where and uid not in self._withheld
                ]
                changes.append((told, self._all(live), news.gone.get(node)))
        if self._missing:
            return self._missing
        for session, attempts in full:
            out.append((session.link, session.desired(attempts, full=True, seq=news.seq)))
        for session, attempts, gone in changes:
            out.append((session.link, session.desired(attempts, gone, seq=news.seq)))
        return set()

    def _due(self, session: Session) -> list[str]:
        """Everything that should live on the node, as of now."""
        live = self._cluster.nodes[session.node].live
        # An attempt that lends its CPUs stands still before another starts on them.
        lenders = [uid for uid in live if uid in self._cluster.live.loans]
        return [uid for uid in dict.fromkeys([*lenders, *live]) if uid not in self._withheld]

    def _all(self, uids: Iterable[str]) -> list[Wanted]:
        made = map(self._wanted, uids)
        return [one for one in made if one is not None]

    def _wanted(self, uid: str) -> Wanted | None:
        """None: its launch cannot be made, so that no agent may hear of it."""
        cluster = self._cluster
        job_id, task = cluster.live.where[uid]
        job = cluster.jobs[job_id]
        try:
            world = None
            if job.spec.task_count > 1:
                world = self._worlds.get(job_id) or world_of(cluster, job)
                self._worlds[job_id] = world
            return wanted(cluster, job, task, self._blob, self._variables, world, self._open)
        except Exception as error:
            log.exception("job %d: attempt %s cannot be described to its agent", job_id, uid)
            if job.tasks[task].attempts[-1].phase is Phase.RUNNING:
                return Wanted(uid=uid, started=True)
            self.failed[uid] = f"command or environment cannot be used: {error!r}"
            return None

    def _blob(self, digest: str) -> bytes:
        """A blob of this very tick may not be in the store yet."""
        if not digest:
            return b""
        body = self._fresh_blobs.get(digest)
        if body is None:
            body = self._read_blob(digest)
        if body is None:
            self._missing.add(digest)
        return body or b""


def _node_of(cluster: Cluster, event: ev.AttemptEnded) -> str:
    job = cluster.jobs.get(event.job) or cluster.dirty.jobs[event.job]
    for attempt in reversed(job.tasks[event.task].attempts):
        if attempt.uid == event.uid:
            return attempt.allocation.node
    raise AssertionError(f"attempt {event.uid} ended and is not on record")
