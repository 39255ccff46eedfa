"""Competition of schemes on one bottleneck: `ccarena compete`.

`lineup` and `bottlenecks` read the competitors and their links, `matches` runs them, `tables` and `plot` show the
outcome.
"""
