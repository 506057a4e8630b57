"""A network as text: the table that `print(net)` shows, and the line that `repr(net)` returns."""

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from otpe import neurons, tables
from otpe.layers import WeightRows
from otpe.layers.compose import description, parameters

if TYPE_CHECKING:
    from otpe.networks import Network


LINE = 100  # characters
CAPTION = "Traces: bytes per sample in float32, with one trace per input as in OTTT, or one per weight as in OSTL."


def table(net: "Network") -> str:
    """Return a table with one line per layer: map, neurons, output shape, parameters and bytes of traces per sample.

    Bytes are for float32. "trace per input" is for rules with a number per input, such as "ottt". "trace per weight" is
    for rules with a number per weight, such as "ostl", with dense traces; "–" marks a map that cannot hold them.
    """
    header = ("layer", "map", "neurons", "output", "parameters", "trace per input", "trace per weight")
    pairs = list(zip(net.layers, net.neurons, strict=True))
    numbers = [
        (parameters(layer) + _trained_numbers(layer, neuron), *_trace_bytes(layer, neuron)) for layer, neuron in pairs
    ]
    rows = [
        (str(i), description(layer), _neurons(neuron), _axes(layer.out_shape), *map(_shown, number))
        for i, (layer, neuron, number) in enumerate(zip(net.layers, net.neurons, numbers, strict=True))
    ]
    totals = [sum(n for n in column if n is not None) for column in zip(*numbers, strict=True)]
    table = tables.Table(columns=header, rows=[*rows, ("", "total", "", "", *map(_shown, totals))])
    return f"{tables.as_text(table, left=(0, 1, 2, 3))}\n{CAPTION}"


def line(net: "Network") -> str:
    """Return one line of about 100 characters at most, such as "Network(700 → dense LIF 128 → dense LIF 20)"."""
    steps = [
        f"{_kind(layer)} {type(neuron).__name__} {_axes(layer.out_shape)}"
        for layer, neuron in zip(net.layers, net.neurons, strict=True)
    ]
    first, last, left_out = steps[:-1], steps[-1:], 0
    while True:
        gap = [f"… {left_out} more …"] if left_out else []
        text = f"Network({' → '.join([_axes(net.in_shape), *first, *gap, *last])})"
        if len(text) <= LINE or not first:
            return text
        first, left_out = first[:-1], left_out + 1


def _kind(layer: Any) -> str:
    """Return the name of a map without its sizes, such as "conv". A composition gets the name of its part with the most
    parameters."""
    parts = getattr(layer, "parts", (layer,))
    largest = max(parts, key=parameters) if len(parts) > 1 else parts[0]
    return type(largest).__name__.removesuffix("Layer").lower() or type(largest).__name__


def _axes(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def _trained_numbers(layer: Any, neuron: Any) -> int:
    """Return how many trained parameters the neurons have."""
    trained = jax.eval_shape(lambda: neurons.trained(neuron, layer.out_shape, jnp.float32))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(trained))


def _trace_bytes(layer: Any, neuron: Any) -> tuple[int, int | None]:
    """Return the bytes of traces per input and per weight, or None for traces that the map cannot hold.

    A trace per input has a number for each pole of the neuron, a trace per weight one for each state.
    """
    if not parameters(layer):
        return 0, 0
    inputs, outputs = math.prod(layer.in_shape), math.prod(layer.out_shape)
    per_weight = 4 * layer.rows * outputs * neurons.state_count(neuron) if isinstance(layer, WeightRows) else None
    return 4 * (inputs + 1) * len(neurons.poles(neuron)), per_weight


def _neurons(neuron: Any) -> str:
    """Return text such as "CubaLIF 0.9 learned, 0.8": the class and its leaks."""
    leaks = []
    for name in getattr(neuron, "LEAKS", ("leak",)):
        leak = getattr(neuron, name, None)
        shown = f"{leak:.4g}" if isinstance(leak, float) else "" if leak is None else str(leak)
        leaks.append(shown + " learned" * bool(getattr(neuron, f"learn_{name}", False)))
    return f"{type(neuron).__name__} {', '.join(leaks)}".strip()


def _shown(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
