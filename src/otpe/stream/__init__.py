"""Learning from endless streams, one time step at a time.

learner.py       `otpe.StreamLearner`
inputs.py        checks of its input; steps that wait for their label
programs.py      the programs that it runs on the device
cell.py          its state on the device, replaced as a whole

time_steps.py    events to time steps, and what to do with unusable input
text_input.py    events from CSV and JSON lines; standard input
sources.py       where steps come from: recordings, text, Python
worlds.py        worlds that change

prequential.py   predict, then learn; accuracy along a stream

source_kinds.py  the kinds of sources, and the settings that they use
setup.py         checks of the settings of `otpe stream`, and its learner
session.py       `otpe stream` from its source to its result
stream_state.py  the state of a stream, in checkpoints and as metrics
page/            a page to watch in a browser
"""
