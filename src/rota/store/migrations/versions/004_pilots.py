"""Pilots: how allocations of engines are asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "004"
down_revision = "003"


def upgrade() -> None:
    op.create_table(
        "pilots",
        sa.Column("key", sa.Text(), primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("pilots")
