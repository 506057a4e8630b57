"""`otpe data`: fetch, verify, summarise and draw a dataset. docs/how-to/look-at-data.md is the manual.

config.py    what to look at; free of jax, so that `otpe data --help` answers at once
settings.py  do the settings make sense, and go with this dataset?
sources.py   the files: found, fetched, verified
reading.py   from the files, or from Randman, to events and counted frames
summary.py   the numbers      report.py   the text table      pictures.py   rasters and rates
run.py       the verb
"""
