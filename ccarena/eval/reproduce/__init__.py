"""The papers' figures and claims, reproduced: `ccarena reproduce`.

A suite is one YAML file in `ccarena/eval/suites/PAPER/NAME.yaml` (docs/suites.md): `suite` loads it, `runs` expands
its sweep, `runner` runs what the journal lacks, `measures` reduces each run to a row, `checks` judges the claims,
`figures` draws them and `tables` writes tables of claims and docs/reproduction.md.
"""
