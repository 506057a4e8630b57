"""The paper, item by item: `otpe reproduce`. An item is a figure or a table.

items.py            the registry of items, one line each
plan.py             the runs that items need: how large they are, their names and settings, and their results
published.py        the numbers of the paper, and their comparison with ours
accuracy_tables.py  sections with accuracies
cosines.py          sections with gradient cosines
evidence.py         the numbers of sections, by quantity and rule, with their standard errors
claims.py           the registry of the paper's claims, each with its checks
verdicts.py         how a verdict follows from the checks of a claim
outcomes.py         what came out, in words
reproduce.py        the command: train the missing runs, write the sections, write the page
"""
