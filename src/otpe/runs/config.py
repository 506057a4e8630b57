"""What a run is asked to do. Imports no jax: these fields are the command line, its help and its reference."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Mode = Literal["offline", "online"]
PAPER_LEAK = 0.9525741268224334


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `otpe train` and `otpe compare` have in common."""

    # How long, and how often
    steps: int = 2000
    """Mini-batches to learn from."""
    batch: int = 128
    """Samples in a mini-batch."""
    seeds: int = 1
    """Networks trained side by side, each with initial weights and mini-batches of its own."""
    seed: int = 0
    """The seed of the first network; the others count on from it."""
    every: int = 1
    """Mode online: update after this many time steps."""

    # The data
    dataset: str = "t-randman"
    """t-randman, r-randman, moving-shapes, shd, ssc, or folder: any folder of .h5 files in SHD's layout."""
    manifolds: int = 0
    """Which manifolds, by number (t-randman, r-randman)."""
    draws: int = 1
    """Number of manifold draws. Networks are divided evenly among them (t-randman, r-randman)."""
    standardize: Literal["batch", "fixed"] = "batch"
    """Values by the extremes of each mini-batch, as the authors do, or by fixed ones (t-randman, r-randman)."""
    classes: int = 10
    """How many manifolds (t-randman, r-randman)."""
    dims: int = 3
    """Dimensions of a manifold (t-randman, r-randman)."""
    alpha: float = 1.0
    """Smoothness of the manifolds (t-randman, r-randman)."""
    time_steps: int = 50
    """Time steps of a sample (t-randman, r-randman, moving-shapes)."""
    label: Literal["direction", "shape"] = "direction"
    """What the label says: in which direction a shape moves, or which shape it is (moving-shapes)."""
    size: int = 34
    """Height and width of the grid, in pixels (moving-shapes)."""
    noise: float = 0.001
    """The probability of a background event in each pixel, channel and time step (moving-shapes)."""
    root: Path | None = None
    """The folder of the recordings, by default data/NAME (shd, ssc, folder)."""
    units: int | None = None
    """Inputs: 50, where not given (t-randman, r-randman); how many the recordings have (folder)."""
    shape: tuple[int, ...] = ()
    """The shape of the units, instead of their number, such as 2 34 34: channels, height, width (folder)."""
    bins: int | None = None
    """Time steps over each recording's own duration: 50, where dt is not given either (shd, ssc, folder)."""
    dt: float | None = None
    """Seconds of a time step, instead of bins (shd, ssc, folder)."""
    max_steps: int | None = None
    """With dt: time steps at most; later spikes are left out (shd, ssc, folder)."""
    binary: bool = False
    """1 for any number of spikes in a time step, instead of their number (shd, ssc, folder)."""
    pool: int = 1
    """As many neighbouring units become one; with a shape, squares of as many by as many (shd, ssc, folder)."""
    validation: Literal["first", "stratified"] = "first"
    """Held out of the training file: its first tenth, as in the paper, or a tenth of every class (shd, folder)."""

    # The network
    conv: tuple[int, ...] = ()
    """Channels of each convolutional layer, which come before the hidden layers. For data on a grid."""
    conv_kernel: int = 3
    """Height and width of the kernels. Zeros are added around the grid, so that its size stays the same."""
    conv_stride: int = 1
    """Pixels from one position of a kernel to the next."""
    conv_pool: int = 1
    """Average the output of each convolutional layer over squares of this size."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each hidden layer; none for a network of one layer."""
    neuron: Literal["lif", "cuba", "adaptive"] = "lif"
    """lif: one state; cuba: with a synaptic current; adaptive: every spike raises the threshold for a while."""
    leak: float = PAPER_LEAK
    """λ, the share of the membrane that is left after one step."""
    leak_to: float | None = None
    """Give every neuron its own leak, drawn evenly between leak and this number."""
    current_leak: float = 0.8
    """The share of the synaptic current that is left after one step (cuba)."""
    adaptation_leak: float = 0.97
    """The share of the raised threshold that is left after one step (adaptive)."""
    adaptation_strength: float = 1.0
    """How far spikes raise the threshold (adaptive)."""
    learn_leak: Literal["no", "layer", "neuron"] = "no"
    """Train the leak: one number per layer, or one per neuron."""
    learn_current_leak: Literal["no", "layer", "neuron"] = "no"
    """The same for current_leak (cuba)."""
    learn_adaptation_leak: Literal["no", "layer", "neuron"] = "no"
    """The same for adaptation_leak (adaptive)."""
    readout: Literal["spiking", "integrator"] = "spiking"
    """Output neurons: of the same kind as the hidden ones, or leaky integrators, whose output is their membrane."""
    threshold: float = 1.0
    """Where a neuron spikes."""
    reset: Literal["subtract", "zero", "none"] = "subtract"
    """What a spike does to the membrane."""
    surrogate: str = "fast-sigmoid"
    """fast-sigmoid, superspike, arctan, triangular or gaussian: the derivative that stands in for the spike's."""
    slope: float | None = None
    """Of the surrogate; the width of triangular and gaussian. By default each one's own, 25 for fast-sigmoid."""

    start: Path | None = None
    """Begin with the best weights of this run of otpe train, or with those of this file of otpe.save."""

    # The loss
    loss: str = "rule"
    """spikes: cross-entropy of the output spikes; leaky: of their leaky sum; membrane: of the membranes of an
    integrator; mse: squared error; rule: leaky for the F- rules, spikes for all others."""
    rate: float = 0.0
    """The share of the neurons of a hidden layer that should spike at each time step. Needs rate_weight."""
    rate_weight: float = 0.0
    """Adds this number times (rate − share that spiked)² of every hidden layer to the loss of a time step."""

    # The optimizer
    optimizer: str = "adamax"
    """adamax, adam, adamw, sgd, rmsprop, nadam, nadamw, radam, adabelief, adagrad, lamb or lion."""
    learning_rate: float = 1e-3
    """Of the optimizer; where schedules start from."""
    schedule: Literal["constant", "linear", "cosine", "exponential"] = "constant"
    """How the learning rate falls from mini-batch to mini-batch, down to final_rate at the last."""
    final_rate: float = 0.01
    """At the end of a schedule, as a share of learning_rate. Not for constant."""
    warmup: int = 0
    """Mini-batches over which the learning rate rises from 0 first."""
    momentum: float | None = None
    """For sgd and rmsprop."""
    weight_decay: float | None = None
    """For adamw, nadamw, lamb and lion. By default each one's own."""
    clip: float | None = None
    """Scale gradients down to this norm, all layers together, where they are larger."""

    # Evaluation
    eval_every: int = 100
    """Validate after this many mini-batches, and at the end."""
    valid_samples: int = 1024
    """Samples drawn for validation, always the same, in whole mini-batches (t-randman, r-randman, moving-shapes)."""
    test_samples: int = 10240
    """Samples drawn for the test, in whole mini-batches (t-randman, r-randman, moving-shapes)."""

    # How it is computed
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of matrix products, on a GPU."""
    backend: Literal["auto", "plain", "pallas", "interpret"] = "auto"
    """plain: ordinary JAX; pallas: fused GPU kernels; auto: whichever the device has."""
    traces: Literal["auto", "dense", "factored"] = "auto"
    """Mode online: how rules with a trace per weight keep it."""

    # The run folder
    snapshots: int = 0
    """Keep the weights of every so many mini-batches too, as otpe landscape needs them; 0: only checkpoints."""
    out: Path | None = None
    """The run folder. By default a new numbered one in runs."""
    resume: bool = False
    """Go on where the run in out stopped; start it, if there is none; show its result, if it is finished."""
    checkpoint_seconds: float = 20.0
    """Save the state this often; 0: at every evaluation."""
    keep: int = 3
    """How many checkpoints to keep."""
    tensorboard: bool = False
    """Write events for TensorBoard too, into the run folder."""


@dataclass(frozen=True, kw_only=True)
class OneRule:
    """What is trained."""

    rule: str = "otpe"
    """The learning rule: a name from otpe.rules()."""
    mode: Mode = "offline"
    """offline: an update per mini-batch; online: an update per time step."""
    align: tuple[str, ...] = ()
    """Compare the gradients of these rules with BPTT's, at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class SeveralRules:
    """What is compared."""

    rules: tuple[str, ...] = ("bptt", "otpe", "approx-otpe", "ostl", "ottt")
    """Names from otpe.rules(), or "all"."""
    modes: tuple[Mode, ...] = ("offline",)
    """offline: an update per mini-batch; online: an update per time step."""
    online_learning_rate: float | None = None
    """Mode online: another learning_rate, as it makes many more updates."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Settings, OneRule):
    """Train a spiking network by one rule, offline or online.

    Without options: T-Randman as in the paper, two hidden layers of 128, OTPE, Adamax. Everything about the run goes to
    its folder. Ctrl-C saves and stops; with --resume and --out FOLDER it goes on, bit for bit as if nothing had
    happened.
    """


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Settings, SeveralRules):
    """Train by several rules, on the same mini-batches and from the same initial weights, and put them into one table.

    Each is a run of its own in a folder below, as `otpe train` makes it. Rules that cannot learn online are left out
    there.
    """


# What does not change the numbers that come out: a run may be resumed with other ones. (A dataset that has moved is
# still the same; its first mini-batches are compared.)
FREE = ("out", "resume", "checkpoint_seconds", "keep", "tensorboard", "root")
