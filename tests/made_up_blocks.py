"""Blocks of a stream that was not run: random spikes, and predictions with a given accuracy."""

import numpy as np

from otpe.stream.learner import Learned
from otpe.stream.prequential import Block
from otpe.stream.time_steps import Step


def block(size, sizes=(6, 4, 3), first=0, right=0.5, labelled=1.0, rng=None):
    rng = np.random.default_rng(first) if rng is None else rng
    classes = sizes[-1]
    xs = (rng.random((size, sizes[0])) < 0.3) * rng.integers(1, 4, (size, sizes[0]))
    labels = np.where(rng.random(size) < labelled, rng.integers(0, classes, size), -1)
    predicted = np.where(rng.random(size) < right, labels, rng.integers(-1, classes, size))
    steps = [
        Step(x.astype(np.float32), int(y), float(first + i), (first + i) % 7 == 0)
        for i, (x, y) in enumerate(zip(xs, labels, strict=True))
    ]
    spikes = (rng.random((size, classes)) < 0.2).astype(np.float32)
    learned = Learned(np.zeros((size, classes)), np.zeros(size), rng.random((size, len(sizes) - 1)), spikes)
    return Block(steps, predicted, learned)


def feed(live, score, block_of_steps, seconds=0.001):
    """Pass a block to the score and the live page, as the loop of a stream does."""
    score.add_many(block_of_steps.predicted, np.array([step.label for step in block_of_steps.steps]))
    live(block_of_steps, score, seconds)
