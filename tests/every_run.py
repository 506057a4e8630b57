"""Trains with every rule in each of its modes, in the given folder. Resumes where it was stopped.

python tests/every_run.py FOLDER [FIRST]     # start at the run with this number
"""

import sys
from dataclasses import replace
from pathlib import Path

from tiny_runs import TINY

import otpe

LONGER = replace(TINY, steps=600, eval_every=40, seeds=2, checkpoint_seconds=0.0, resume=True)


def configs(folder):
    for rule in otpe.rules():
        for mode in ("offline", "online")[: 1 + otpe.rule(rule).has_steps]:
            yield replace(LONGER, rule=rule, mode=mode, out=Path(folder) / f"{rule}-{mode}")


if __name__ == "__main__":
    folder, first = [*sys.argv[1:], "0"][:2]
    for config in [*configs(folder)][int(first) :]:
        otpe.train(config)
