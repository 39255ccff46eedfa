"""The store's schema, version by version: Alembic's environment."""
