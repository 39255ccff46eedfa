"""Leaderboard of schemes on cellular traces, with confidence: `ccarena leaderboard`.

A *cell* is one entrant on one link with one seed, alone or beside another (`cells`).

- `links` has the links, and `entrants` the schemes, policies and baselines.
- `run` lists the cells of a board, and has `measure` run those that the `store` lacks.
- `figures` defines what is stored of a run.
- `ranking` makes ranks from the store, with their confidence.
- `exchange` writes results as tables, and takes those of others.
- `site` makes the pages, with `plots`, and `serve` shows them over a store.
- `docs` writes the shipped leaderboard.
"""
