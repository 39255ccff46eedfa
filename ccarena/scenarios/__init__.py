"""Scenarios: their files, the entrants on their links, the backends that run them, and results.

`entrants` reads the text that every command, scenario file and Python function takes. `run` (`ccarena.run`,
`ccarena eval --scenario`) reads scenarios, gives them policies and seeds, and runs them in parallel; `results.Results`
is what it returns.
"""
