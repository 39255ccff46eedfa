"""Policies as an operator runs them, in the kernel or at a QUIC server: settings, records, report and metrics.

Commands are in `docs/operations.md`.
"""
