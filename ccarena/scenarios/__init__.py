"""Entrants of a link: `entrants` reads the text that every command, scenario file and Python function takes."""
