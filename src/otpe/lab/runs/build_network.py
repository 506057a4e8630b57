"""The network that settings describe."""

import math
from collections.abc import Sequence
from typing import Any

from otpe import build, check, layers, neurons
from otpe.lab.settings import Settings
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
NETWORK = (
    "conv", "conv_kernel", "conv_stride", "conv_pool", "hidden", "neuron", "leak", "leak_to", *NEEDS, "learn_leak",
    "readout", "threshold", "reset", "surrogate", "slope",
)  # fmt: skip


def network(config: Settings, inputs: int | Sequence[int], classes: int) -> Network:
    """The network of these settings, for data of this shape: units, or channels first."""
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    check_network(config)
    if not config.conv:
        shape = (math.prod(shape),)
    if config.conv and len(shape) != 3:
        raise ValueError(
            f"conv is {config.conv!r}, which is for data on a grid of channels, height and width, but the data has the"
            f" shape {list(shape)}. Leave conv out."
        )
    maps, last = [], None

    def add(spec: Any) -> None:
        maps.append(spec if last is None else last >> spec)

    for channels in config.conv:
        add(layers.conv(channels, config.conv_kernel, config.conv_stride, "same"))
        last = layers.avg_pool(config.conv_pool) if config.conv_pool > 1 else None
    if config.conv:
        last = layers.flatten() if last is None else last >> layers.flatten()
    for units in (*config.hidden, classes):
        add(layers.dense(units))
        last = None
    kinds = [_neuron(config, i, output=i == len(maps) - 1) for i in range(len(maps))]
    return build.network(shape, list(zip(maps, kinds, strict=True)))


def check_network(config: Settings) -> None:
    """Do the settings of the network make sense, whatever the data?"""
    for name, what, example in (("hidden", "units", "(128, 128)"), ("conv", "channels", "(16, 32)")):
        given = getattr(config, name)
        if not isinstance(given, tuple | list):
            raise ValueError(f"{name} is {given!r}, expected the {what} of each {name} layer, such as {example}.")
        for width in given:
            check.count(name, width, MOST - 1)
    for name in ("conv_kernel", "conv_stride", "conv_pool"):
        value = check.count(name, getattr(config, name), MOST - 1)
        if value != getattr(Settings, name) and not config.conv:
            raise ValueError(f"{name} is {value}, but there is no convolution. Give conv, such as 16 32.")
    for name, kind in NEEDS.items():
        if getattr(config, name) != getattr(Settings, name) and config.neuron != kind:
            raise ValueError(
                f"{name} is {getattr(config, name)!r}, which is for neuron {kind!r}, but neuron is {config.neuron!r}."
            )
    if config.leak_to is not None:
        neurons.LIF(config.leak)  # is it a leak at all?
        top = check.number("leak_to", config.leak_to, "a number in [0, 1)", lambda x: 0 <= x < 1)
        if not config.leak < top:
            raise ValueError(f"leak_to is {top} and leak is {config.leak}, expected leak_to to be the larger one.")
        if config.learn_leak == "layer":
            raise ValueError("learn_leak is 'layer', but with leak_to every neuron has its own leak. Use 'neuron'.")
    if config.loss == "membrane" and config.readout == "spiking":
        raise ValueError(
            "loss is 'membrane', but the output neurons spike. Use readout 'integrator', or the loss 'spikes' or"
            " 'leaky'."
        )
    _neuron(config, 0, output=False)


def _neuron(config: Settings, layer: int, *, output: bool) -> Any:
    """The neurons of a layer."""
    check.one_of("neuron", config.neuron, KINDS)
    leak = config.leak if config.leak_to is None else neurons.Uniform(config.leak, config.leak_to, seed=layer)
    learn = LEARN[config.learn_leak]
    if output and config.readout == "integrator":
        return neurons.LeakyIntegrator(leak, learn_leak=learn)
    usual = (config.threshold, surrogate(config), config.reset, learn)
    if config.neuron == "cuba":
        return neurons.CubaLIF(leak, config.current_leak, *usual, LEARN[config.learn_current_leak])
    if config.neuron == "adaptive":
        own = (config.adaptation_leak, config.adaptation_strength)
        return neurons.AdaptiveLIF(leak, *own, *usual, LEARN[config.learn_adaptation_leak])
    return neurons.LIF(leak, *usual)


def surrogate(config: Settings) -> Surrogate:
    check.one_of("surrogate", config.surrogate, SURROGATES)
    made = SURROGATES[config.surrogate]
    return made() if config.slope is None else made(config.slope)
