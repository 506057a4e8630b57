"""The public names of `otpe`, which come in the moment one of them is asked for."""

from otpe import datasets, testing
from otpe.analysis import Alignment, alignment, state_bytes
from otpe.layers import Dense, DenseLayer, LinearMap
from otpe.losses import accuracy, predict
from otpe.network import Network, dense
from otpe.neurons import LIF
from otpe.rulebook import Approx, Bptt, Ostl, Otpe, Ottt, Rtrl, Rule, rule, rules, stepper
from otpe.runs.compare import compare
from otpe.runs.config import CompareConfig, TrainConfig
from otpe.runs.load import load
from otpe.runs.result import Result
from otpe.runs.task import Splits
from otpe.runs.train import train
from otpe.surrogates import arctan, fast_sigmoid, gaussian, superspike, triangular
from otpe.training import gradients, online_pass

__all__ = [
    "LIF", "Alignment", "Approx", "Bptt", "CompareConfig", "Dense", "DenseLayer", "LinearMap", "Network", "Ostl",
    "Otpe", "Ottt", "Result", "Rtrl", "Rule", "Splits", "TrainConfig",
    "accuracy", "alignment", "arctan", "compare", "datasets", "dense", "fast_sigmoid", "gaussian", "gradients", "load",
    "online_pass", "predict", "rule", "rules", "state_bytes", "stepper", "superspike", "testing", "train", "triangular",
]  # fmt: skip
