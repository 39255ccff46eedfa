"""Theory of shares, without packets.

`fairness` computes the rates that a fairness objective asks for (HRF, max-min). `fluid` solves WCC's fluid models and
their fixed points, and `stability` says whether the fixed points are stable.
"""
