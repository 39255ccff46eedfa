"""What theory says about shares, without packets.

`fairness` computes the rates that a fairness objective asks for (HRF, max-min), `fluid` WCC's fluid models and their
fixed points, `stability` whether those are stable.
"""
