"""The bridge to Linux TCP: our congestion controls on real sockets, through BPF, on a stock kernel.

`run` carries scenarios in real time over the emulated link, and `bridge` attaches congestion controls to the running
system for everybody's sockets. Both talk to the executable `ccarena-kernel`, see docs/kernel.md.
"""
