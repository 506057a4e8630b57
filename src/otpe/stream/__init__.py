"""Learning from endless streams, one time step at a time.

learner.py    `otpe.StreamLearner`
programs.py   what it runs on the device
late.py       steps that wait for their label
inputs.py     what comes from a stream, looked at first
described.py  networks and optimizers in words, for saved learners

steps.py      a time step, and what becomes of input that cannot be used
events.py     events to time steps
lines.py      events from CSV and JSON lines
sources.py    where steps come from: recordings, text, Python
worlds.py     worlds that change

score.py      accuracy along a stream
prequential.py  predict, then learn

command/      `otpe stream`
page/         a page to watch in a browser
"""
