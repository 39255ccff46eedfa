"""Parity of a policy's runtimes, `ccarena parity`, and the cost of its integer form."""
