"""Certificates: properties of a policy over boxes of observations, proved or refuted by branch and bound."""
