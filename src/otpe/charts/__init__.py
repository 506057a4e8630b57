"""Pictures and tables: described as plain data, then drawn.

kinds.py    what a study shows, as data
look.py     what a rule is called, and its colour
figures.py  the numbers of a figure: one row each, as a table and under the pointer
panels.py   each kind of panel, drawn with matplotlib
svg.py      SVG as a page needs it
draw.py     figures as files and as parts of a page
"""
