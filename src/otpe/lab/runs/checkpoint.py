"""The state of a run in a file, and back, bit for bit."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from otpe import contents, tensors
from otpe.lab.runs.loop import State
from otpe.storage import named

KIND = "checkpoint of a training run"


class Checkpoint(NamedTuple):
    state: State
    seconds: float  # of training until then
    identity: dict[str, Any]  # which run it belongs to


def save(folder: Path, state: State, seconds: float, identity: dict[str, Any], keep: int) -> Path:
    """Write the state beside the earlier ones, and only then remove those that are too many."""
    path = folder / name(int(state.step))
    arrays = {name: np.asarray(numbers(leaf)) for name, leaf in named(state).items()}
    about = {"step": int(state.step), "seconds": seconds, "identity": identity}
    try:
        tensors.write(path, KIND, arrays, about)
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror}. Earlier checkpoints are untouched; make room, and go on with"
            " resume",
        ) from None
    prune(path, keep)
    return path


def name(step: int) -> str:
    return f"step-{step:010}.safetensors"


def step(path: Path) -> int | None:
    """The number in its name. None for a file that is no checkpoint."""
    found = re.fullmatch(r"step-(\d+)\.safetensors", path.name, re.ASCII)
    return int(found[1]) if found else None


def everything(folder: Path) -> list[Path]:
    """All checkpoints, the one of the latest step last."""
    there = (path for path in folder.glob("step-*.safetensors") if path.is_file())
    found = {path: number for path in there if (number := step(path)) is not None}
    return sorted(found, key=lambda path: found[path])


def newest(folder: Path, last: int | None = None) -> Path | None:
    """`last`: the last step of the run; files of later steps are not of it."""
    found = [path for path in everything(folder) if last is None or (step(path) or 0) <= last]
    return found[-1] if found else None


def prune(saved: Path, keep: int) -> None:
    """Remove checkpoints from before the one that was just saved, until `keep` are left. Later ones stay."""
    before = everything(saved.parent)
    before = before[: before.index(saved)]
    for old in before[: max(len(before) - keep + 1, 0)]:
        old.unlink(missing_ok=True)


def load(path: Path, like: State) -> Checkpoint:
    """The checkpoint, if it is whole and has the structure, shapes and types of `like`, of which no more is asked."""
    try:
        arrays, about = tensors.read(path, KIND, {"step": int, "seconds": float, "identity": dict})
        expected = named(like)
        plain = {name: jax.eval_shape(numbers, leaf) for name, leaf in expected.items()}
        shapes = {name: (leaf.shape, leaf.dtype) for name, leaf in plain.items()}
        if {name: (array.shape, array.dtype) for name, array in arrays.items()} != shapes:
            raise ValueError(f"{path} holds the state of another network or optimizer.")
    except tensors.NewerFormatError:
        raise
    except ValueError as error:
        raise contents.ContentError(f"{error} {advice(path)}") from None
    leaves = [like_leaf(arrays[name], leaf) for name, leaf in expected.items()]
    state = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return Checkpoint(state, about["seconds"], about["identity"])


def advice(path: Path) -> str:
    """What to do about one that cannot be used."""
    mine = step(path)
    others = [other for other in everything(path.parent) if mine is None or (step(other) or 0) < mine]
    if not others:
        return "There is no earlier checkpoint: start anew in another folder."
    return f"Move it away to go on from the one before it, {others[-1].name}."


def numbers(leaf: Any) -> Any:
    """Random keys, which some optimizers keep, as the numbers they are made of."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def like_leaf(array: np.ndarray, leaf: Any) -> Any:
    """What `numbers` gave, as the kind of leaf it was."""
    if not _is_key(leaf):
        return jnp.asarray(array)
    kinds = []
    jax.eval_shape(lambda key: kinds.append(jax.random.key_impl(key)), leaf)
    return jax.random.wrap_key_data(jnp.asarray(array), impl=kinds[0])


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
