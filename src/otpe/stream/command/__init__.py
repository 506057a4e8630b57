"""`otpe stream`: from a source to the learner and its score, with all that a long run needs.

config.py     every setting; free of jax
asked.py      do they make sense, and which learner do they ask for?
opening.py    the source they name     standard.py  standard input, which can be interrupted
changes.py    changes of a world, in words
run.py        the run: metrics, checkpoints, a clean stop
saved.py      its checkpoints          display.py   what is shown meanwhile
section.py    what a report says       verbs.py     the command line
"""
