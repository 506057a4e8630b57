"""A finished run from its folder."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from otpe import check, contents, files, storage, tensors
from otpe.lab.records import STUDIES, kind_of, read_training
from otpe.lab.runs import build_network, checkpoint, folder
from otpe.lab.runs.custom import Own, stored_net
from otpe.lab.runs.results import Result, from_json
from otpe.lab.runs.results import read as read_result
from otpe.lab.settings import Settings, TrainConfig
from otpe.networks import Network

BEST = "best.params."


def load(path: str | Path, net: Network | None = None) -> Result:
    """A finished run: its numbers, its metrics and the networks it trained. The data need not be there.

    `net`: the network, if it has maps, neurons or surrogates of your own, which no file can hold.
    """
    where = Path(path)
    kind = kind_of(folder.read_config(where)) if os.path.exists(where / "config.json") else None
    if kind in STUDIES:
        runs = ", ".join(sorted(found.parent.name for found in where.glob("*/result.json")))
        raise ValueError(
            f"{where} holds {STUDIES[kind]}. Name the folder of one of its runs: {runs or 'none is finished'}."
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
    names = checkpoint.named_leaves(like)
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
            return build_network.network(config, tuple(said["data_shape"]), said["data_classes"])
        last = len(config.hidden)  # a run of an earlier version, which had dense layers only
        inputs, classes = arrays["0.kernel"].shape[1], arrays[f"{last}.kernel"].shape[2]
        return build_network.network(config, inputs, classes)


# --------------------
# Weights along the way: a file every so many mini-batches, to look back at how a network came to be what it is.


SNAPSHOT = "weights along a training run"
MOST_WAITING = 4  # at most, until training waits for a slow disk


class SnapshotWriter:
    """Writes them while training goes on."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.pool = ThreadPoolExecutor(1)
        self.begun: list[Future[None]] = []

    def save(self, step: int, params: Any) -> None:
        if len(self.begun) == MOST_WAITING:
            self.begun.pop(0).result()
        self.begun.append(self.pool.submit(save_snapshot, self.run, step, params))

    def settle(self) -> None:
        """What was saved is on the disk: a checkpoint that is written now may rely on it."""
        while self.begun:
            self.begun.pop(0).result()

    def close(self) -> None:
        self.pool.shutdown()


def save_snapshot(run: Path, step: int, params: Any) -> None:
    files.make_folder(run / "snapshots")
    arrays = {name: np.asarray(leaf) for name, leaf in checkpoint.named_leaves(params).items()}
    tensors.write(run / "snapshots" / checkpoint.name(step), SNAPSHOT, arrays, {"step": step})


def read_snapshot(run: Path, net: Network | None = None) -> tuple[np.ndarray, Any]:
    """The steps [K], and the parameters of all networks [K, S, ...]. `net`: where it is one of the user's own."""
    paths = checkpoint.everything(run / "snapshots")
    if not paths:
        raise FileNotFoundError(
            f"{run} holds no weights along the way. Train with snapshots, such as --snapshots 200, in another folder."
        )
    found = [tensors.read(path, SNAPSHOT, {"step": int}) for path in paths]
    with contents.reading(run / "snapshots"):
        structure = params(run, found[0][0], net)  # of the first, which the others are like
        leaves = [np.stack([arrays[name] for arrays, _ in found]) for name in checkpoint.named_leaves(structure)]
    return np.array([about["step"] for _, about in found]), jax.tree.unflatten(jax.tree.structure(structure), leaves)


# --------------------
# What a run begins with in place of random weights: a finished run, a file of `otpe.save`, or parameters.


def starting_weights(config: Settings, own: Own, net: Network) -> Any:
    """Parameters with an axis of seeds first. None where nothing is given."""
    if config.start is None and own.start is None:
        return None
    if config.start is not None and own.start is not None:
        raise ValueError(f"start is {str(config.start)!r} in the settings, and given beside them too, expected one.")
    if config.start is not None:
        found, each = read_start(Path(config.start), net)
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


def read_start(path: Path, net: Network | None = None) -> tuple[Network, tuple[Any, ...]]:
    """The network and the parameters of each seed, from a run folder or a file. `net`: for one that cannot say."""
    if path.is_dir():
        result = load(path, None if is_described(path) else net)
        return result.net, result.params
    if not path.exists():
        raise FileNotFoundError(
            f"start is {str(path)!r}, which is not there. Name the folder of a finished run, or a file of otpe.save."
        )
    found, params = storage.load_network(path, None if storage.describes_network(path) else net)
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
