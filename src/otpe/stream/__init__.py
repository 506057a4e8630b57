"""Learning from endless streams, one time step at a time.

learner.py         `otpe.StreamLearner`
cell.py            its state on the device, replaced as a whole
programs.py        the programs that run on the device
inputs.py          checks of its input; steps that wait for their label

time_steps.py      events to time steps, and what to do with unusable input
event_lines.py     events from CSV and JSON lines
standard_input.py  lines of standard input
sources.py         where steps come from: recordings, text, Python
worlds.py          worlds that change

prequential.py     predict, then learn; accuracy along a stream

setup.py              settings of `otpe stream`
session.py            `otpe stream` from its source to its result
stream_checkpoint.py  its checkpoints
stream_metrics.py     the numbers that it shows
page/                 a page to watch in a browser
"""
