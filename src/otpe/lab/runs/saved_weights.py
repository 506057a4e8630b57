"""Weights in files: those of a finished run, snapshots during training, and weights to start with."""

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
from otpe.lab.runs.custom import CustomParts, stored_net
from otpe.lab.runs.results import Result, from_json
from otpe.lab.runs.results import read as read_result
from otpe.lab.runs.task import parameter_shapes
from otpe.lab.settings import Settings, TrainConfig
from otpe.networks import Network

BEST = "best.params."


def load(path: str | Path, net: Network | None = None) -> Result:
    """Return a finished run from its folder: its numbers, its metrics and the trained networks. Needs no data.

    `net` is needed if the network has maps, neurons or surrogates of your own, which a file cannot hold.
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
        net, weights = _with_params(where, best, net)
    return from_json(found, where, net, weights, read_training(where))


def is_described(path: str | Path) -> bool:
    """Return whether a run folder describes its network. It cannot if parts of the network are a user's own."""
    where = Path(path) / "config.json"
    return not where.is_file() or not isinstance(folder.read_json(where).get("own_net"), str)


def _with_params(where: Path, arrays: dict[str, np.ndarray], given: Network | None) -> tuple[Network, Any]:
    """Return the network of a run, and the parameters of all seeds from arrays by name, such as 0.kernel."""
    net = _network(where, arrays) if given is None else given
    seeds = len(next(iter(arrays.values()), ()))
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((seeds, *leaf.shape), leaf.dtype), parameter_shapes(net))
    params = checkpoint.from_arrays(arrays, like)
    if params is None and given is not None:
        raise contents.ContentError(f"{where} holds the parameters of another network than the one given.")
    if params is None:
        raise ValueError("it holds the parameters of another network than config.json describes")
    return net, params


def _network(where: Path, arrays: dict[str, np.ndarray]) -> Network:
    about = folder.read_json(where / "config.json")
    if not is_described(where):
        raise contents.ContentError(
            f"{where} holds a run of a network of your own. Hand it over: otpe.load({str(where)!r}, net=...)."
        )
    with contents.reading(where / "config.json"):
        described = stored_net(about)
        if described is not None:
            return described
        config = folder.stored(TrainConfig, where)
        if "data_shape" in about:
            contents.typed(about, {"data_shape": list[int], "data_classes": int})
            return build_network.network(config, tuple(about["data_shape"]), about["data_classes"])
        last = len(config.hidden)  # an earlier version wrote the run, and had dense layers only
        return build_network.network(config, arrays["0.kernel"].shape[1], arrays[f"{last}.kernel"].shape[2])


# Snapshots: a file with the weights after every few mini-batches

SNAPSHOT = "weights along a training run"
MOST_WAITING = 4  # snapshots. Then training waits for the disk


class SnapshotWriter:
    """Writes snapshots while training continues."""

    def __init__(self, run: Path) -> None:
        self.run, self.pool = run, ThreadPoolExecutor(1)
        self.waiting: list[Future[None]] = []

    def save(self, step: int, params: Any) -> None:
        if len(self.waiting) == MOST_WAITING:
            self.waiting.pop(0).result()
        self.waiting.append(self.pool.submit(save_snapshot, self.run, step, params))

    def flush(self) -> None:
        """Wait until all snapshots are on the disk. Called before a checkpoint, whose snapshots must not get lost."""
        while self.waiting:
            self.waiting.pop(0).result()

    def close(self) -> None:
        self.pool.shutdown()


def save_snapshot(run: Path, step: int, params: Any) -> None:
    files.make_folder(run / "snapshots")
    tensors.write(run / "snapshots" / checkpoint.name(step), SNAPSHOT, checkpoint.to_arrays(params), {"step": step})


def read_snapshot(run: Path, net: Network | None = None) -> tuple[np.ndarray, Any]:
    """Return the steps [K], and the parameters of all networks [K, S, …], that a run with `snapshots` has saved.

    Args:
      run: the folder of the run.
      net: the network. Needed if it has parts of your own.
    """
    paths = checkpoint.everything(run / "snapshots")
    if not paths:
        raise FileNotFoundError(
            f"{run} has no snapshots of the weights. Train with snapshots, such as --snapshots 200, in another folder."
        )
    found = [tensors.read(path, SNAPSHOT, {"step": int}) for path in paths]
    with contents.reading(run / "snapshots"):
        net, _ = _with_params(run, found[0][0], net)
        each = [_with_params(run, arrays, net)[1] for arrays, _ in found]
    return np.array([about["step"] for _, about in found]), jax.tree.map(lambda *leaves: np.stack(leaves), *each)


# Weights to start with in place of random ones: of a finished run, of a file of `otpe.save`, or given as parameters


def starting_weights(config: Settings, own: CustomParts, net: Network) -> Any:
    """Return the parameters of all seeds [S, …], or None if nothing is given."""
    if config.start is None and own.start is None:
        return None
    if config.start is not None and own.start is not None:
        raise ValueError(f"start is {str(config.start)!r} in the settings, and given as an argument too, expected one.")
    if config.start is not None:
        found, each = read_start(Path(config.start), net)
        _check_same(f"start is {str(config.start)!r}, where", found, net)
    elif isinstance(own.start, Result):
        each = own.start.params
        _check_same(f"start is {own.start!r}, where", own.start.net, net)
    else:
        each = _one_or_several(net, own.start)
    if len(each) not in (1, config.seeds):
        raise ValueError(
            f"start has the parameters of {len(each)} networks, and seeds is {config.seeds}: expected one network for"
            " all seeds, or one per seed."
        )
    each = [jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), check.params(net, params)) for params in each]
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(each)):
        raise ValueError("start holds numbers that are not finite. Name another run or file.")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each * (config.seeds // len(each)))


def _one_or_several(net: Network, given: Any) -> Any:
    """Return the parameters of each network. `given`: those of one network, or a tuple or list of several."""
    like = jax.tree.structure(parameter_shapes(net))
    several = isinstance(given, tuple | list) and given
    return given if several and all(jax.tree.structure(each) == like for each in given) else [given]


def read_start(path: Path, net: Network | None = None) -> tuple[Network, tuple[Any, ...]]:
    """Return the network and the parameters of each seed, from a run folder or a file of `otpe.save`.

    `net` is the network for a folder or file that cannot describe it.
    """
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
    """Raise ValueError if the weights belong to a network other than the one that the settings describe.

    Without this check, weights of the same shapes would train in a wrong network without an error.
    """
    if found == net:
        return
    pairs = zip_longest(zip(found.layers, found.neurons, strict=True), zip(net.layers, net.neurons, strict=True))
    i, (stored, here) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    stored, here = ("missing" if pair is None else f"{pair[0]} with {pair[1]}" for pair in (stored, here))
    raise ValueError(
        f"{where} the network is another one: its layer {i} is {stored}, and here it is {here}. Give the settings of"
        " that network. To use its parameters in this network: otpe.train(config, start=otpe.load(...).params)."
    )
