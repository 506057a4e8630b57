"""Learning from endless streams, one time step at a time.

learner.py    `otpe.StreamLearner`
programs.py   what it runs on the device
inputs.py     what comes from a stream, looked at first
described.py  networks and optimizers in words, for saved learners
steps.py      a time step, and what becomes of input that cannot be used
events.py     events to time steps
lines.py      events from CSV and JSON lines
sources.py    where steps come from: recordings, text, Python
score.py      accuracy along a stream
prequential.py  predict, then learn
worlds.py     worlds that change     changes.py   in words

And `otpe stream`:

config.py     every setting; free of jax
asked.py      do they make sense, and which learner do they ask for?
opening.py    the source they name     standard.py   standard input, which can be interrupted
run.py        from the source to the learner and its score: metrics, checkpoints, a clean stop
saved.py      its checkpoints     display.py   what is shown meanwhile     section.py   what a report says
verbs.py      the command line
"""
