"""Settings that the command line takes without a name, as in `otpe report runs`."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

Value = TypeVar("Value")
if TYPE_CHECKING:
    from tyro.conf import Positional
    from tyro.conf import arg as _argument
else:
    try:
        from tyro.conf import Positional
        from tyro.conf import arg as _argument
    except ImportError:  # without a command line there is nothing to tell it
        Positional = Annotated[Value, "without a name"]

        def _argument(metavar):
            return metavar


def metavar(name: str) -> Any:
    """What the help shows in place of a value."""
    return _argument(metavar=name)


# --------------------
# What a run is asked to do. Imports no jax: these fields are the command line, its help and its reference.


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


# --------------------
# What a study is asked to do. Imports no jax: these fields are the command line, its help and its reference.


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


# --------------------
# What `otpe reproduce` is asked to do. Imports no jax.


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig:
    """Every table and figure of the paper: train what they need, and write a report that shows ours beside theirs.

    Without a name, all items. What was stopped goes on where it was when the same command is given again, and what is
    finished is not run again. Offline everything is as large as in the paper; online training and searches are on a
    coarse grid, which the report states, and with --fine as in the paper: that takes days.
    """

    items: Positional[tuple[str, ...]] = ()
    """Which, by name. `otpe reproduce --list` names them all."""
    quick: bool = False
    """All items, made small: minutes on 2 CPU cores."""
    fine: bool = False
    """Online training and searches as large as in the paper too."""
    list: bool = False
    """Name the items, and stop."""
    out: Path | None = None
    """The folder for everything. By default runs/reproduce, runs/reproduce-quick or runs/reproduce-fine."""
    root: Path = Path("data/shd")
    """The spoken digits, SHD's files or others in their layout. Items that need them are left out without."""
    digits: str | None = None
    """What to call them, where they are not the official SHD files."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of matrix products, on a GPU."""
    checkpoint_seconds: float = 60.0
    """Save the state of the run in training this often."""


# --------------------
# What `otpe report` is asked for. Imports no jax: these fields are the command line and its help.


