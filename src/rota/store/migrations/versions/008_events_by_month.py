"""PostgreSQL: the log in partitions by month. What is there becomes the first of them, as it is."""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from alembic import op

from rota.store.forget.months import month_of

revision = "008"
down_revision = "007"

#: Each index with the condition on the job of its events.
_INDEXES = (
    ("events_job", ["job_id", "seq"], "job_id IS NOT NULL"),
    ("events_kind", ["kind", "seq"], "job_id IS NULL"),
)


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    newest_s = op.get_bind().scalar(sa.text("SELECT max(at_s) FROM events"))
    if newest_s is None:
        op.drop_table("events")
        _make(postgresql_partition_by="RANGE (at_s)")
        return
    name, end_s = month_of(max(newest_s, time.time()))
    op.rename_table("events", name)
    for part in ("pkey", "job", "kind"):
        op.execute(f"ALTER INDEX events_{part} RENAME TO {name}_{part}")
    _make(postgresql_partition_by="RANGE (at_s)")
    op.execute(
        f"ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM (MINVALUE) TO ({end_s!r})"
    )


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.rename_table("events", "events_by_month")
    for name, _, _ in _INDEXES:
        op.execute(f"DROP INDEX {name}")
    _make(sa.PrimaryKeyConstraint("seq", name="events_pkey"))
    op.execute("INSERT INTO events SELECT * FROM events_by_month")
    op.drop_table("events_by_month")


def _make(*more: sa.PrimaryKeyConstraint, **options: Any) -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("job_id", sa.BigInteger),
        sa.Column("body", sa.LargeBinary, nullable=False),
        *more,
        **options,
    )
    for name, columns, condition in _INDEXES:
        op.create_index(name, "events", columns, postgresql_where=sa.text(condition))
