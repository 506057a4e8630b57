"""Linear maps from the spikes below to the currents of a layer.

`conv`, `avg_pool`, `sum_pool`, `flatten`, `dense`, `masked` and `grouped` describe a map without its input shape, and
`>>` joins them: `flatten() >> dense(10)`. `otpe.network` works out the shapes. For a map of your own, write a class
with the contract in `layers/linear.py`.

To add a map to otpe, write its class and its function in a file of this folder, and add a line to `NAMED` below. Files
of networks can then hold it, and the tests check it with every rule.
"""

from typing import Any

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
    lift,
    narrow,
    spike_type,
    storage_shape,
    transpose,
    unlift,
    uses_parts,
)
from otpe.layers.matrix import Dense, DenseLayer, MaskedLayer, dense, grouped, masked
from otpe.layers.pooling import FlattenLayer, PoolLayer, avg_pool, flatten, sum_pool

NAMED: dict[str, Any] = {  # a small example of each kind of map
    "dense": dense(5).on(4),
    "masked": masked([[True, False, True], [True, True, False], [False, True, False], [True, False, False]]).on(4),
    "conv": conv(3, 3).on((2, 7)),
    "pool": avg_pool(2).on((2, 4, 5)),
    "flatten": flatten().on((2, 3)),
}

__all__ = [
    "NAMED", "Collector", "Composition", "CompositionWithRows", "Conv", "ConvLayer", "Current", "Dense", "DenseLayer",
    "FlattenLayer", "LinearMap", "MaskedLayer", "Matrix", "PoolLayer", "Spec", "WeightRows",
    "apply", "avg_pool", "compose", "conv", "current", "dense", "flatten", "gradient", "grouped", "lift", "masked",
    "narrow", "spike_type", "storage_shape", "sum_pool", "transpose", "unlift", "uses_parts",
]  # fmt: skip
