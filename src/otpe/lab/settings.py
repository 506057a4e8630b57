"""Every setting of every verb: the command line, its help and its reference are made of these fields.

`Settings` is what all training verbs have in common. It consists of five groups: data, network, loss, optimizer, run.
`nested_settings.py` explains groups. This module does not import jax.
"""

import os
from dataclasses import InitVar, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from otpe.choices import PAPER_LEAK, Backend, Precision
from otpe.lab.nested_settings import Nested, field_names, flat_json

Value = TypeVar("Value")
if TYPE_CHECKING:
    from tyro.conf import Positional
    from tyro.conf import arg as _argument
else:
    try:
        from tyro.conf import Positional
        from tyro.conf import arg as _argument
    except ImportError:  # there is no command line without tyro
        Positional = Annotated[Value, "without a name"]

        def _argument(metavar):
            return metavar


def metavar(name: str) -> Any:
    """Return an annotation: the word that the help shows in place of a value."""
    return _argument(metavar=name)


Mode = Literal["offline", "online"]
Learned = Literal["no", "layer", "neuron"]


# --------------------
# The groups.


@dataclass(frozen=True, kw_only=True)
class DataSettings(Nested):
    """A named dataset. The help adds the names of the datasets that use each setting. They come from
    `otpe.datasets.registry`.
    """

    # The data
    dataset: str = "t-randman"
    """{names}."""
    manifolds: int = 0
    """Number that selects the draw of the manifolds: the seed of the first draw."""
    draws: int = 1
    """Number of manifold draws. Networks are divided evenly among them."""
    standardize: Literal["batch", "fixed"] = "batch"
    """Scale values to the range of each mini-batch, as in the authors' code, or to a fixed range."""
    classes: int = 10
    """Number of manifolds."""
    dims: int = 3
    """Dimensions of a manifold."""
    alpha: float = 1.0
    """Smoothness of the manifolds."""
    time_steps: int = 50
    """Time steps of a sample."""
    label: Literal["direction", "shape"] = "direction"
    """Meaning of the label: the direction in which a shape moves, or the shape."""
    size: int = 34
    """Height and width of the grid, in pixels."""
    noise: float = 0.001
    """The probability of a background event in each pixel, channel and time step."""
    root: Path | None = None
    """The folder of the recordings. By default data/NAME."""
    units: int | None = None
    """Number of inputs. By default 50 for randman. For a folder it is read from the files."""
    shape: tuple[int, ...] = ()
    """The shape of the units, instead of their number, such as 2 34 34: channels, height, width."""
    bins: int | None = None
    """Time steps per recording. Each recording's duration is divided by this number. By default 50 without dt."""
    dt: float | None = None
    """Seconds per time step, instead of bins."""
    max_steps: int | None = None
    """With dt: the largest number of time steps. Later spikes are left out."""
    binary: bool = False
    """Replace spike counts by 0 or 1: a unit spikes in a time step, or it does not."""
    pool: int = 1
    """Number of neighbouring units to join into one. With a shape: the side of the squares to join."""
    validation: Literal["first", "stratified", "speakers"] = "first"
    """Validation data from the training file: its first tenth, as in the paper; a tenth of every class; or all
    recordings of some speakers, about a tenth."""

    @property
    def data_name(self) -> str:
        """The name of the data in titles and run folders: that of the folder, if the dataset is any folder."""
        return data_name(self.dataset, self.root)


def data_name(dataset: str, root: str | Path | None) -> str:
    """Return the name of the folder for the dataset "folder", and else that of the dataset."""
    if dataset != "folder" or root is None:
        return dataset
    return os.path.basename(os.path.abspath(root)) or dataset


@dataclass(frozen=True, kw_only=True)
class ConvolutionSettings(Nested):
    """Convolutional layers."""

    # The network
    conv: tuple[int, ...] = ()
    """Channels of each convolutional layer. These come before the hidden layers. For data on a grid."""
    conv_kernel: int = 3
    """Height and width of the kernels. Zeros are added around the grid, so that its size stays the same."""
    conv_stride: int = 1
    """Pixels from one position of a kernel to the next."""
    conv_pool: int = 1
    """Average the output of each convolutional layer over squares of this size."""


