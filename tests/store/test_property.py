"""Whatever is committed, the store in memory and SQLite give back the same."""

import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.facts.states import JobState
from rota.core.facts.tenant import Queue
from rota.store.api import Batch, JobFilter
from rota.store.memory import MemoryDisk, MemoryStore
from rota.store.open import open_store
from tests.store.builders import DAY_S, START_S, Log, array, job, node

#: In memory where the machine has such a folder: a sync then costs nothing.
FAST_FOLDER = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)
JOB_IDS = st.integers(1, 12)
STATES = st.sampled_from(list(JobState))

jobs = st.builds(
    lambda number, state, day: job(
        number,
        state,
        # What never changes about a job follows from its id.
        at_s=START_S - (number % 4) * DAY_S,
        ended_s=START_S + day * DAY_S / 4,
        key=f"k{number // 3}" if number % 2 else "",
        user="ann" if number % 3 else "bob",
        project="vision" if number % 2 else "",
    ),
    JOB_IDS,
    STATES,
    st.integers(-8, 8),
)
families = st.builds(
    lambda number, left: array(
        100 * number, 6, waiting_from=left, rows=(("x", "y"),) * 6, key=f"a{number}"
    ),
    st.integers(1, 3),
    st.integers(0, 6),
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"), st.lists(jobs, max_size=4), st.lists(families, max_size=2), JOB_IDS
        ),
        st.tuples(st.just("prune"), st.integers(-6, 6), st.sets(JOB_IDS, max_size=3)),
        st.tuples(st.just("remove"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("restart")),
    ),
    max_size=8,
)
filters = st.builds(
    JobFilter,
    states=st.lists(STATES, max_size=3, unique=True).map(tuple),
    user=st.sampled_from(["", "ann", "bob"]),
    project=st.sampled_from(["", "vision"]),
    ids=st.lists(JOB_IDS, max_size=3).map(tuple),
)


class Both:
    """The two stores, fed with the same."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "rota.db")
        self._disk = MemoryDisk(faulty=True)
        self._log = Log()
        self.restart()

    def restart(self) -> None:
        if hasattr(self, "sqlite"):
            self.sqlite.close()
        self.sqlite = open_store(self._path)
        self.memory = MemoryStore(self._disk)

    def commit(self, some_jobs, some_arrays, about) -> None:
        batch = self._log.submitted(*some_jobs)
        batch.arrays = some_arrays
        batch.events.append(self._log.eligible(about))
        batch.events.append(self._log.silent("a", at_s=START_S - about * DAY_S))
        batch.nodes = {"a": node("a"), "b": None}
        batch.queues = {f"q{about}": Queue("q")}
        batch.blobs = {f"d{about}": b"x" * about}
        for store in (self.sqlite, self.memory):
            store.commit(batch)

    def prune(self, day, keep) -> None:
        for store in (self.sqlite, self.memory):
            while store.prune(START_S + day * DAY_S / 4, limit=2, keep=keep):
                pass

    def remove(self, name) -> None:
        for store in (self.sqlite, self.memory):
            store.commit(Batch(nodes={name: None}))

    def agree(self, wanted: JobFilter) -> None:
        ours, theirs = self.sqlite.load(), self.memory.load()
        ours.cluster_id = theirs.cluster_id
        ours.outcomes.sort()
        assert msgspec.to_builtins(ours) == msgspec.to_builtins(theirs)
        assert list(self.sqlite.all_events()) == list(self.memory.all_events())
        assert self.sqlite.count_states() == self.memory.count_states()
        for newest_first in (False, True):
            options = {"limit": 3, "newest_first": newest_first}
            assert self.sqlite.list_jobs(wanted, **options) == self.memory.list_jobs(
                wanted, **options
            )


@settings(max_examples=100, deadline=None)
@given(steps, filters)
def test_any_sequence_of_commits_prunes_and_restarts_gives_the_same_in_both(story, wanted):
    with tempfile.TemporaryDirectory(dir=FAST_FOLDER) as folder:
        both = Both(Path(folder))

        for name, *given_ in story:
            getattr(both, name)(*given_)

        both.agree(wanted)
        both.restart()
        both.agree(wanted)
        both.sqlite.close()
