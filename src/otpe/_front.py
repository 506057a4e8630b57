"""The public names of `otpe`. `otpe/__init__.py` imports this module when one of them is used for the first time."""

from otpe import datasets, testing
from otpe.analysis import Alignment, Landscape, alignment, landscape, state_bytes
from otpe.build import network
from otpe.layers import Dense, DenseLayer, LinearMap
from otpe.losses import Loss, accuracy, predict
from otpe.networks import Network, dense
from otpe.neurons import LIF, AdaptiveLIF, CubaLIF, LeakyIntegrator, PerNeuron, Uniform
from otpe.paper.config import ReproduceConfig
from otpe.paper.run import reproduce
from otpe.reporting.run import report
from otpe.rulebook import Approx, Bptt, Ostl, Otpe, Ottt, Rtrl, Rule, rule, rules, stepper
from otpe.runs.compare import compare
from otpe.runs.config import CompareConfig, TrainConfig
from otpe.runs.load import load
from otpe.runs.result import Result
from otpe.runs.task import Splits
from otpe.runs.train import train
from otpe.storage import load_network, save
from otpe.stream.command.config import StreamConfig
from otpe.stream.learner import Learned, StreamLearner
from otpe.studies.align import Along, align
from otpe.studies.config import AlignConfig, LandscapeConfig, SweepConfig
from otpe.studies.results import SweepResult
from otpe.studies.sweep import sweep
from otpe.surrogates import arctan, fast_sigmoid, gaussian, spike, superspike, triangular
from otpe.training import gradients, online_pass

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
    "Landscape",
    "LandscapeConfig",
    "LeakyIntegrator",
    "Learned",
    "LinearMap",
    "Loss",
    "Network",
    "Ostl",
    "Otpe",
    "Ottt",
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
    "fast_sigmoid",
    "gaussian",
    "gradients",
    "landscape",
    "load",
    "load_network",
    "network",
    "online_pass",
    "predict",
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
    "triangular",
]  # fmt: skip
