"""The public names of `otpe`, which come in the moment one of them is asked for."""

from otpe import datasets, testing
from otpe.analysis import Alignment, alignment, state_bytes
from otpe.layers import Dense, DenseLayer, LinearMap
from otpe.losses import accuracy, predict
from otpe.network import Network, dense
from otpe.neurons import LIF
from otpe.rulebook import Approx, Bptt, Ostl, Otpe, Ottt, Rtrl, Rule, rule, rules, stepper
from otpe.surrogates import arctan, fast_sigmoid, gaussian, superspike, triangular
from otpe.training import gradients, online_pass

__all__ = [
    "LIF", "Alignment", "Approx", "Bptt", "Dense", "DenseLayer", "LinearMap", "Network", "Ostl", "Otpe", "Ottt",
    "Rtrl", "Rule",
    "accuracy", "alignment", "arctan", "datasets", "dense", "fast_sigmoid", "gaussian", "gradients", "online_pass",
    "predict", "rule", "rules", "state_bytes", "stepper", "superspike", "testing", "triangular",
]  # fmt: skip
