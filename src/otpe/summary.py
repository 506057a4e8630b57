"""A network as a table."""

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from otpe import neurons, tables
from otpe.layers import WeightRows
from otpe.layers.compose import parameters, words

if TYPE_CHECKING:
    from otpe.networks import Network


CAPTION = "Traces: bytes per sample in float32, per input as OTTT keeps them, per weight as OSTL does."


def table(net: "Network") -> str:
    """One line per layer: its map, neurons, output shape and parameters, and the bytes of its traces per sample.

    Traces are those of float32. Per input: rules with a number per input, such as "ottt". Per weight: rules with a
    number per weight, such as "ostl", with dense traces; "–" for a map that cannot hold them.
    """
    head = ("layer", "map", "neurons", "output", "parameters", "trace per input", "trace per weight")
    pairs = list(zip(net.layers, net.neurons, strict=True))
    numbers = [(parameters(layer) + _trained(layer, neuron), *_trace_bytes(layer, neuron)) for layer, neuron in pairs]
    rows = [
        (str(i), words(layer), _neurons(neuron), "×".join(map(str, layer.out_shape)), *map(_shown, number))
        for i, (layer, neuron, number) in enumerate(zip(net.layers, net.neurons, numbers, strict=True))
    ]
    totals = [sum(n for n in column if n is not None) for column in zip(*numbers, strict=True)]
    table = tables.columns([head, *rows, ("", "total", "", "", *map(_shown, totals))], left=(0, 1, 2, 3))
    return f"{table}\n{CAPTION}"


def _trained(layer: Any, neuron: Any) -> int:
    """Number of trained numbers of the neurons."""
    own = jax.eval_shape(lambda: neurons.trained(neuron, layer.out_shape, jnp.float32))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(own))


def _trace_bytes(layer: Any, neuron: Any) -> tuple[int, int | None]:
    """A trace has a number for each state of the neuron that it passes."""
    if not parameters(layer):
        return 0, 0
    inputs, outputs = math.prod(layer.in_shape), math.prod(layer.out_shape)
    of_weights = 4 * layer.rows * outputs * neurons.state_count(neuron) if isinstance(layer, WeightRows) else None
    return 4 * (inputs + 1) * len(neurons.poles(neuron)), of_weights


def _neurons(neuron: Any) -> str:
    """Such as "CubaLIF 0.9 learned, 0.8": the leaks of a neuron of ours, the leak of another one."""
    leaks = []
    for name in getattr(neuron, "LEAKS", ("leak",)):
        leak = getattr(neuron, name, None)
        shown = f"{leak:.4g}" if isinstance(leak, float) else "" if leak is None else str(leak)
        leaks.append(shown + " learned" * bool(getattr(neuron, f"learn_{name}", False)))
    return f"{type(neuron).__name__} {', '.join(leaks)}".strip()


def _shown(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
