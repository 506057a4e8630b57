"""The paper, item by item: what it reports, which runs that needs, and what ours show beside it.

numbers.py    what the paper and the authors' runs report
scale.py      how large everything is: as in the paper, or quick
plan.py       the runs, each named once however many items need it
items.py      the items, one per figure and table
offline.py cosines.py landscapes.py online.py digits.py    from finished runs to sections of the report
run.py        `otpe reproduce`: train what is missing, write the sections, write the report
"""
