"""The network that settings describe."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from otpe import build, check, layers, neurons, surrogates
from otpe.lab.nested_settings import field_names
from otpe.lab.settings import NetworkSettings
from otpe.networks import Network
from otpe.surrogates import Surrogate

MOST = 2**31
LEARN: dict[str, Any] = {"no": False, "layer": True, "neuron": "neuron"}
SETTINGS = {"strength": "adaptation_strength"}  # fields of neurons whose setting has another name


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
    kinds = {name: _fields(kind) for name, kind in neurons.NAMED.items() if neurons.is_spiking(kind)}
    check.one_of("neuron", settings.neuron, kinds)
    for kind, names in kinds.items():
        for name in names.keys() - kinds["lif"].keys() - kinds[settings.neuron].keys():
            if getattr(settings, name) != getattr(NetworkSettings, name):
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
    """Return the neurons of a layer. Each of their fields that is a setting has its value."""
    kind = neurons.LeakyIntegrator if output and settings.readout == "integrator" else neurons.NAMED[settings.neuron]
    given = {field: getattr(settings, name) for name, field in _fields(kind).items()}
    given = {field: LEARN[value] if field.startswith("learn_") else value for field, value in given.items()}
    if "leak" in given and settings.leak_to is not None:
        given["leak"] = neurons.Uniform(settings.leak, settings.leak_to, seed=layer)
    if "surrogate" in given:
        given["surrogate"] = surrogate(settings)
    return kind(**given)


def _fields(kind: Any) -> dict[str, str]:
    """Return the fields of a neuron that are settings, by the name of the setting."""
    found = {SETTINGS.get(field.name, field.name): field.name for field in fields(kind)}
    return {name: field for name, field in found.items() if name in field_names(NetworkSettings)}


def surrogate(settings: NetworkSettings) -> Surrogate:
    """Return the surrogate derivative of these settings."""
    check.one_of("surrogate", settings.surrogate, surrogates.NAMED)
    made: Any = surrogates.NAMED[settings.surrogate]
    return made() if settings.slope is None else made(settings.slope)
