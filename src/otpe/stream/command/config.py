"""What `otpe stream` is asked to do. Imports no jax: these fields are the command line, its help and its reference."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from otpe.arguments import Positional


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
FREE = ("out", "resume", "checkpoint_seconds", "metrics_seconds", "source", "on_bad", "serve", "host")
