"""The network that settings describe."""

import math
from collections.abc import Sequence
from typing import Any

from otpe import build, check, layers, neurons
from otpe.lab.settings import NetworkSettings
from otpe.networks import Network
from otpe.surrogates import Surrogate, arctan, fast_sigmoid, gaussian, superspike, triangular

MOST = 2**31
KINDS = ("lif", "cuba", "adaptive")
SURROGATES: dict[str, Any] = {
    "fast-sigmoid": fast_sigmoid, "superspike": superspike, "arctan": arctan, "triangular": triangular,
    "gaussian": gaussian,
}  # fmt: skip
LEARN: dict[str, Any] = {"no": False, "layer": True, "neuron": "neuron"}
NEEDS = {  # settings that are for one kind of neuron
    **dict.fromkeys(("current_leak", "learn_current_leak"), "cuba"),
    **dict.fromkeys(("adaptation_leak", "adaptation_strength", "learn_adaptation_leak"), "adaptive"),
}


def network(settings: NetworkSettings, inputs: int | Sequence[int], classes: int) -> Network:
    """Return the network of these settings, for data of this shape: units, or channels first."""
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    check_network(settings)
    if not settings.conv:
        shape = (math.prod(shape),)
    if settings.conv and len(shape) != 3:
        raise ValueError(
            f"conv is {settings.conv!r}, which is for data on a grid of channels, height and width, but the data has"
            f" the shape {list(shape)}. Leave conv out."
        )
    maps, last = [], None

    def add(spec: Any) -> None:
        maps.append(spec if last is None else last >> spec)

    for channels in settings.conv:
        add(layers.conv(channels, settings.conv_kernel, settings.conv_stride, "same"))
        last = layers.avg_pool(settings.conv_pool) if settings.conv_pool > 1 else None
    if settings.conv:
        last = layers.flatten() if last is None else last >> layers.flatten()
    for units in (*settings.hidden, classes):
        add(layers.dense(units))
        last = None
    kinds = [_neuron(settings, i, output=i == len(maps) - 1) for i in range(len(maps))]
    return build.network(shape, list(zip(maps, kinds, strict=True)))


def check_network(settings: NetworkSettings) -> None:
    """Raise ValueError for invalid settings of the network, whatever the data."""
    for name, what, example in (("hidden", "units", "(128, 128)"), ("conv", "channels", "(16, 32)")):
        given = getattr(settings, name)
        if not isinstance(given, tuple | list):
            raise ValueError(f"{name} is {given!r}, expected the {what} of each {name} layer, such as {example}.")
        for width in given:
            check.count(name, width, MOST - 1)
    for name in ("conv_kernel", "conv_stride", "conv_pool"):
        value = check.count(name, getattr(settings, name), MOST - 1)
        if value != getattr(NetworkSettings, name) and not settings.conv:
            raise ValueError(f"{name} is {value}, but there is no convolution. Give conv, such as 16 32.")
    for name, kind in NEEDS.items():
        if getattr(settings, name) != getattr(NetworkSettings, name) and settings.neuron != kind:
            raise ValueError(
                f"{name} is {getattr(settings, name)!r}, which is for neuron {kind!r}, but neuron is"
                f" {settings.neuron!r}."
            )
    if settings.leak_to is not None:
        neurons.LIF(settings.leak)  # raises if leak is invalid
        top = check.number("leak_to", settings.leak_to, "a number in [0, 1)", lambda x: 0 <= x < 1)
        if not settings.leak < top:
            raise ValueError(f"leak_to is {top} and leak is {settings.leak}, expected leak_to to be the larger one.")
        if settings.learn_leak == "layer":
            raise ValueError("learn_leak is 'layer', but with leak_to every neuron has its own leak. Use 'neuron'.")
    _neuron(settings, 0, output=False)


def _neuron(settings: NetworkSettings, layer: int, *, output: bool) -> Any:
    """Return the neurons of a layer."""
    check.one_of("neuron", settings.neuron, KINDS)
    leak = settings.leak if settings.leak_to is None else neurons.Uniform(settings.leak, settings.leak_to, seed=layer)
    learn = LEARN[settings.learn_leak]
    if output and settings.readout == "integrator":
        return neurons.LeakyIntegrator(leak, learn_leak=learn)
    usual = (settings.threshold, surrogate(settings), settings.reset, learn)
    if settings.neuron == "cuba":
        return neurons.CubaLIF(leak, settings.current_leak, *usual, LEARN[settings.learn_current_leak])
    if settings.neuron == "adaptive":
        own = (settings.adaptation_leak, settings.adaptation_strength)
        return neurons.AdaptiveLIF(leak, *own, *usual, LEARN[settings.learn_adaptation_leak])
    return neurons.LIF(leak, *usual)


def surrogate(settings: NetworkSettings) -> Surrogate:
    """Return the surrogate derivative of these settings."""
    check.one_of("surrogate", settings.surrogate, SURROGATES)
    made = SURROGATES[settings.surrogate]
    return made() if settings.slope is None else made(settings.slope)
