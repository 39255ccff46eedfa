"""Benchmarks of the repository: `python -m bench` measures and merges the figures into docs/measurements.json.

They stand outside the package because no user of it needs them.
"""
