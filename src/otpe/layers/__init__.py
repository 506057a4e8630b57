"""Linear maps from the spikes below to the currents of a layer."""

from otpe.layers.base import LinearMap, WeightRows, gradient, lift, transpose, unlift
from otpe.layers.dense import Dense, DenseLayer

__all__ = ["Dense", "DenseLayer", "LinearMap", "WeightRows", "gradient", "lift", "transpose", "unlift"]
