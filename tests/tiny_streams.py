"""A learner and a stream so small that compiling takes longer than streaming."""

import os
import signal

import numpy as np
import optax

import otpe
from otpe import tensors
from otpe.lab.runs import checkpoint
from otpe.lab.settings import StreamConfig
from otpe.stream.learner import KIND
from otpe.stream.sources import lines
from otpe.stream.time_steps import Binner

UNITS, CLASSES = 12, 4
SHAPE = ["--units", str(UNITS), "--classes", str(CLASSES)]
NET = [
    "--hidden",
    "6",
    "--threshold",
    "0.3",
    "--learning-rate",
    "0.03",
    "--block",
    "4",
]  # one program for every block size
SMALL = {"units": UNITS, "classes": CLASSES, "hidden": (6,), "threshold": 0.3, "learning_rate": 0.03, "block": 4}


def config(source, out, **change):
    """The same settings in Python."""
    return StreamConfig(**{**SMALL, "source": str(source), "out": out, **change})


def events(count=240, first=0.0):
    """Lines of a sensor. Each class has another third of the units active. At intervals, a new sequence starts."""
    rng = np.random.default_rng(0)
    for i in range(count):
        label = i // 40 % 3
        if i and i % 80 == 0:
            yield "reset\n"
        yield f"{first + 0.004 * i:.3f},{4 * label + rng.integers(4)},{label}\n"


def steps(path):
    """Return the steps of such a file."""
    return Binner(UNITS, 0.01, classes=CLASSES).steps(lines(path.read_text().splitlines()))


def learner(**more):
    net = otpe.dense([UNITS, 6, CLASSES], leak=StreamConfig.leak, threshold=0.3, surrogate=otpe.fast_sigmoid(10.0))
    return otpe.StreamLearner(net, "otpe", optax.adam(0.03), **more)


def known(out):
    """Return the content of the newest checkpoint, without run times."""
    arrays, about = tensors.read(checkpoint.newest(out / "checkpoints"), KIND)
    about["stream"]["place"].pop("seconds")
    about["stream"].pop("identity")
    return {name: array.tobytes() for name, array in arrays.items()}, about


def made_up_randman(encoding, **settings):
    """Replaces randman, whose manifolds take seconds to make."""
    rng = np.random.default_rng((settings["seed"], len(encoding)))
    shape = settings["steps"], 80, settings["units"]
    return otpe.datasets.from_arrays(rng.random(shape) < 0.2, rng.integers(settings["classes"], size=80))


class Pressed:
    """A watcher that presses Ctrl-C after a number of blocks."""

    def __init__(self, blocks):
        self.left = blocks

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
