"""Alembic's entry point: runs migrations on the caller's connection, in the caller's transaction."""

from alembic import context

from treadle_server.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=False)
context.run_migrations()
