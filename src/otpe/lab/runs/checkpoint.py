"""Checkpoints: write the state of a run to a file, and read it back bit for bit."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from otpe import contents, tensors
from otpe.lab.runs.loop import State
from otpe.storage import named_leaves

KIND = "checkpoint of a training run"


class Checkpoint(NamedTuple):
    state: State
    seconds: float  # of training until then
    identity: dict[str, Any]  # settings that identify the run


def save(folder: Path, state: State, seconds: float, identity: dict[str, Any], keep: int) -> Path:
    """Write the state of a run to its folder of checkpoints. The newest `keep` checkpoints stay."""
    about = {"step": int(state.step), "seconds": seconds, "identity": identity}
    return add(folder, int(state.step), keep, lambda path: tensors.write(path, KIND, to_arrays(state), about))


def add(folder: Path, step: int, keep: int, write: Callable[[Path], object]) -> Path:
    """Call `write` with the path of a new checkpoint. Only then remove earlier checkpoints, until `keep` are left."""
    path = folder / name(step)
    try:
        write(path)
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
    """Return the step in the name of a file. None for a file that is no checkpoint."""
    found = re.fullmatch(r"step-(\d+)\.safetensors", path.name, re.ASCII)
    return int(found[1]) if found else None


def everything(folder: Path) -> list[Path]:
    """Return the paths of all checkpoints, in the order of their steps."""
    found = [(number, path) for path in folder.glob("step-*") if (number := step(path)) is not None and path.is_file()]
    return [path for _, path in sorted(found)]


def newest(folder: Path, last: int | None = None) -> Path | None:
    """Return the newest checkpoint, or None. `last` is the last step of the run: later files are not part of it."""
    found = [path for path in everything(folder) if last is None or (step(path) or 0) <= last]
    return found[-1] if found else None


def prune(saved: Path, keep: int) -> None:
    """Remove checkpoints of earlier steps than `saved`, until `keep` are left. Those of later steps stay."""
    before = everything(saved.parent)
    before = before[: before.index(saved)]
    for old in before[: max(len(before) - keep + 1, 0)]:
        old.unlink(missing_ok=True)


def load(path: Path, like: State) -> Checkpoint:
    """Return the checkpoint. `like` gives the structure, shapes and types that its state must have."""
    with advised(path):
        arrays, about = tensors.read(path, KIND, {"step": int, "seconds": float, "identity": dict})
        state = from_arrays(arrays, like)
        if state is None:
            raise ValueError(f"{path} holds the state of another network or optimizer.")
    return Checkpoint(state, about["seconds"], about["identity"])


@contextmanager
def advised(path: Path) -> Iterator[None]:
    """Context for code that reads a checkpoint: a ValueError becomes a ContentError that says what to do about it."""
    try:
        yield
    except tensors.NewerFormatError:
        raise
    except ValueError as error:
        raise contents.ContentError(f"{error} {advice(path)}") from None


def advice(path: Path) -> str:
    """Return a sentence that says what to do about a checkpoint that cannot be used."""
    this_step = step(path)
    others = [other for other in everything(path.parent) if this_step is None or (step(other) or 0) < this_step]
    if not others:
        return "There is no earlier checkpoint: start anew in another folder."
    return f"Move it away to go on from the one before it, {others[-1].name}."


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Return the leaves of a tree as new numpy arrays, each under its path."""
    return {name: np.array(numbers(leaf)) for name, leaf in named_leaves(tree).items()}


def from_arrays(arrays: Mapping[str, np.ndarray], like: Any) -> Any:
    """Return the tree for the output of `to_arrays`. None if names, shapes or types differ from those of `like`."""
    leaves = named_leaves(like)
    expected = {name: jax.eval_shape(numbers, leaf) for name, leaf in leaves.items()}
    shapes, found = ({name: (a.shape, a.dtype) for name, a in each.items()} for each in (expected, arrays))
    if found != shapes:
        return None
    restored = [like_leaf(arrays[name], leaf) for name, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(like), restored)


def numbers(leaf: Any) -> Any:
    """Return the numbers of a random key, which the state of an optimizer may have. Other arrays stay as they are."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def like_leaf(array: np.ndarray, leaf: Any) -> Any:
    """Return the array or random key for the output of `numbers`. `leaf` has its type."""
    if not _is_key(leaf):
        return jnp.asarray(array)
    kinds = []
    jax.eval_shape(lambda key: kinds.append(jax.random.key_impl(key)), leaf)
    return jax.random.wrap_key_data(jnp.asarray(array), impl=kinds[0])


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
