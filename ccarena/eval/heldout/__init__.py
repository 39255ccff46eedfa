"""How good a policy is on links that it was not trained on, beside heuristics: `ccarena eval`.

`outcome` is `ccarena.evaluate`. `links` makes the link sets. `evaluate` runs policies over them, as their records say,
and gives an `evaluation.Evaluation`. `oracle` is what a sender that learns of capacity one round trip late could reach.
`expectations` says what a policy is expected to do and gives the verdict. `summary` prints an evaluation in short,
`page` and `plots` make the HTML page, and `training_run` does all of this at the end of a training.
"""
