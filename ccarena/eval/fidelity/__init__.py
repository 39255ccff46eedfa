"""Fidelity of the simulator to kernel TCP: `ccarena fidelity`.

`recorded` compares it with the recorded runs that `cases` reads; `live` runs scenarios on this machine's kernel now.
"""
