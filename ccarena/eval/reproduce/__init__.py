"""The papers' figures and claims, reproduced: `ccarena reproduce`.

A suite is one YAML file in `ccarena/eval/suites/PAPER/NAME.yaml` (docs/suites.md): `suite` loads it, `runs` expands
its sweep, `runner` runs what the journal lacks, `measures` reduces each run to a row, `claims` judges the rows,
`figures` draws them and `report` writes tables and docs/reproduction.md.
"""