@dataclass(frozen=True)
class ReportConfig:
    """Put runs and studies into one page to read: figures, tables, the paper's numbers beside ours.

    FOLDER is that of a run or a study, or one that holds several. The page is a single file that needs no network; the
    folder beside it has every figure as SVG, PNG and CSV. Runs that are not finished, or damaged, are shown as such.
    """

    folders: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Of runs; each is searched."""
    out: Path = Path("report.html")
    """The page. An older one is replaced when the new one is complete."""
    title: str = "OTPE: results"
    """What stands at the top of the page."""
    open: bool = False
    """Show the page in the browser at the end."""


# --------------------
# What `otpe bench` is asked to measure. Imports no jax: these fields are the command line and its help.


BenchMode = Literal["offline", "online", "step"]


@dataclass(frozen=True)
class BenchConfig:
    """Time, peak memory and state bytes of every rule, over width, time steps, batch and depth, and how they grow.

    An axis with values is swept while all else stays at the base; an axis without values (`--widths` and nothing
    behind it) is left out. Results go to a new numbered file in the folder, none is overwritten.
    """

    rules: tuple[str, ...] = ("bptt", "ostl", "ottt", "otpe", "approx-otpe", "deep-otpe", "approx-deep-otpe")
    """Names from otpe.rules(), or "all"."""
    modes: tuple[BenchMode, ...] = ("offline", "online", "step")
    """offline: a mini-batch's gradient; online: an Adamax update per time step; step: one time step of a stream."""

    sizes: tuple[int, ...] = (256, 256, 256, 256)
    """The base network, input to output."""
    base_steps: int = 50
    """Time steps, where they are not swept."""
    base_batch: int = 16
    """Samples side by side, where they are not swept."""

    widths: tuple[int, ...] = (64, 128, 256, 512)
    """Axis: units of every layer, input and output included, in a network as deep as the base."""
    steps: tuple[int, ...] = (25, 50, 100, 200)
    """Axis: time steps. In mode step: how many the stream has seen."""
    batches: tuple[int, ...] = (1, 4, 16, 64)
    """Axis: samples side by side."""
    depths: tuple[int, ...] = (2, 3, 4, 6)
    """Axis: layers, output included, all as wide as the base network's second size."""

    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of matrix products, on a GPU."""
    backend: Literal["auto", "plain", "pallas", "interpret"] = "auto"
    """plain: ordinary JAX; pallas: fused GPU kernels; auto: whichever the device has."""

    seconds: float = 1.0
    """How long each point is repeated; at least three times."""
    max_gb: float = 1.0
    """Leave out points that need more memory than this, and say so. The rules of one heat are in memory together."""
    out: Path = Path("bench-results")
    """The folder for results."""
    quick: bool = False
    """About a minute on 2 cores: whatever is left at its default becomes smaller."""

    def resolved(self) -> "BenchConfig":
        """These settings with `quick` worked in."""
        if not self.quick:
            return self
        at_default = {field.name for field in fields(self) if getattr(self, field.name) == field.default}
        return replace(self, **{name: value for name, value in QUICK_BENCH.items() if name in at_default})

    def command(self) -> str:
        """The line that asks for this: the settings that are not as they would be by themselves, less the folder."""
        by_itself = {field.name: field.default for field in fields(self)} | (QUICK_BENCH if self.quick else {})
        words = ["otpe", "bench"]
        for name, usual in by_itself.items():
            value = getattr(self, name)
            if name not in ("quick", "out") and value != usual:
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
# What `otpe data` is asked to look at. Imports no jax: these fields are the command line and its help.


@dataclass(frozen=True)
class DataConfig:
    """Look at a dataset: fetch it, verify it, summarise it, draw it.

    NAME is t-randman, r-randman, moving-shapes, shd, ssc, or folder: any folder of .h5 files in SHD's layout. The
    summary goes to a new numbered file, with pictures beside it; none is overwritten.
    """

    name: Positional[Annotated[str, metavar("NAME")]]
    """t-randman, r-randman, moving-shapes, shd, ssc or folder."""

    root: Path | None = None
    """The folder of the recordings. By default data/NAME."""
    download: bool = False
    """Fetch the official archives that are missing, with their hash checked (shd, ssc)."""
    offline: bool = False
    """Never go online, whatever else is asked."""
    verify: bool = False
    """Read the archives as they were fetched, and refuse any that is not bit for bit the official one (shd, ssc)."""
    units: int | None = None
    """How many units the recordings have (folder)."""
    shape: tuple[int, ...] = ()
    """The shape of the units, instead of their number, such as 2 34 34: channels, height, width (folder)."""
    keep_empty: bool = False
    """Keep recordings without spikes, as silence."""

    bins: int | None = None
    """Time steps over each recording's own duration. 50, where dt is not given either."""
    dt: float | None = None
    """Seconds of a time step, instead of bins."""
    steps: int | None = None
    """With dt: how many time steps; later spikes are left out. By default as many as the longest recording needs."""
    binary: bool = False
    """1 for any number of spikes in a time step, instead of their number."""
    pool: int = 1
    """As many neighbouring units become one; with a shape, squares of as many by as many."""
    remainder: Literal["keep", "drop"] = "keep"
    """With bins: count the spikes behind the last whole time step in it, or leave them out as tonic does."""

    seed: int = 0
    """Which manifolds, and which samples of them (t-randman, r-randman); which samples (moving-shapes)."""
    standardize: Literal["batch", "fixed"] = "batch"
    """Values by the extremes of each mini-batch, as the authors do, or by fixed ones (t-randman, r-randman)."""
    label: Literal["direction", "shape"] = "direction"
    """What the label says: in which direction a shape moves, or which shape it is (moving-shapes)."""
    size: int = 34
    """Height and width of the grid, in pixels (moving-shapes)."""
    noise: float = 0.001
    """The probability of a background event in each pixel, channel and time step (moving-shapes)."""

    samples: int = 8
    """How many samples to draw."""
    out: Path = Path("data-report")
    """The folder for the summary and the pictures."""


