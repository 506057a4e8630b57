"""Studies made of runs: `otpe align`, `otpe landscape` and `otpe sweep`. Each writes a section for `otpe report`.

study.py       what all studies do alike
align.py       cosines between the rules' gradients and BPTT's, along a training run by BPTT
landscapes.py  the loss around a training run, and the path of each rule
grid.py        the points of a sweep
sweep.py       the training of all points, the accuracies, their figures and tables
"""
