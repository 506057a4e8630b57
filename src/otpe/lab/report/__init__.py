"""`otpe report`: one page from run folders.

config.py    the settings of the verb
find.py      which runs there are, and in which state
words.py     numbers as they are read
parts.py     figures, tables and the paper's numbers as HTML
page.py      sections and the whole page; page.html, page.css and page.js are what surrounds them
run.py       `report`, and the verb
"""
