"""Any scenarios, run over seeds: `ccarena.run` and `ccarena eval --scenario`.

`run` reads scenarios, gives them policies and seeds and runs them in parallel; `results.Results` is what comes back,
as tables that `tables` computes, a plot, files and a page; `command` is the command line's part.
"""
