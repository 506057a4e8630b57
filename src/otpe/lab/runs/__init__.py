"""Training: `otpe.train`, `otpe.compare`, and runs that can be stopped, killed and resumed.

The manual is docs/how-to/train-and-resume.md. The settings are in otpe.lab.settings.

check_settings.py   checks of the settings
custom.py           parts that a user gives in Python, in place of named ones
task.py             the data of a run, and whether the run fits into memory
build_network.py    the network of the settings
dataset_defaults.py the slope and the learning rate, where they are not given
start_settings.py   the time steps and units, where a run to start from has them
train.py            `otpe.train`: from the settings to a run
training_run.py     a run from its start to its end
loop.py             the programs on the device: a block of steps with its evaluations, a test
folder.py           the run folder
checkpoint.py       the state of a run in a file
results.py          the result of a run
saved_weights.py    finished runs, weights to begin with, weights during training
guards.py           numbers that are not finite, silent layers
commit.py           the commit of the source
compare.py          several runs side by side
evaluate.py         the answers of a finished run
"""