@dataclass(frozen=True, kw_only=True)
class DenseNetworkSettings(Nested):
    """A network of dense layers."""

    # The network
    hidden: tuple[int, ...] = (128, 128)
    """Units of each hidden layer. The option without a value: no hidden layers."""
    neuron: str = "lif"
    """lif: one state; cuba: with a synaptic current; adaptive: every spike raises the threshold for a while; or
    another spiking neuron of otpe.neurons.NAMED."""
    leak: float = PAPER_LEAK
    """λ, the share of the membrane that remains after one step."""
    leak_to: float | None = None
    """Give every neuron its own leak, drawn evenly between leak and this number."""
    current_leak: float = 0.8
    """The share of the synaptic current that remains after one step (cuba)."""
    adaptation_leak: float = 0.97
    """The share of the raised threshold that remains after one step (adaptive)."""
    adaptation_strength: float = 1.0
    """How far spikes raise the threshold (adaptive)."""
    learn_leak: Learned = "no"
    """Train the leak: one number per layer, or one per neuron."""
    learn_current_leak: Learned = "no"
    """The same for current_leak (cuba)."""
    learn_adaptation_leak: Learned = "no"
    """The same for adaptation_leak (adaptive)."""
    readout: Literal["spiking", "integrator"] = "spiking"
    """Output neurons: of the same kind as the hidden ones, or leaky integrators, whose output is their membrane."""
    threshold: float = 1.0
    """The membrane at which a neuron spikes."""
    reset: Literal["subtract", "zero", "none"] = "subtract"
    """What a spike does to the membrane."""
    surrogate: str = "fast-sigmoid"
    """fast-sigmoid, superspike, arctan, triangular or gaussian: the derivative used in place of the spike's."""
    slope: float | None = None
    """Slope of the surrogate; width of triangular and gaussian. The default depends on the surrogate: 25 for
    fast-sigmoid, and 2 for it on recordings."""


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(DenseNetworkSettings, ConvolutionSettings):
    """A network of convolutional layers, if any, then dense layers."""

    # The network
    start: Path | None = None
    """Begin with the best weights of this run of otpe train, or with those of this file of otpe.save."""


@dataclass(frozen=True, kw_only=True)
class LossSettings(Nested):
    """The loss."""

    # The loss
    loss: str = "rule"
    """spikes: cross-entropy of the output spikes; leaky: cross-entropy of their leaky sum; membrane: cross-entropy of
    the membranes of integrators; mse: squared error; rule: leaky for the F- rules, spikes for all others."""
    rate: float = 0.0
    """The share of the neurons of a hidden layer that should spike at each time step. Needs rate_weight."""
    rate_weight: float = 0.0
    """Adds this number times (rate − share that spiked)² of every hidden layer to the loss of a time step."""


@dataclass(frozen=True, kw_only=True)
class ConstantOptimizerSettings(Nested):
    """An optimizer with a constant learning rate."""

    # The optimizer
    optimizer: str = "adamax"
    """adamax, adam, adamw, sgd, rmsprop, nadam, nadamw, radam, adabelief, adagrad, lamb or lion."""
    learning_rate: float | None = None
    """Learning rate of the optimizer. Schedules start from it. By default 0.001; for recordings with adamax 0.005, and
    0.0003 in mode online."""


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(ConstantOptimizerSettings):
    """An optimizer and the schedule of its learning rate."""

    # The optimizer
    schedule: Literal["constant", "linear", "cosine", "exponential"] = "constant"
    """How the learning rate falls from mini-batch to mini-batch, down to final_rate at the last."""
    final_rate: float = 0.01
    """Learning rate at the end of a schedule, as a share of learning_rate. Not for constant."""
    warmup: int = 0
    """Number of mini-batches at the start over which the learning rate rises from 0."""
    momentum: float | None = None
    """For sgd and rmsprop."""
    weight_decay: float | None = None
    """For adamw, nadamw, lamb and lion. The default depends on the optimizer."""
    clip: float | None = None
    """Scale larger gradients down to this norm, over all layers together."""


