"""Run folders: their files and locks, here or on an object store."""
