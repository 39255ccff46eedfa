"""Bridge to Linux TCP: ccarena's congestion controls on real sockets, through BPF, on a stock kernel.

`run` runs scenarios in real time over the emulated link, and `bridge` attaches congestion controls for every socket of
the running system. Both use the executable `ccarena-kernel`, see docs/kernel.md.
"""
