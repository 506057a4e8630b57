"""`otpe bench`: time, peak memory and state bytes of every rule, and how they grow.

The manual is docs/how-to/measure-time-and-memory.md.

points.py        what is measured: points, their compiled programs, and the race between them
growth.py        exponents fitted to the points, and those of theory and of the paper's table
measurements.py  the results: the JSON file, which is complete after every heat, and the text table
figures.py       the figures, and the section of a report
bench.py         the command, and the study of the paper's table 1
"""
