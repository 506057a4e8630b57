"""A network as a table."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from otpe import tables
from otpe.layers import WeightRows
from otpe.layers.compose import parameters, words

if TYPE_CHECKING:
    from otpe.network import Network


def table(net: "Network") -> str:
    """One line per layer: its map, neurons, output shape and parameters, and the bytes of its traces per sample.

    Traces are those of float32. Per input: rules with a number per input, such as "ottt". Per weight: rules with a
    number per weight, such as "ostl", with dense traces; "–" for a map that cannot hold them.
    """
    head = ("layer", "map", "neurons", "output", "parameters", "trace per input", "trace per weight")
    numbers = [(parameters(layer), *_trace_bytes(layer)) for layer in net.layers]
    rows = [
        (str(i), words(layer), _neurons(neuron), "×".join(map(str, layer.out_shape)), *map(_shown, number))
        for i, (layer, neuron, number) in enumerate(zip(net.layers, net.neurons, numbers, strict=True))
    ]
    totals = [sum(n for n in column if n is not None) for column in zip(*numbers, strict=True)]
    return tables.columns([head, *rows, ("", "total", "", "", *map(_shown, totals))], left=(0, 1, 2, 3))


def _trace_bytes(layer: Any) -> tuple[int, int | None]:
    inputs, outputs = math.prod(layer.in_shape), math.prod(layer.out_shape)
    return 4 * (inputs + 1), 4 * layer.rows * outputs if isinstance(layer, WeightRows) else None


def _neurons(neurons: Any) -> str:
    name, leak = type(neurons).__name__, getattr(neurons, "leak", None)
    if leak is None:
        return name
    low, high = float(np.min(leak)), float(np.max(leak))
    return f"{name} {low:.4g}" if low == high else f"{name} {low:.4g} to {high:.4g}"


def _shown(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
