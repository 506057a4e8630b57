"""Several runs, or one looked at closely: `otpe align`, `otpe landscape`, `otpe sweep`. Each writes a section for
reports.

config.py     every setting; free of jax
align.py      how rules' gradients lie to BPTT's along its training
landscape.py  the loss around a training run     planes.py   where each rule went
grid.py       the points of a sweep, and what they are called
sweep.py      the sweep from start to end     results.py   what comes out     maps.py   its pictures and tables
spread.py     mean and σ of what there is
about.py      what a report says about where numbers come from
verbs.py      the command line
"""