@dataclass(frozen=True, kw_only=True)
class LengthSettings(Nested):
    """How long to train, and from which seeds."""

    # Length and seeds
    steps: int = 2000
    """Mini-batches to learn from."""
    batch: int = 128
    """Samples in a mini-batch."""
    seeds: int = 1
    """Networks trained side by side, each with its own initial weights and mini-batches."""
    seed: int = 0
    """The seed of the first network. The next ones follow: seed + 1, seed + 2, …"""
    every: int = 1
    """Mode online: number of time steps per update."""


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Nested):
    """How often to evaluate, and how to compute."""

    # Evaluation
    eval_every: int = 100
    """Number of mini-batches between two validations. Another follows at the end."""
    valid_samples: int = 1024
    """Number of samples drawn for validation, rounded up to whole mini-batches. They are always the same samples."""
    test_samples: int = 10240
    """Number of samples drawn for the test, rounded up to whole mini-batches."""

    # Computation
    precision: Precision = "float32"
    """Precision of matrix products on a GPU."""
    backend: Backend = "auto"
    """plain: ordinary JAX; pallas: fused GPU kernels; auto: pallas where the device has it."""
    traces: Literal["auto", "dense", "factored"] = "auto"
    """Mode online: how rules with a trace per weight store it."""


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Nested):
    """A run folder."""

    # The run folder
    out: Path | None = None
    """The run folder. By default a new numbered one in runs."""
    resume: bool = False
    """Continue the run in out where it stopped. Start it if there is none, show its result if it is finished."""
    checkpoint_seconds: float = 20.0
    """Seconds between two checkpoints; 0: at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class RunSettings(FolderSettings, EvaluationSettings, LengthSettings):
    """How long to train, how often to evaluate, how to compute, and what to write."""

    # The run folder
    snapshots: int = 0
    """Number of mini-batches between two saved snapshots of the weights, which otpe landscape needs; 0: none."""
    keep: int = 3
    """Number of checkpoints to keep."""
    tensorboard: bool = False
    """Also write events for TensorBoard into the run folder."""


# --------------------
# Training.


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings, OptimizerSettings, LossSettings, NetworkSettings, DataSettings, LengthSettings):
    """What all training verbs have in common.

    `loss` and `optimizer` are names, or groups: `optimizer="adam"`, `optimizer=OptimizerSettings(optimizer="adam")`.
    """

    GROUPS: ClassVar = {
        "data": DataSettings,
        "network": NetworkSettings,
        "loss": LossSettings,
        "optimizer": OptimizerSettings,
        "run": RunSettings,
    }
    data: InitVar[DataSettings | None] = None
    network: InitVar[NetworkSettings | None] = None
    run: InitVar[RunSettings | None] = None


@dataclass(frozen=True, kw_only=True)
class OneRule:
    """The rule that trains the network, and how it updates."""

    # Learning
    rule: str = "otpe"
    """The learning rule: a name from otpe.rules()."""
    mode: Mode = "offline"
    """offline: an update per mini-batch; online: an update per time step."""
    align: tuple[str, ...] = ()
    """Compare the gradients of these rules with BPTT's, at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class SeveralRules:
    """The rules to compare, and how they update."""

    # Learning
    rules: tuple[str, ...] = ("bptt", "otpe", "approx-otpe", "ostl", "ottt")
    """Names from otpe.rules(), or "all"."""
    modes: tuple[Mode, ...] = ("offline",)
    """offline: an update per mini-batch; online: an update per time step."""
    online_learning_rate: float | None = None
    """The learning rate in mode online, which makes many more updates. By default learning_rate, if that is given."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Settings, OneRule):
    """Train a spiking network by one rule, offline or online.

    Without options: T-Randman as in the paper, two hidden layers of 128, OTPE, Adamax. Everything about the run goes to
    its folder. Ctrl-C saves and stops; --resume --out FOLDER continues the run, and gives bit for bit the same result
    as an uninterrupted one.
    """


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Settings, SeveralRules):
    """Train by several rules, on the same mini-batches and from the same initial weights, and put them into one table.

    Each run has its own folder inside the folder of the comparison, like a folder of `otpe train`. Mode online leaves
    out rules that cannot learn online.
    """


@dataclass(frozen=True, kw_only=True)
class AlignConfig(Settings):
    """Train by BPTT, and compare the gradients of other rules with BPTT's at every evaluation.

    The gradients are those at BPTT's parameters, on the next mini-batch: cosine and ratio of norms, per layer and over
    the whole model. The run folder is that of `otpe train --rule bptt --align ...`.
    """

    rules: tuple[str, ...] = ("otpe", "approx-otpe", "ostl", "ottt", "deep-otpe", "approx-deep-otpe")
    """Rules whose gradients are compared: names from otpe.rules()."""


@dataclass(frozen=True, kw_only=True)
class LandscapeConfig(Settings):
    """Train by several rules, and draw the loss over the plane through BPTT's initial and final model.

    The path of every rule through training is projected onto that plane, and the share of it inside the plane is
    measured. Training is offline. Each run has its own folder inside the folder of the landscape. With --resume and
    another --grid, the plane is computed again and nothing is trained.
    """

    rules: tuple[str, ...] = ("bptt", "otpe", "approx-otpe", "ostl", "ottt")
    """Names from otpe.rules(), or "all". bptt is always trained, since it defines the plane."""
    grid: int = 41
    """Points of the plane in each direction."""
    loss_samples: int = 1024
    """The largest number of validation samples for the loss over the plane."""
    snapshots: int = 200
    """Number of mini-batches between two saved snapshots of the weights: the points of each rule's path."""


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Settings, SeveralRules):
    """Train by several rules at every point of a grid over any settings, and draw maps and curves of the accuracy.

    Each run has its own folder inside the folder of the sweep, like a folder of `otpe train`. Ctrl-C saves and stops.
    The options --resume --out FOLDER continue the sweep. Finished runs are not repeated, even in a larger grid. Mode
    online leaves out rules that cannot learn online.
    """

    over: tuple[str, ...] = ()
    """Settings and their values, such as slope=5,10,25 learning_rate=1e-3,4e-4. Also width, the units of every hidden
    layer, and depth, the number of layers with weights. For hidden, x separates layers: hidden=128x128,64 has two
    values."""


