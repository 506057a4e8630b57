"""Networks in files: the structure as plain JSON, the parameters as arrays.

A file can describe a network of registered classes: `NAMED` of `otpe.layers`, `otpe.neurons` and `otpe.surrogates`.

    otpe.save("net.safetensors", net, params)
    net, params = otpe.load_network("net.safetensors")
"""

from collections.abc import Mapping
from dataclasses import fields
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
    """Write a network and its parameters to one file, atomically and with a hash of the content.

    Maps, neurons and surrogates of your own cannot be written, but their parameters can. In that case pass the network
    to `load_network`. Raises ValueError, and writes nothing, if a parameter is not finite.
    """
    params = check.params(net, params)
    arrays = {name: np.asarray(leaf) for name, leaf in named_leaves(params).items()}
    bad = [name for name, array in arrays.items() if not np.isfinite(array.astype(np.float64)).all()]
    if bad:
        raise ValueError(f"params hold numbers that are not finite, in {bad[0]}. {path} was not written.")
    tensors.write(Path(path), KIND, arrays, {"net": network_to_json(net)})
    return Path(path)


def load_network(path: str | Path, net: Network | None = None) -> tuple[Network, Any]:
    """Return the network and the parameters that `save` wrote. `net` is needed if the file cannot describe it.

    Raises ValueError if the file is damaged, or does not fit the network.
    """
    path = Path(path)
    arrays, about = tensors.read(path, KIND, {"net": dict | None})
    if net is None:
        if about["net"] is None:
            raise ValueError(
                f"{path} holds a network with maps, neurons or surrogates of your own, which a file cannot hold. Hand"
                f" it over: otpe.load_network({str(path)!r}, net)."
            )
        with contents.reading(path):
            net = network_from_json(about["net"])
    check.network(net)
    like = jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32))
    names = named_leaves(like)
    given, expected = ({name: np.shape(a) for name, a in leaves.items()} for leaves in (arrays, names))
    if given != expected:
        name = sorted(set(given.items()) ^ set(expected.items()))[0][0]
        raise contents.ContentError(
            f"{path} does not fit the network: {name} has the shape {list(given.get(name, ()))} in the file and"
            f" {list(expected.get(name, ()))} in the network."
        )
    return net, jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(arrays[name]) for name in names])


def describes_network(path: str | Path) -> bool:
    """Return whether a file that `save` wrote describes the network, so that `load_network` does not need it."""
    return tensors.read(Path(path), KIND, {"net": dict | None})[1]["net"] is not None


def named_leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree, each under its path, such as "0.kernel"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


# A network as plain JSON


def network_to_json(net: Network) -> dict[str, Any] | None:
    """Return a network as plain JSON, or None if it has user-defined maps, neurons or surrogates."""
    try:
        return {
            "layers": [_to_json(layer) for layer in net.layers],
            "neurons": [_to_json(neuron) for neuron in net.neurons],
        }
    except _UserDefinedError:
        return None


def network_from_json(plain: Mapping[str, Any]) -> Network:
    """Return the network for the output of `network_to_json`, of this version or an earlier one."""
    maps = [_from_json({"kind": "DenseLayer", **layer}) for layer in plain["layers"]]
    return Network(tuple(maps), tuple(_neuron_from_json(neuron) for neuron in plain["neurons"]))


def loss_to_json(loss: Loss) -> dict[str, Any] | None:
    """Return a loss as plain JSON, or None if it is a user-defined function."""
    if callable(loss.function):
        return None
    return {"function": loss.function, "rate": loss.rate, "rate_weight": loss.rate_weight}


def _neuron_from_json(plain: Mapping[str, Any]) -> Any:
    if "kind" in plain:
        return _from_json(plain)
    name, *numbers = plain["surrogate"]  # as version 0.1 wrote LIF neurons
    return neurons.LIF(**{**plain, "surrogate": _kinds()[name](*numbers)})


class _UserDefinedError(Exception):
    """An object is user-defined, so it has no description."""


def _kinds() -> dict[str, Any]:
    """Return the classes that a network in a file may consist of, by the name of the class."""
    maps = [*map(type, layers.NAMED.values()), layers.Composition, layers.CompositionWithRows]
    leaks = [neurons.Uniform, neurons.PerNeuron]
    return {kind.__name__: kind for kind in (*maps, *neurons.NAMED.values(), *leaks, *surrogates.NAMED.values())}


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_to_json(each) for each in value]
    kind = type(value)
    if _kinds().get(kind.__name__) is not kind:
        raise _UserDefinedError
    if isinstance(value, neurons.PerNeuron):
        return {"kind": kind.__name__, "values": value.values.tolist()}
    return {"kind": kind.__name__, **{field.name: _to_json(getattr(value, field.name)) for field in fields(value)}}


def _from_json(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_from_json(each) for each in plain)
    if not isinstance(plain, Mapping):
        return plain
    settings = {name: _from_json(value) for name, value in plain.items() if name != "kind"}
    if plain["kind"] not in _kinds():
        raise ValueError(f"it holds a {plain['kind']!r}, which this version of otpe does not know")
    return _kinds()[plain["kind"]](**settings)
