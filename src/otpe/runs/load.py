"""A finished run from its folder."""

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from otpe import contents, tensors
from otpe.networks import Network
from otpe.runs import checkpoint, folder, settings
from otpe.runs.config import TrainConfig
from otpe.runs.own import stored_net
from otpe.runs.read import read_training
from otpe.runs.result import Result, from_json
from otpe.runs.result import read as read_result

BEST = "best.params."


def load(path: str | Path, net: Network | None = None) -> Result:
    """A finished run: its numbers, its metrics and the networks it trained. The data need not be there.

    `net`: the network, if it has maps, neurons or surrogates of your own, which no file can hold.
    """
    where = Path(path)
    if os.path.exists(where / "config.json") and "rules" in folder.read_json(where / "config.json"):
        runs = ", ".join(sorted(found.parent.name for found in where.glob("*/result.json")))
        raise ValueError(
            f"{where} holds a comparison. Name the folder of one of its runs: {runs or 'none is finished'}."
        )
    config = folder.stored(TrainConfig, where)
    newest = checkpoint.newest(where / "checkpoints", last=config.steps)
    if not (where / "result.json").exists():
        raise FileNotFoundError(
            f"{where} holds a run that is not finished. Go on with: otpe train --resume --out {where}"
        )
    if newest is None or newest.name != checkpoint.name(config.steps):
        raise FileNotFoundError(f"{where} holds a finished run whose last checkpoint, with its weights, is gone.")
    found, (arrays, _) = read_result(where / "result.json"), tensors.read(newest, checkpoint.KIND)
    best = {name.removeprefix(BEST): array for name, array in arrays.items() if name.startswith(BEST)}
    with contents.reading(newest):
        weights = params(where, best, net)
        net = _network(where, best) if net is None else net
    return from_json(found, where, net, weights, read_training(where))


def params(where: Path, arrays: dict[str, np.ndarray], net: Network | None = None) -> Any:
    """The parameters of the networks of a run, from arrays by name, such as 0.kernel."""
    given, net = net is not None, _network(where, arrays) if net is None else net
    seeds = len(next(iter(arrays.values()), ()))
    keys = jax.random.split(jax.random.key(0), seeds)
    like = jax.eval_shape(jax.vmap(lambda key: net.init(key, jnp.float32)), keys)
    names = checkpoint.named(like)
    if {name: leaf.shape for name, leaf in names.items()} != {name: array.shape for name, array in arrays.items()}:
        if given:
            raise contents.ContentError(f"{where} holds the parameters of another network than the one given.")
        raise ValueError("it holds the parameters of another network than config.json describes")
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(arrays[name]) for name in names])


def is_described(path: str | Path) -> bool:
    """Does the folder say what network was trained? Not where parts of it are a user's own."""
    where = Path(path) / "config.json"
    return not where.is_file() or not isinstance(folder.read_json(where).get("own_net"), str)


def _network(where: Path, arrays: dict[str, np.ndarray]) -> Network:
    about = folder.read_json(where / "config.json")
    if not is_described(where):
        raise contents.ContentError(
            f"{where} holds a run of a network of your own. Hand it over: otpe.load({str(where)!r}, net=...)."
        )
    with contents.reading(where / "config.json"):
        known = stored_net(about)
        if known is not None:
            return known
        config = folder.stored(TrainConfig, where)
        if "data_shape" in about:
            said = contents.typed(about, {"data_shape": list[int], "data_classes": int})
            return settings.network(config, tuple(said["data_shape"]), said["data_classes"])
        last = len(config.hidden)  # a run of an earlier version, which had dense layers only
        inputs, classes = arrays["0.kernel"].shape[1], arrays[f"{last}.kernel"].shape[2]
        return settings.network(config, inputs, classes)
