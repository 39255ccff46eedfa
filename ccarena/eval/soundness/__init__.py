"""Soundness of users' controllers: rules that hold on any link, tried on links that are hard."""
