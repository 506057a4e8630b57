"""What a run begins with in place of random weights: a finished run, a file of `otpe.save`, or parameters."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from otpe import check, storage
from otpe.networks import Network
from otpe.runs.config import Settings
from otpe.runs.load import is_described, load
from otpe.runs.own import Own
from otpe.runs.result import Result


def weights(config: Settings, own: Own, net: Network) -> Any:
    """Parameters with an axis of seeds first. None where nothing is given."""
    if config.start is None and own.start is None:
        return None
    if config.start is not None and own.start is not None:
        raise ValueError(f"start is {str(config.start)!r} in the settings, and given beside them too, expected one.")
    if config.start is not None:
        found, each = read(Path(config.start), net)
        _check_same(f"start is {str(config.start)!r}, where", found, net)
    elif isinstance(own.start, Result):
        each = own.start.params
        _check_same(f"start is {own.start!r}, where", own.start.net, net)
    else:
        each = _parameters(net, own.start)
    if len(each) not in (1, config.seeds):
        raise ValueError(
            f"start has the parameters of {len(each)} networks, and seeds is {config.seeds}: expected one network for"
            " all, or as many."
        )
    each = [jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), check.params(net, params)) for params in each]
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(each)):
        raise ValueError("start holds numbers that are not finite. Name another run or file.")
    each = each * (config.seeds // len(each))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def read(path: Path, net: Network | None = None) -> tuple[Network, tuple[Any, ...]]:
    """The network and the parameters of each seed, from a run folder or a file. `net`: for one that cannot say."""
    if path.is_dir():
        result = load(path, None if is_described(path) else net)
        return result.net, result.params
    if not path.exists():
        raise FileNotFoundError(
            f"start is {str(path)!r}, which is not there. Name the folder of a finished run, or a file of otpe.save."
        )
    found, params = storage.load_network(path, None if storage.is_described(path) else net)
    return found, (params,)


def _check_same(where: str, found: Network, net: Network) -> None:
    """Weights of another network would begin another one than the settings say, and perhaps a silent one."""
    if found == net:
        return
    pairs = zip_longest(zip(found.layers, found.neurons, strict=True), zip(net.layers, net.neurons, strict=True))
    i, (theirs, mine) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    raise ValueError(
        f"{where} the network is another one: its layer {i} is {_words(theirs)}, and here it is {_words(mine)}. Give"
        " the settings of that network. Parameters alone: otpe.train(config, start=otpe.load(...).params)."
    )


def _words(pair: Any) -> str:
    if pair is None:
        return "missing"
    layer, neuron = pair
    return f"{layer} with {neuron}"


def _parameters(net: Network, given: Any) -> list[Any]:
    """Parameters of one network, or a tuple of those of several."""
    like = jax.tree.structure(jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32)))
    several = isinstance(given, tuple | list) and bool(given)
    if several and all(jax.tree.structure(each) == like for each in given):
        return list(given)
    return [check.params(net, given)]