# Settings that do not affect results. They may differ when a run is resumed. (A dataset may have moved to another
# folder: its first mini-batches are compared.)
FREE = ("out", "resume", "checkpoint_seconds", "keep", "tensorboard", "root")


# --------------------
# `otpe reproduce`.


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig:
    """Every table and figure of the paper: train what they need, and report our results beside the paper's.

    Without a name, all items. The same command again continues what was stopped, and does not repeat what is finished.
    Offline everything is as large as in the paper. Online training and searches use a coarse grid, which the report
    states; with --fine they are as large as in the paper, which takes days.
    """

    items: Positional[tuple[str, ...]] = ()
    """Names of the items. `otpe reproduce --list` shows them all."""
    quick: bool = False
    """Small versions of all items: minutes on 2 CPU cores."""
    fine: bool = False
    """Online training and searches as large as in the paper too."""
    list: bool = False
    """List the items, and stop."""
    out: Path | None = None
    """The folder for everything. By default runs/reproduce, runs/reproduce-quick or runs/reproduce-fine."""
    root: Path = Path("data/shd")
    """The folder of the spoken digits, in SHD's layout. Without them, items that need them are left out."""
    digits: str | None = None
    """Name of the recordings in the report, if they are not the official SHD files."""
    precision: Precision = "float32"
    """Precision of matrix products on a GPU."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints of a run."""


# --------------------
# `otpe evaluate`.


@dataclass(frozen=True)
class EvaluateConfig:
    """Evaluate a finished run: accuracy with its uncertainty, each class, the confusion matrix, silent samples.

    RUN is a folder of otpe train. The data is that of the run, in the same time steps, and its networks are those with
    the best validation.
    """

    run: Positional[Annotated[Path, metavar("RUN")]]
    """The run folder."""
    split: Literal["test", "valid", "train"] = "test"
    """Which part of the data."""
    data: Path | None = None
    """Other recordings of the same kind: their folder. By default those of the run."""
    bins: int | None = None
    """Time steps per recording. The run has this number; a different one is an error."""
    dt: float | None = None
    """Seconds per time step. The run has this number; a different one is an error."""
    json: Path | None = None
    """Also write all numbers to this file."""


