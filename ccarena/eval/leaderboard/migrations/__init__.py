"""Schema of the store, version by version: Alembic's environment."""
