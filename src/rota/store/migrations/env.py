"""What Alembic runs: the migrations, on the connection that ``upgrade`` hands over."""

from __future__ import annotations

from alembic import context

from rota.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # One transaction around everything: a step that fails leaves the database as it was.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
