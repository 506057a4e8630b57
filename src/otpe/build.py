"""Builds a network from its input shape and a list of layers."""

from collections.abc import Iterable, Sequence
from typing import Any

from otpe.layers.compose import Spec, resolve, shape_of, shown
from otpe.networks import Network

EXPECTED_PAIR = "a map and its neurons, such as (otpe.layers.dense(10), otpe.LIF(0.9))"


def network(shape: int | Iterable[int], layers: Sequence[tuple[Any, Any]]) -> Network:
    """Build a network. The shapes of its layers are inferred from the input shape.

        otpe.network((2, 34, 34), [
            (otpe.layers.conv(16, 5, stride=2), otpe.LIF(0.9)),
            (otpe.layers.avg_pool(2) >> otpe.layers.conv(32, 3), otpe.LIF(0.9)),
            (otpe.layers.flatten() >> otpe.layers.dense(10), otpe.LIF(0.9)),
        ])

    Args:
      shape: the shape of the input of one time step, without batch: a number, or several with channels first.
      layers: pairs of a map and the neurons that it drives, from input to output. A map is one of `otpe.layers`, or
        any object that satisfies the contract in `otpe/layers/linear.py`.

    Raises ValueError or TypeError, with the number of the layer, if a pair is wrong or a shape does not fit.
    """
    shape = shape_of(shape)
    if not isinstance(layers, Sequence) or isinstance(layers, str) or not layers:
        raise ValueError(f"layers is {layers!r}, expected a list of pairs: {EXPECTED_PAIR}.")
    maps, neurons = [], []
    for i, pair in enumerate(layers):
        layer, neuron = _checked_pair(i, pair)
        try:
            maps.append(resolve(layer, shape))
        except ValueError as error:
            raise ValueError(f"layer {i}: {error}") from None
        neurons.append(neuron)
        shape = tuple(maps[-1].out_shape)
    if len(shape) != 1:
        raise ValueError(
            f"layer {len(maps) - 1}: the last layer gives the shape {shown(shape)}, expected one number per class. End"
            " with (otpe.layers.flatten() >> otpe.layers.dense(classes), neurons)."
        )
    return Network(layers=tuple(maps), neurons=tuple(neurons))


def _checked_pair(i: int, pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise ValueError(f"layer {i} is {pair!r}, expected {EXPECTED_PAIR}.")
    layer, neurons = pair
    if isinstance(layer, type) or not (isinstance(layer, Spec) or hasattr(layer, "apply")):
        raise TypeError(
            f"layer {i}: the map is {layer!r}, expected one such as otpe.layers.dense(10), or an object with in_shape,"
            " out_shape, init and apply."
        )
    if isinstance(neurons, type) or not hasattr(neurons, "step"):
        raise TypeError(f"layer {i}: the neurons are {neurons!r}, expected neurons such as otpe.LIF(0.9).")
    return layer, neurons
