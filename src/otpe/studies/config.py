"""What a study is asked to do. Imports no jax: these fields are the command line, its help and its reference."""

from dataclasses import dataclass

from otpe.runs.config import Settings, SeveralRules


@dataclass(frozen=True, kw_only=True)
class AlignConfig(Settings):
    """Train by BPTT, and compare the gradients of other rules with BPTT's on the way, at every evaluation.

    The gradients are those at BPTT's own parameters, on the mini-batch that comes next: cosine and ratio of norms, per
    layer and over the whole model. The run folder is that of `otpe train --rule bptt --align ...`.
    """

    rules: tuple[str, ...] = ("otpe", "approx-otpe", "ostl", "ottt", "deep-otpe", "approx-deep-otpe")
    """Whose gradients: names from otpe.rules()."""


@dataclass(frozen=True, kw_only=True)
class LandscapeConfig(Settings):
    """Train by several rules, and look at the loss over the plane through BPTT's initial and final model.

    Every rule's way through training is projected into that plane, with the share of it that lies there. Each rule is
    a run of its own in a folder below, offline, as `otpe compare` makes it; --resume with another --grid computes the
    plane anew and trains nothing again.
    """

    rules: tuple[str, ...] = ("bptt", "otpe", "approx-otpe", "ostl", "ottt")
    """Names from otpe.rules(), or "all". bptt, whose plane it is, is trained in any case."""
    grid: int = 41
    """Points of the plane in each direction."""
    loss_samples: int = 1024
    """Samples of validation that the loss over the plane is taken over, at most."""
    snapshots: int = 200
    """Keep the weights of every so many mini-batches: the points of each rule's way."""


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Settings, SeveralRules):
    """Train by several rules at every point of a grid over any settings, and draw maps and curves of the accuracy.

    Each point is a run of its own in a folder below, as `otpe train` makes it. Ctrl-C saves and stops; with --resume
    and --out FOLDER it goes on, and what is finished is not run again, even in a larger grid. Rules that cannot learn
    online are left out there.
    """

    over: tuple[str, ...] = ()
    """Settings and their values, such as slope=5,10,25 learning_rate=1e-3,4e-4. Also width, of all hidden layers, and
    depth, the number of layers with weights; layers of a hidden network are joined by x: hidden=128x128,64."""
