"""The query behind a listing of jobs: always by id, always along an index.

A listing by state walks one short range of an index per state and merges them, because
``state IN (…) ORDER BY id`` would read and sort every job in those states.
"""

from __future__ import annotations

from typing import Any

from rota.core.facts.states import JobState
from rota.store.api import AuditFilter, JobFilter
from rota.store.statements import AUDIT_COLUMNS, JOB_BODY

ALL_STATES = tuple(JobState)


def listing(
    wanted: JobFilter, *, after: int, limit: int, newest_first: bool
) -> tuple[str, list[Any]]:
    """The statement that gives the bodies of the jobs, and its values."""
    order = "DESC" if newest_first else "ASC"
    common, values = _conditions(wanted)
    if after:
        common.append("id < ?" if newest_first else "id > ?")
        values.append(after)
    ranges = _ranges(wanted)
    if len(ranges) == 1:
        ((conditions, own),) = ranges
        where = _where(conditions + common)
        text = f"SELECT {JOB_BODY} FROM jobs{where} ORDER BY id {order} LIMIT ?"
        return text, [*own, *values, limit]
    parts: list[str] = []
    given: list[Any] = []
    for conditions, own in ranges:
        where = _where(conditions + common)
        ids = f"SELECT id FROM jobs{where} ORDER BY id {order} LIMIT ?"
        parts.append(f"SELECT id FROM ({ids}) AS r")
        given += [*own, *values, limit]
    merged = " UNION ALL ".join(parts)
    text = (
        f"SELECT {JOB_BODY} FROM jobs WHERE id IN"
        f" (SELECT id FROM ({merged}) AS m ORDER BY id {order} LIMIT ?) ORDER BY id {order}"
    )
    return text, [*given, limit]


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _ranges(wanted: JobFilter) -> list[tuple[list[str], list[Any]]]:
    """The ranges of one index that together hold every job that may match."""
    states = [state.value for state in wanted.states]
    if wanted.ids:
        marks = ", ".join("?" * len(wanted.ids))
        return _with_states([f"id IN ({marks})"], list(wanted.ids), states)
    if wanted.array:
        return _with_states(["array_id = ?"], [wanted.array], states)
    if wanted.user or wanted.project:
        column, value = ("user_id", wanted.user) if wanted.user else ("project", wanted.project)
        every = states or [state.value for state in ALL_STATES]
        return [([f"{column} = ?", "state = ?"], [value, state]) for state in every]
    return [(["state = ?"], [state]) for state in states] or [([], [])]


def _with_states(
    conditions: list[str], values: list[Any], states: list[str]
) -> list[tuple[list[str], list[Any]]]:
    """One range; the states only sieve what it gives."""
    if states:
        conditions = [*conditions, f"state IN ({', '.join('?' * len(states))})"]
    return [(conditions, [*values, *states])]


def _conditions(wanted: JobFilter) -> tuple[list[str], list[Any]]:
    """What sieves the rows of a range. Naming the range's own column again does no harm."""
    named = {
        "user_id": wanted.user,
        "project": wanted.project,
        "queue": wanted.queue,
        "job_name": wanted.name,
        "array_id": wanted.array,
    }
    given = {column: value for column, value in named.items() if value}
    conditions, values = [f"{column} = ?" for column in given], list(given.values())
    if wanted.priorities != JobFilter().priorities:
        conditions.append("priority BETWEEN ? AND ?")
        values += wanted.priorities
    if wanted.ended_since_s:
        conditions.append("(completed_at IS NULL OR completed_at >= ?)")
        values.append(wanted.ended_since_s)
    return conditions, values


def listing_audit(wanted: AuditFilter, before: int, limit: int) -> tuple[str, tuple[Any, ...]]:
    """The records of the audit that are wanted, the newest first."""
    tests: list[tuple[str, Any]] = [
        ("seq < ?", before),
        ("user_id = ?", wanted.user),
        ("action = ?", wanted.action),
        ("object = ?", wanted.object),
        ("at_s >= ?", wanted.since_s),
    ]
    asked = [(test, value) for test, value in tests if value]
    where = " AND ".join(test for test, _ in asked) or "1 = 1"
    columns = ", ".join((*AUDIT_COLUMNS, "seq"))
    text = f"SELECT {columns} FROM audit WHERE {where} ORDER BY seq DESC LIMIT ?"
    return text, (*(value for _, value in asked), limit)
