"""Who is best on cellular traces, and how sure are we: `ccarena leaderboard`.

`links` says where schemes are measured and `entrants` who is: schemes, policies and baselines. A *cell* is one of them
on one link with one seed, alone or beside another (`cells`). `run` lists the cells of a board, and has `measure` run
those that the `store` lacks. `figures` defines what is stored of a run. `ranking` makes ranks of what is stored, with
how sure they are. `exchange` writes results as tables, and takes those of others. `site` makes the pages, with `plots`,
and `serve` shows them over a store. `docs` writes the leaderboard that is shipped.
"""
