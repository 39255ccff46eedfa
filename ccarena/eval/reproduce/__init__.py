"""Reproduction of the papers' figures and claims: `ccarena reproduce`.

A suite is one YAML file in `ccarena/eval/suites/PAPER/NAME.yaml` (docs/suites.md).

- `suite` loads it, and `runs` expands its sweep.
- `runner` runs what the journal lacks, and `measures` reduces each run to a row.
- `checks` judges the claims, and `figures` draws them.
- `tables` writes tables of claims and docs/reproduction.md.
"""
