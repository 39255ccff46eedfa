"""Scores and pictures: figures from packet logs, held-out links, the verdict on a policy and its report.

`metrics` defines every figure, `links` the links; `evaluate` runs them, `expectations` judges, `report`
writes the page.
"""
