"""Linear maps from the spikes below to the currents of a layer.

`conv`, `avg_pool`, `sum_pool`, `flatten`, `dense`, `masked` and `grouped` describe a map without its input shape, and
`>>` joins them: `flatten() >> dense(10)`. `otpe.network` works out the shapes. A map of one's own is a class with the
contract in `layers/base.py`.
"""

from otpe.layers.compose import Composition, CompositionWithRows, Spec, compose
from otpe.layers.convolution import Conv, ConvLayer, conv
from otpe.layers.linear import (
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
from otpe.layers.matrix import Dense, DenseLayer, MaskedLayer, dense, grouped, masked
from otpe.layers.pooling import FlattenLayer, PoolLayer, avg_pool, flatten, sum_pool

__all__ = [
    "Collector", "Composition", "CompositionWithRows", "Conv", "ConvLayer", "Current", "Dense", "DenseLayer",
    "FlattenLayer", "LinearMap", "MaskedLayer", "Matrix", "PoolLayer", "Spec", "WeightRows",
    "apply", "avg_pool", "compose", "conv", "current", "dense", "flatten", "gradient", "grouped", "kept_shape", "lift",
    "masked", "narrow", "spike_type", "sum_pool", "takes_apart", "transpose", "unlift",
]  # fmt: skip