# --------------------
# `otpe report`.


@dataclass(frozen=True)
class ReportConfig:
    """Put runs and studies into one page to read: figures, tables, the paper's numbers beside ours.

    FOLDER is the folder of a run or a study, or one that contains several. The page is a single file that needs no
    network. The folder beside it has every figure as SVG, PNG and CSV. The page also shows unfinished and damaged runs.
    """

    folders: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Folders to search for runs and studies."""
    out: Path = Path("report.html")
    """The file of the page. An older one is replaced when the new one is complete."""
    title: str = "OTPE: results"
    """Title of the page."""
    open: bool = False
    """Show the page in the browser at the end."""


# --------------------
# `otpe bench`.


BenchMode = Literal["offline", "online", "step"]


@dataclass(frozen=True)
class BenchConfig:
    """Time, peak memory and state bytes of every rule, over width, time steps, batch and depth, and how they grow.

    Each axis is varied while the others stay at their base value. An axis without values (`--widths` and nothing after
    it) is left out. Results go to a new numbered file in the folder; none is overwritten.
    """

    rules: tuple[str, ...] = ("bptt", "ostl", "ottt", "otpe", "approx-otpe", "deep-otpe", "approx-deep-otpe")
    """Names from otpe.rules(), or "all"."""
    modes: tuple[BenchMode, ...] = ("offline", "online", "step")
    """offline: a mini-batch's gradient; online: an Adamax update per time step; step: one time step of a stream."""

    sizes: tuple[int, ...] = (256, 256, 256, 256)
    """The base network, input to output."""
    base_steps: int = 50
    """Time steps of the base."""
    base_batch: int = 16
    """Batch size of the base."""

    widths: tuple[int, ...] = (64, 128, 256, 512)
    """Axis: units of every layer, input and output included, in a network as deep as the base."""
    steps: tuple[int, ...] = (25, 50, 100, 200)
    """Axis: time steps. In mode step: time steps that the stream has seen."""
    batches: tuple[int, ...] = (1, 4, 16, 64)
    """Axis: batch size."""
    depths: tuple[int, ...] = (2, 3, 4, 6)
    """Axis: layers, output included. Every layer has as many units as the second value of sizes."""

    precision: Precision = "float32"
    """Precision of matrix products on a GPU."""
    backend: Backend = "auto"
    """plain: ordinary JAX; pallas: fused GPU kernels; auto: pallas where the device has it."""

    seconds: float = 1.0
    """Seconds for which each point is repeated, and at least three times."""
    max_gb: float = 1.0
    """Leave out points that need more memory than this, and list them. Rules measured together share memory."""
    out: Path = Path("bench-results")
    """The folder for results."""
    quick: bool = False
    """About a minute on 2 cores: every setting that is at its default becomes smaller."""

    def resolved(self) -> "BenchConfig":
        """Return these settings with the values of `quick` in place of defaults."""
        if not self.quick:
            return self
        at_default = {field.name for field in fields(self) if getattr(self, field.name) == field.default}
        return replace(self, **{name: value for name, value in QUICK_BENCH.items() if name in at_default})

    def command(self) -> str:
        """Return the command line of this benchmark: all settings that are not at their default, except the folder."""
        defaults = {field.name: field.default for field in fields(self)} | (QUICK_BENCH if self.quick else {})
        words = ["otpe", "bench"]
        for name, default in defaults.items():
            value = getattr(self, name)
            if name not in ("quick", "out") and value != default:
                words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value])]
        return " ".join([*words, *["--quick"] * self.quick])


QUICK_BENCH: dict[str, Any] = {
    "rules": ("bptt", "ostl", "ottt", "otpe", "approx-otpe"),
    "sizes": (64, 64, 64),
    "base_steps": 20,
    "base_batch": 8,
    "widths": (64, 256),
    "steps": (20, 80),
    "batches": (8, 32),
    "depths": (2, 4),
    "seconds": 0.1,
}


# --------------------
# `otpe data`.


