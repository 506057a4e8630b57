"""`otpe bench`: time, peak memory and state bytes of every rule, and how they grow.

The manual is docs/how-to/measure-time-and-memory.md.

config.py   what to measure; free of jax, so that `otpe bench --help` answers at once
plan.py     from the settings to the points; all input is checked here, before anything is computed
points.py   one point: a rule in one mode at one size, compiled, with its bytes
timing.py   a race: fair times of several programs
growth.py   exponents fitted to the points, and those of the paper's table
results.py  the JSON file, safe after every heat
report.py   the text table     plot.py   the figure
section.py  the same as a section of a report     remarks.py   what its numbers show, and what not
run.py      the verb
complexity.py   the paper's table 1, measured: a study on top of all this
"""
