"""Training: `otpe.train`, `otpe.compare`, and runs that can be stopped, killed and resumed.

The manual is docs/how-to/train-and-resume.md.

config.py      every setting; free of jax, so that `otpe train --help` answers at once
settings.py    do they make sense together?
own.py         what a user hands over in Python, in place of what a setting names
starts.py      weights to begin with     growth.py   a run that goes on with more steps
task.py        datasets by name: what is learned from, validated and tested on
loop.py        the programs that run on the device: a block of steps with its evaluations, a test
pace.py        how many steps to hand to the device at a time
folder.py      the run folder: what was asked for, what was measured, what came out     read.py   reads it again
commit.py      which commit otpe's source is, for the folder
checkpoint.py  the state of a run in a file, and back
guards.py      numbers that are not finite, layers that are silent
signals.py     Ctrl-C and SIGTERM: finish the block, save, leave
progress.py    the bar     board.py   TensorBoard
train.py       settings are checked, the folder is opened     run.py   the run from there to its end
compare.py     several runs, side by side     section.py   what a report says of them, and of one
verbs.py       the command line
"""
