"""Networks and optimizers in words, and back: what a saved learner needs to be made again."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import optax

from otpe.layers import DenseLayer
from otpe.network import Network
from otpe.neurons import LIF
from otpe.runs.optimizers import OPTIMIZERS
from otpe.surrogates import arctan, fast_sigmoid, gaussian, superspike, triangular
from otpe.training.optimizer import ByValue

SURROGATES: dict[str, Any] = {kind.__name__: kind for kind in (arctan, fast_sigmoid, gaussian, superspike, triangular)}


def network(net: Network) -> dict[str, Any] | None:
    """As plain JSON. None for one that has layers or surrogates of the user's own."""
    kinds = {type(part) for part in (*net.layers, *net.neurons)}
    if not kinds <= {DenseLayer, LIF} or not {type(n.surrogate) for n in net.neurons} <= set(SURROGATES.values()):
        return None
    return {
        "layers": [asdict(layer) for layer in net.layers],  # type: ignore[call-overload]
        "neurons": [
            {"leak": n.leak, "threshold": n.threshold, "reset": n.reset, "surrogate": _surrogate(n.surrogate)}
            for n in net.neurons
        ],
    }


def network_of(said: dict[str, Any]) -> Network:
    neurons = []
    for each in said["neurons"]:
        name, *numbers = each["surrogate"]
        neurons.append(LIF(**{**each, "surrogate": SURROGATES[name](*numbers)}))
    return Network(tuple(DenseLayer(**each) for each in said["layers"]), tuple(neurons))


def optimizer(given: optax.GradientTransformation) -> list[Any] | None:
    """Name and learning rate of an optimizer of optax with nothing else set. None for any other."""
    key = ByValue(given)
    rates = {abs(number) for number in _numbers(key.key) if number}
    for name, maker in OPTIMIZERS.items():
        for rate in sorted(rates):
            if ByValue(maker.make(rate)) == key:
                return [name, rate]
    return None


def optimizer_of(said: list[Any]) -> optax.GradientTransformation:
    name, rate = said
    return OPTIMIZERS[name].make(rate)


def _surrogate(given: Any) -> list[Any]:
    return [type(given).__name__, *asdict(given).values()]


def _numbers(key: Any) -> Iterator[float]:
    if isinstance(key, tuple):
        for part in key:
            yield from _numbers(part)
    elif isinstance(key, float | int) and not isinstance(key, bool):
        yield float(key)
