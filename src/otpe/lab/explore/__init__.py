"""`otpe data`: fetch, verify, summarise and draw a dataset. docs/how-to/look-at-data.md is the manual.

explore.py     the command
reading.py     from the settings to events and counted frames: files are found, fetched and verified, samples drawn
statistics.py  the numbers, as JSON and as a text table
pictures.py    rasters, rates, frames and maps of pixels
"""
