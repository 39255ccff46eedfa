"""Evaluation of policies and heuristics on links that training did not draw: `ccarena eval`.

- `outcome` is `ccarena.evaluate`.
- `links` makes the link sets.
- `evaluate` runs policies over them, as their configurations say, and gives an `evaluation.Evaluation`.
- `oracle` is the reach of a sender that learns of capacity one round trip late.
- `expectations` compares a policy with its configuration's expectations and gives the verdict.
- `summary` prints an evaluation in short; `page` and `plots` make the HTML page.
- `training_run` does all of this at the end of a training.
"""
