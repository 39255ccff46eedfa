"""What schemes take from each other on one bottleneck: `ccarena compete`.

`lineup` and `bottlenecks` read who competes and on what, `matches` runs them, `tables` and `plot` show the outcome.
"""
