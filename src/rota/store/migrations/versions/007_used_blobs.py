"""When each environment, script and input was last used."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "007"
down_revision = "006"


def upgrade() -> None:
    op.add_column("blobs", sa.Column("used_s", sa.Double))
    # What is here may be used by anything that is here: as of now. What the store itself keeps
    # there (pages of outcomes, words for packing) has a name with a slash, and stays for ever.
    used = sa.text("UPDATE blobs SET used_s = :now WHERE digest NOT LIKE '%/%'")
    op.get_bind().execute(used, {"now": time.time()})
    present = sa.text("used_s IS NOT NULL")
    op.create_index(
        "blobs_used", "blobs", ["used_s"], sqlite_where=present, postgresql_where=present
    )


def downgrade() -> None:
    op.drop_index("blobs_used", "blobs")
    op.drop_column("blobs", "used_s")
