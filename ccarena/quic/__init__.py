"""QUIC under our congestion controls: `ccarena-quic` from Python, see docs/quic.md.

`run` carries scenarios in real time over the emulated link; `command` is `ccarena quic`, a server and a client of data.
"""