@dataclass(frozen=True)
class DataConfig:
    """Look at a dataset: fetch it, verify it, summarise it, draw it.

    NAME is {names}. The summary goes to a new numbered file, with pictures beside it; none is overwritten.
    """

    name: Positional[Annotated[str, metavar("NAME")]]
    """{names}."""

    root: Path | None = None
    """The folder of the recordings. By default data/NAME."""
    download: bool = False
    """Fetch missing official archives, and check their hash."""
    offline: bool = False
    """Never go online, even with --download."""
    verify: bool = False
    """Refuse archives that are not bit for bit the official ones."""
    units: int | None = None
    """Number of units in the recordings. By default it is read from the files."""
    shape: tuple[int, ...] = ()
    """The shape of the units, instead of their number, such as 2 34 34: channels, height, width."""
    keep_empty: bool = False
    """Keep recordings without spikes, as silence."""

    bins: int | None = None
    """Time steps per recording. Each recording's duration is divided by this number. By default 50 without dt."""
    dt: float | None = None
    """Seconds per time step, instead of bins."""
    steps: int | None = None
    """With dt: the number of time steps. Later spikes are left out. By default the length of the longest recording."""
    binary: bool = False
    """Replace spike counts by 0 or 1: a unit spikes in a time step, or it does not."""
    pool: int = 1
    """Number of neighbouring units to join into one. With a shape: the side of the squares to join."""
    remainder: Literal["keep", "drop"] = "keep"
    """With bins: keep the spikes after the last whole time step, in that step, or drop them as tonic does."""

    seed: int = 0
    """Seed of the samples. For randman also the number that selects the draw of the manifolds."""
    standardize: Literal["batch", "fixed"] = "batch"
    """Scale values to the range of each mini-batch, as in the authors' code, or to a fixed range."""
    label: Literal["direction", "shape"] = "direction"
    """Meaning of the label: the direction in which a shape moves, or the shape."""
    size: int = 34
    """Height and width of the grid, in pixels."""
    noise: float = 0.001
    """The probability of a background event in each pixel, channel and time step."""

    samples: int = 8
    """Number of samples in the pictures."""
    out: Path = Path("data-report")
    """The folder for the summary and the pictures."""


# --------------------
# `otpe stream`.


@dataclass(frozen=True, kw_only=True)
class SourceSettings(Nested):
    """Where a stream comes from. The help adds the names of the sources that use each setting. They come from
    `otpe.stream.source_kinds`.
    """

    # The stream
    source: Positional[str] = "t-randman"
    """t-randman, r-randman, a .h5, .csv or .jsonl file, or - for standard input."""
    units: int | None = None
    """Number of inputs. By default 50 for t-randman and r-randman, read from the files for
    recordings; all other sources need it."""
    classes: int | None = None
    """Number of outputs. By default 10 for t-randman and r-randman; all other sources need it: more than the largest
    label."""
    steps: int | None = None
    """Number of time steps to take. By default all, until the source ends."""
    form: Literal["auto", "csv", "jsonl"] = "auto"
    """Format of events. auto looks at the first line."""
    dt: float | None = None
    """Seconds per time step: by default 0.01 for events. For recordings: instead of bins."""
    bins: int | None = None
    """Time steps per recording. Each recording's duration is divided by this number. By default 50 without dt."""
    binary: bool = False
    """Replace spike counts by 0 or 1: a unit spikes in a time step, or it does not."""
    pool: int = 1
    """Number of neighbouring units to join into one."""
    labels: Literal["hold", "bin"] = "hold"
    """A label is valid until the next one comes, or only for the time step of its event."""
    max_gap: float = 10.0
    """The longest silence, in seconds, that is filled with empty time steps."""
    gap: Literal["reset", "skip", "raise"] = "reset"
    """After longer silence: begin a new sequence, leave the event out, or stop with an error."""
    on_bad: Literal["skip", "raise"] = "skip"
    """Skip and count invalid input, or stop with an error."""
    shuffle: bool = False
    """Another order in every epoch, instead of the stored one."""
    epochs: int = 1
    """How often to repeat all recordings; 0: without end."""
    manifolds: int = 0
    """Number that selects the draw of the manifolds: its seed."""
    dims: int = 1
    """Dimensions of a manifold. The paper's have 3, and need many more samples."""
    alpha: float = 2.0
    """Smoothness of the manifolds. The paper's is 1."""
    time_steps: int = 50
    """Time steps of a sample."""
    changes: tuple[str, ...] = ()
    """What changes at which step: swap@50000:0,1 (two classes), die@50000:0.3 (a share of the units), shift@50000:5
    (all units, by this many places), appear@50000:9 (a class that does not come before)."""


