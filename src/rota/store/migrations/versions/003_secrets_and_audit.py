"""Secrets of users, and the audit: who did what to which object."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "003"
down_revision = "002"

#: On SQLite only the exact type INTEGER makes a primary key the row id itself.
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXTS = ("user_id", "via", "address", "action", "object", "refused")


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("key", sa.Text(), primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("seq", _ID, primary_key=True, autoincrement=True),
        sa.Column("at_s", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in _TEXTS),
    )
    op.create_index("audit_object", "audit", ["object", "seq"])


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_table("secrets")
