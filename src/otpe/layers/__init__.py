"""Linear maps from the spikes below to the currents of a layer."""

from otpe.layers.base import (
    Collector,
    Current,
    LinearMap,
    Matrix,
    WeightRows,
    apply,
    current,
    gradient,
    kept_shape,
    lift,
    narrow,
    spike_type,
    takes_apart,
    transpose,
    unlift,
)
from otpe.layers.dense import Dense, DenseLayer

__all__ = [
    "Collector", "Current", "Dense", "DenseLayer", "LinearMap", "Matrix", "WeightRows",
    "apply", "current", "gradient", "kept_shape", "lift", "narrow", "spike_type", "takes_apart", "transpose", "unlift",
]  # fmt: skip
