"""Trajectories of flows in the terms of a spec: collected from any schemes, stored, and read for learning."""

from ccarena.data.dataset import Dataset, Trajectories, transitions

__all__ = ["Dataset", "Trajectories", "transitions"]
