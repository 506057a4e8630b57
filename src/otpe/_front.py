"""The public names of `otpe`. `otpe/__init__.py` imports this module when one of them is used for the first time."""

from otpe import datasets, testing
from otpe.analysis import Alignment, Landscape, alignment, landscape, state_bytes
from otpe.build import network
from otpe.lab.paper.reproduce import reproduce
from otpe.lab.report.page import report
from otpe.lab.runs.compare import compare
from otpe.lab.runs.evaluate import Evaluation, evaluate
from otpe.lab.runs.results import Result
from otpe.lab.runs.saved_weights import load, read_snapshot
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import train
from otpe.lab.settings import (
    AlignConfig,
    CompareConfig,
    LandscapeConfig,
    ReproduceConfig,
    StreamConfig,
    SweepConfig,
    TrainConfig,
)
from otpe.lab.studies.align import Along, align
from otpe.lab.studies.landscapes import PathsInPlane, train_landscape
from otpe.lab.studies.sweep import SweepResult, sweep
from otpe.layers import Dense, DenseLayer, LinearMap
from otpe.losses import Loss, accuracy, predict
from otpe.networks import Network, dense
from otpe.neurons import LIF, AdaptiveLIF, CubaLIF, LeakyIntegrator, PerNeuron, Uniform
from otpe.rulebook import Approx, Bptt, Ostl, Otpe, Ottt, Rtrl, Rule, rule, rules, stepper
from otpe.storage import load_network, save
from otpe.stream.learner import Learned, StreamLearner
from otpe.surrogates import arctan, fast_sigmoid, gaussian, spike, superspike, triangular
from otpe.training import Optimizer, gradients, online_pass

__all__ = [
    "LIF",
    "AdaptiveLIF",
    "AlignConfig",
    "Alignment",
    "Along",
    "Approx",
    "Bptt",
    "CompareConfig",
    "CubaLIF",
    "Dense",
    "DenseLayer",
    "Evaluation",
    "Landscape",
    "LandscapeConfig",
    "LeakyIntegrator",
    "Learned",
    "LinearMap",
    "Loss",
    "Network",
    "Optimizer",
    "Ostl",
    "Otpe",
    "Ottt",
    "PathsInPlane",
    "PerNeuron",
    "ReproduceConfig",
    "Result",
    "Rtrl",
    "Rule",
    "Splits",
    "StreamConfig",
    "StreamLearner",
    "SweepConfig",
    "SweepResult",
    "TrainConfig",
    "Uniform",
    "accuracy",
    "align",
    "alignment",
    "arctan",
    "compare",
    "datasets",
    "dense",
    "evaluate",
    "fast_sigmoid",
    "gaussian",
    "gradients",
    "landscape",
    "load",
    "load_network",
    "network",
    "online_pass",
    "predict",
    "read_snapshot",
    "report",
    "reproduce",
    "rule",
    "rules",
    "save",
    "spike",
    "state_bytes",
    "stepper",
    "superspike",
    "sweep",
    "testing",
    "train",
    "train_landscape",
    "triangular",
]  # fmt: skip