@dataclass(frozen=True, kw_only=True)
class StreamNetworkSettings(DenseNetworkSettings):
    """A network that learns from a stream."""

    # The network
    leak: float = 0.9
    threshold: float = 0.5
    slope: float | None = None
    """Slope of the surrogate; width of triangular and gaussian. The default depends on the surrogate: 10 for
    fast-sigmoid."""
    start: Path | None = None
    """Begin with the network and the best weights of this run of otpe train, or with those of this file of
    otpe.save."""


@dataclass(frozen=True, kw_only=True)
class StreamOptimizerSettings(ConstantOptimizerSettings):
    """An optimizer that learns from a stream."""

    optimizer: str = "adam"
    learning_rate: float = 1e-4


@dataclass(frozen=True, kw_only=True)
class StreamRunSettings(FolderSettings):
    """How to learn from a stream, and what to write."""

    # Learning
    rule: str = "otpe"
    """The learning rule: a name from otpe.rules(), one that learns online."""
    every: int = 1
    """Number of labelled time steps per update, which uses their mean gradient."""
    delay: int = 0
    """Number of time steps to wait before learning from a step, as if its label came late."""
    decay: float = 0.0
    """Weight decay for very long streams: every update makes each weight smaller by this share."""
    limit: float | None = None
    """The largest absolute value of a weight."""
    score_leak: float | None = None
    """The share of the class scores that remains after a step. 1.0 counts spikes from the beginning of a sequence: the
    default for recordings and randman. For events the default is the leak."""
    frozen: bool = False
    """Learn nothing: a network that only predicts."""
    seed: int = 0
    """Seed of the initial weights, the samples of randman, the order of recordings, and the units that die."""
    block: int | None = None
    """Time steps processed at once. By default 1 for standard input, else 128."""
    window: int = 1000
    """Number of labelled time steps in the sliding accuracy."""

    # The run folder
    checkpoint_seconds: float = 30.0
    """Seconds between two checkpoints; 0: after every block."""
    metrics_seconds: float = 5.0
    """Seconds between two lines of metrics; 0: after every block."""

    # A page to watch
    serve: int | None = None
    """Show the stream in a browser: the port of a page on this machine, 0 for any free one."""
    host: str = "127.0.0.1"
    """The address of that page. 0.0.0.0: everybody in the network can see it."""


@dataclass(frozen=True, kw_only=True)
class StreamConfig(StreamRunSettings, StreamOptimizerSettings, LossSettings, StreamNetworkSettings, SourceSettings):
    """Learn from a stream as it comes: every time step is predicted first, then learned from.

    SOURCE is t-randman or r-randman, which never end; a file in SHD's layout (.h5), or a folder with one; a file of
    events (.csv, .jsonl); or - for events on standard input. Ctrl-C saves and stops; --resume --out FOLDER continues:
    files and randman bit for bit as if nothing had happened, standard input with whatever comes.
    """

    GROUPS: ClassVar = {
        "data": SourceSettings,
        "network": StreamNetworkSettings,
        "loss": LossSettings,
        "optimizer": StreamOptimizerSettings,
        "run": StreamRunSettings,
    }
    data: InitVar[SourceSettings | None] = None
    network: InitVar[DenseNetworkSettings | None] = None
    run: InitVar[FolderSettings | None] = None


# Settings that do not affect results, or whose effect is checked in another way. They may differ when a run is resumed.
FREE_OF_STREAM = ("out", "resume", "checkpoint_seconds", "metrics_seconds", "source", "on_bad", "serve", "host")

NAMES_IN_GROUPS = {
    group: (*dict.fromkeys((*field_names(Settings.GROUPS[group]), *field_names(StreamConfig.GROUPS[group]))),)
    for group in Settings.GROUPS
}


def flat_config(found: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a config.json with the settings of nested groups as flat keys."""
    return flat_json(found, NAMES_IN_GROUPS)
