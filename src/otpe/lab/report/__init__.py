"""`otpe report`: one page from run folders.

content.py    figures, tables and sections as plain data, and section.json
panels.py     the kinds of panel: their data, numbers, tooltips and drawing
palette.py    every colour, and the names of the rules
drawing.py    figures as SVG, PNG and CSV
cells.py      the cells of tables, the best in bold
legend.py     the keys of a legend on the page
words.py      means, and numbers as text
sections.py   the section of a run and of a stream
finder.py     the runs and studies in a folder, and their states
documents.py  HTML from templates, and its security policy
page.py       the page, `report`, and the verb
templates/    the markup, style and script of the page; the theme is also the live page's
"""