# --------------------
# What `otpe stream` is asked to do. Imports no jax: these fields are the command line, its help and its reference.


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """Learn from a stream while it comes: every time step is predicted first, then learned from.

    SOURCE is t-randman or r-randman, which never end; a file in SHD's layout (.h5), or a folder with one; a file of
    events (.csv, .jsonl); or - for events on standard input. Ctrl-C saves and stops; with --resume and --out FOLDER it
    goes on: files and randman bit for bit as if nothing had happened, standard input with whatever comes.
    """

    # The stream
    source: Positional[str] = "t-randman"
    """t-randman, r-randman, a .h5, .csv or .jsonl file, or - for standard input."""
    units: int | None = None
    """Inputs: 50, where not given (t-randman, r-randman); how many the source has (all others)."""
    classes: int | None = None
    """Outputs: 10, where not given (t-randman, r-randman); more than the largest label (all others)."""
    steps: int | None = None
    """Stop after this many time steps. By default where the source ends."""
    form: Literal["auto", "csv", "jsonl"] = "auto"
    """How events are written; auto looks at the first line (text)."""
    dt: float | None = None
    """Seconds of a time step: 0.01, where not given (text); instead of bins (recordings)."""
    bins: int | None = None
    """Time steps over each recording's own duration: 50, where dt is not given either (recordings)."""
    binary: bool = False
    """1 for any number of spikes in a time step, instead of their number (text, recordings)."""
    pool: int = 1
    """As many neighbouring units become one (text, recordings)."""
    labels: Literal["hold", "bin"] = "hold"
    """A label stands until another one comes, or only for the time step of its event (text)."""
    max_gap: float = 10.0
    """Seconds of silence that are filled with empty time steps (text)."""
    gap: Literal["reset", "skip", "raise"] = "reset"
    """After a longer silence: begin a new sequence, leave the event out, or stop with an error (text)."""
    on_bad: Literal["skip", "raise"] = "skip"
    """Input that makes no sense is skipped and counted, or ends the stream with an error (text, recordings)."""
    shuffle: bool = False
    """Another order in every epoch, instead of the stored one (recordings)."""
    epochs: int = 1
    """How often all of them come; 0: for ever (recordings)."""
    manifolds: int = 0
    """Which manifolds, by number (t-randman, r-randman)."""
    dims: int = 1
    """Dimensions of a manifold; the paper's have 3, and need many more samples (t-randman, r-randman)."""
    alpha: float = 2.0
    """Smoothness of the manifolds; the paper's have 1 (t-randman, r-randman)."""
    time_steps: int = 50
    """Time steps of a sample (t-randman, r-randman)."""
    changes: tuple[str, ...] = ()
    """What changes at which step: swap@50000:0,1 (classes), die@50000:0.3 (a share of the units), shift@50000:5 (units,
    by so many places), appear@50000:9 (a class, none of which comes before). (t-randman, r-randman, recordings)"""

    # The network
    hidden: tuple[int, ...] = (128, 128)
    """Units of each hidden layer; none for a network of one layer."""
    neuron: Literal["lif", "cuba", "adaptive"] = "lif"
    """lif: one state; cuba: with a synaptic current; adaptive: every spike raises the threshold for a while."""
    leak: float = 0.9
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
    threshold: float = 0.5
    """Where a neuron spikes."""
    reset: Literal["subtract", "zero", "none"] = "subtract"
    """What a spike does to the membrane."""
    surrogate: str = "fast-sigmoid"
    """fast-sigmoid, superspike, arctan, triangular or gaussian: the derivative that stands in for the spike's."""
    slope: float | None = None
    """Of the surrogate; the width of triangular and gaussian. By default 10 for fast-sigmoid, else each one's own."""
    start: Path | None = None
    """Begin with the network and the best weights of this run of otpe train, or with those of this file of
    otpe.save."""

    # Learning
    rule: str = "otpe"
    """The learning rule: a name from otpe.rules(), one that learns online."""
    loss: str = "rule"
    """spikes: cross-entropy of the output spikes; leaky: of their leaky sum; membrane: of the membranes of an
    integrator; mse: squared error; rule: leaky for the F- rules, spikes for all others."""
    rate: float = 0.0
    """The share of the neurons of a hidden layer that should spike at each time step. Needs rate_weight."""
    rate_weight: float = 0.0
    """Adds this number times (rate − share that spiked)² of every hidden layer to the loss of a time step."""
    optimizer: str = "adam"
    """adamax, adam, adamw, sgd, rmsprop, nadam, nadamw, radam, adabelief, adagrad, lamb or lion."""
    learning_rate: float = 1e-4
    """Of the optimizer."""
    every: int = 1
    """Update after this many time steps with a label, by their mean gradient."""
    delay: int = 0
    """Learn from each time step only when this many have followed it, as where labels are not known sooner."""
    decay: float = 0.0
    """Share of every weight that an update takes away, for long lives."""
    limit: float | None = None
    """The largest size that a weight may have."""
    score_leak: float | None = None
    """What is left of the class scores after a step. 1.0: spikes are counted from the beginning of a sequence on, which
    is the default for recordings and randman; for events it is the leak."""
    frozen: bool = False
    """Learn nothing: a network that only predicts."""
    seed: int = 0
    """Of the initial weights, the samples of randman, the order of recordings, and the units that die."""
    block: int | None = None
    """Time steps that are waited for, and then taken at once: 1 for standard input, 128 else, where not given."""
    window: int = 1000
    """Time steps with a label that the sliding accuracy looks back on."""

    # The run folder
    out: Path | None = None
    """The run folder. By default a new numbered one in runs."""
    resume: bool = False
    """Go on where the run in out stopped; start it, if there is none; show its result, if it is finished."""
    checkpoint_seconds: float = 30.0
    """Save the state this often; 0: after every block."""
    metrics_seconds: float = 5.0
    """Write a line of metrics this often; 0: after every block."""

    # A page to watch
    serve: int | None = None
    """Show the stream in a browser: the port of a page on this machine, 0 for any that is free."""
    host: str = "127.0.0.1"
    """The address of that page. 0.0.0.0: everybody in the network may look."""


# What does not change the numbers that come out, or is found out otherwise: a run may be resumed with other ones.
FREE_OF_STREAM = ("out", "resume", "checkpoint_seconds", "metrics_seconds", "source", "on_bad", "serve", "host")
