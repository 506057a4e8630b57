"""Networks in files: what they are made of as plain JSON, their parameters as arrays.

otpe.save("net.safetensors", net, params)
net, params = otpe.load_network("net.safetensors")
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from otpe import check, contents, layers, neurons, surrogates, tensors
from otpe.losses import Loss
from otpe.networks import Network

KIND = "network"


def save(path: str | Path, net: Network, params: Any) -> Path:
    """Write a network and its parameters to one file: whole or not at all, with a hash of its content.

    Maps, neurons and surrogates of your own cannot be written. Their parameters can: hand the network to
    `load_network` then.
    """
    params = check.params(net, params)
    arrays = {name: np.asarray(leaf) for name, leaf in named(params).items()}
    bad = [name for name, array in arrays.items() if not np.isfinite(array.astype(np.float64)).all()]
    if bad:
        raise ValueError(f"params hold numbers that are not finite, in {bad[0]}. {path} was not written.")
    tensors.write(Path(path), KIND, arrays, {"net": described(net)})
    return Path(path)


def load_network(path: str | Path, net: Network | None = None) -> tuple[Network, Any]:
    """The network and the parameters that `save` wrote. `net`: the network, where the file cannot describe it."""
    path = Path(path)
    arrays, about = tensors.read(path, KIND, {"net": dict | None})
    if net is None:
        if about["net"] is None:
            raise ValueError(
                f"{path} holds a network with maps, neurons or surrogates of your own, which a file cannot hold. Hand"
                f" it over: otpe.load_network({str(path)!r}, net)."
            )
        with contents.reading(path):
            net = network_of(about["net"])
    check.network(net)
    like = named(jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32)))
    given, wanted = ({name: np.shape(a) for name, a in these.items()} for these in (arrays, like))
    if given != wanted:
        differing = sorted(set(given.items()) ^ set(wanted.items()))[0]
        raise contents.ContentError(
            f"{path} does not fit the network: {differing[0]} has the shape {list(given.get(differing[0], ()))} in the"
            f" file and {list(wanted.get(differing[0], ()))} in the network."
        )
    structure = jax.tree.structure(jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32)))
    return net, jax.tree.unflatten(structure, [jnp.asarray(arrays[name]) for name in like])


def is_described(path: str | Path) -> bool:
    """Does the file that `save` wrote say what the network is made of?"""
    return tensors.read(Path(path), KIND, {"net": dict | None})[1]["net"] is not None


def named(tree: Any) -> dict[str, Any]:
    """Every leaf by its place, such as params.0.kernel."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(place, simple=True, separator="."): leaf for place, leaf in leaves}


# A network as plain JSON


def described(net: Network) -> dict[str, Any] | None:
    """As plain JSON. None for a network with maps, neurons or surrogates of a user's own."""
    try:
        return {"layers": [_plain(layer) for layer in net.layers], "neurons": [_plain(each) for each in net.neurons]}
    except _OwnError:
        return None


def network_of(said: Mapping[str, Any]) -> Network:
    """The network that `described` wrote, of this version or an earlier one."""
    maps = [_made({"kind": "DenseLayer", **each}) for each in said["layers"]]
    return Network(tuple(maps), tuple(_neuron_of(each) for each in said["neurons"]))


def loss_described(loss: Loss) -> dict[str, Any] | None:
    """As plain JSON. None for a function of a user's own."""
    if callable(loss.function):
        return None
    return {"function": loss.function, "rate": loss.rate, "rate_weight": loss.rate_weight}


def _neuron_of(said: Mapping[str, Any]) -> Any:
    if "kind" in said:
        return _made(said)
    name, *numbers = said["surrogate"]  # as version 0.1 wrote LIF neurons
    return neurons.LIF(**{**said, "surrogate": _kinds()[name](*numbers)})


class _OwnError(Exception):
    """Something of a user's own, which has no description."""


@lru_cache
def _kinds() -> dict[str, Any]:
    """Everything that a network may be made of, by the name of its class."""
    found = {}
    for module in (layers, neurons, surrogates):
        for name, kind in vars(module).items():
            if isinstance(kind, type) and (is_dataclass(kind) or kind is neurons.PerNeuron):
                found[name] = kind
    return found


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    kind = type(value)
    if _kinds().get(kind.__name__) is not kind:
        raise _OwnError
    if isinstance(value, neurons.PerNeuron):
        return {"kind": kind.__name__, "values": value.values.tolist()}
    return {"kind": kind.__name__, **{field.name: _plain(getattr(value, field.name)) for field in fields(value)}}


def _made(said: Any) -> Any:
    if isinstance(said, list):
        return tuple(_made(each) for each in said)
    if not isinstance(said, Mapping):
        return said
    given = {name: _made(value) for name, value in said.items() if name != "kind"}
    if said["kind"] not in _kinds():
        raise ValueError(f"it holds a {said['kind']!r}, which this version of otpe does not know")
    return _kinds()[said["kind"]](**given)
