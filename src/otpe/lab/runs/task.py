"""What is learned from, validated on and tested on."""

import hashlib
from dataclasses import replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from otpe import memory
from otpe.datasets import Dataset, flat, folder, randman, shd, ssc
from otpe.datasets.dataset import FrameSet, shape_of
from otpe.datasets.frames import pooled
from otpe.datasets.heidelberg import Split
from otpe.datasets.registry import DRAWN, ENCODINGS, NAMES, SHAPES
from otpe.lab.runs import check_settings
from otpe.lab.runs.check_settings import Config, binning, recorded_shape, shapes
from otpe.lab.runs.custom import Own
from otpe.lab.settings import Settings, TrainConfig
from otpe.networks import Network
from otpe.rulebook import Rule, stepper
from otpe.training.interned import interned


class Splits(NamedTuple):
    """Three datasets of one kind. Where there is no end of samples, one may stand for all: their draws differ."""

    train: Dataset
    valid: Dataset
    test: Dataset


class Exam(NamedTuple):
    """Which samples are evaluated: all of a recorded dataset, in order, or draws that no training run sees."""

    seed: int
    batches: int
    size: int


SPLITS: tuple[Split, ...] = ("train", "valid", "test")
VALID, TEST = 2**32 - 1, 2**32 - 2  # seeds of the draws; runs have smaller ones


def named(config: Settings) -> Splits:
    """The dataset of these settings."""
    if config.dataset in ENCODINGS:
        data = randman(
            ENCODINGS[config.dataset],
            classes=config.classes,
            units=50 if config.units is None else config.units,
            dims=config.dims,
            alpha=config.alpha,
            steps=config.time_steps,
            seed=range(config.manifolds, config.manifolds + config.draws),
            standardize=config.standardize,
        )
        return Splits(data, data, data)
    if config.dataset == SHAPES:
        return Splits(*[shapes(config)] * 3)
    root, bins = config.root or Path("data") / config.dataset, binning(config)
    if config.dataset == "ssc":
        return Splits(*(ssc(root, split, bins) for split in SPLITS))
    if config.dataset == "shd":
        return Splits(*(shd(root, split, bins, validation=config.validation) for split in SPLITS))
    shape = recorded_shape(config)
    return Splits(*(folder(root, split, bins, shape=shape, validation=config.validation) for split in SPLITS))


def of_own(config: Config, data: Any) -> Config:
    """The settings, which must not give the name of a known dataset to a user's own."""
    if data is not None and not (isinstance(config.dataset, str) and config.dataset):
        raise ValueError(f"dataset is {config.dataset!r}, expected what you call your data, such as 'mine'.")
    return replace(config, dataset="own") if data is not None and config.dataset in NAMES else config


def given(data: Any) -> Splits:
    """A user's own datasets, if they are three and fit together."""
    advice = "otpe.Splits(train=..., valid=..., test=...)"
    if not isinstance(data, tuple) or len(data) != 3:
        raise TypeError(f"data is a {type(data).__name__}, expected three datasets: {advice}.")
    splits = Splits(*data)
    for name, dataset in splits._asdict().items():
        shape = "units" if hasattr(dataset, "units") else "shape"  # flat data of one's own may have units alone
        missing = [part for part in ("steps", shape, "names", "batch") if not hasattr(dataset, part)]
        if missing:
            raise TypeError(
                f"data.{name} is a {type(dataset).__name__} without {', '.join(missing)}, expected a dataset such as"
                " otpe.datasets.from_arrays(spikes, labels) makes."
            )
        if not all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(dataset)):
            raise TypeError(
                f"data.{name} is a {type(dataset).__name__}, which JAX does not know, expected a pytree of arrays:"
                " register the class with jax.tree_util.register_dataclass, as otpe.datasets.randman's is."
            )
        _check_batch(name, dataset)
    return splits


def _check_batch(name: str, dataset: Dataset) -> None:
    """Are the shapes what the dataset says, and the labels classes?"""
    batch = jax.eval_shape(lambda data: data.batch(0, 0, 1), dataset)
    says, gives = shape_of(dataset), batch.spikes.shape[2:]
    if says != gives:
        raise ValueError(
            f"data.{name} says that its time steps have the shape {list(says)}, but those of its batches have"
            f" {list(gives)}. Make its `shape` {gives}."
        )
    if not jnp.issubdtype(batch.labels.dtype, jnp.integer):
        raise TypeError(
            f"the labels of data.{name} are of type {batch.labels.dtype}, expected whole numbers: runs are scored by"
            " their accuracy. For targets that are real numbers write the loop yourself, with"
            " otpe.gradients(..., loss='mse') or otpe.online_pass."
        )


def as_taken(config: Settings, splits: Splits, own: Own) -> Splits:
    """As the network takes them: in one row for dense layers, on their grid for convolutions and a user's network."""
    return splits if config.conv or own.net is not None else flattened(splits)


def flattened(splits: Splits) -> Splits:
    """For a network of dense layers. What is one dataset stays one."""
    made = {id(dataset): flat(dataset) for dataset in splits}
    return Splits(*(made[id(dataset)] for dataset in splits))


def check_shapes(splits: Splits, batch: int) -> None:
    """Do the three fit together, and is there a mini-batch to learn from?"""
    found = {name: (list(shape_of(dataset)), len(dataset.names)) for name, dataset in splits._asdict().items()}
    if any(each != found["train"] for each in found.values()):
        listed = ", ".join(f"{name} has {shape} and {classes}" for name, (shape, classes) in found.items())
        raise ValueError(f"shapes and classes of the datasets differ: {listed}. Expected the same in all three.")
    train = splits.train
    if isinstance(train, FrameSet) and batch > len(train):
        raise ValueError(f"batch is {batch}, more than the {len(train)} recordings to learn from. Use a smaller batch.")


def exam(dataset: Dataset, seed: int, samples: int, size: int) -> Exam:
    if isinstance(dataset, FrameSet):
        size = min(size, len(dataset))
        return Exam(seed, -(-len(dataset) // size), size)
    size = min(size, samples)
    return Exam(seed, -(-samples // size), size)


def fingerprint(splits: Splits, seed: int, batch: int) -> str:
    """Of the first mini-batch of each dataset: a run that is resumed on other data would not be the same run."""
    content = hashlib.sha256()
    for dataset in {id(dataset): dataset for dataset in splits}.values():
        size = min(batch, len(dataset)) if isinstance(dataset, FrameSet) else batch
        for part in jax.tree.leaves(dataset.batch(seed, 0, size)):
            known = np.asarray(part)
            content.update(f"{known.dtype} {known.shape}".encode() + np.ascontiguousarray(known).tobytes())
    return content.hexdigest()[:16]


# --------------------
# Does a run fit into memory? Counted before anything is made, from settings where the data is not there yet.


class Shape(NamedTuple):
    """Of the data."""

    steps: int
    units: int
    classes: int
    axes: tuple[int, ...]  # of the units


def expected_shape(config: Settings) -> Shape:
    """The shape of what is drawn; of recordings, the least that it can be."""
    if config.dataset in ENCODINGS:
        units = config.units or 50
        return Shape(config.time_steps, units, config.classes, (units,))
    if config.dataset == SHAPES:
        data = check_settings.shapes(config)
        return Shape(data.steps, data.units, len(data.names), data.shape)
    axes = pooled(check_settings.recorded_shape(config), config.pool)
    return Shape(config.bins or 1, prod(axes), 1, axes)


def found_shape(splits: Splits) -> Shape:
    axes = shape_of(splits.train)
    return Shape(splits.train.steps, prod(axes), len(splits.train.names), axes)


def check_memory(config: TrainConfig, rule: Rule, net: Network, optimizer: Any, shape: Shape) -> None:
    """ValueError with a sentence if the run cannot fit.

    All networks are trained side by side, and each has: the weights, the best of them and the optimizer's state, before
    a block of steps and after it; a mini-batch of spikes of one byte each; and the traces of a rule that goes step by
    step, or the spikes that a layer gives in an evaluation.
    """
    seeds, (steps, units, classes, _), batch = config.seeds, shape, config.batch
    widths = tuple(prod(layer.out_shape) for layer in net.layers)
    inputs = {"size": config.size} if config.dataset == SHAPES else {"units": units}  # as the setting is called
    network = {"hidden": widths[:-1], **inputs, "classes": classes, "seeds": seeds}
    states = seeds * 2 * _state(net, optimizer)
    memory.check_fits("the weights and the state of the optimizer", states, network)
    samples = {"batch": batch, _name_of_steps(config): steps, "seeds": seeds}
    least = states + seeds * steps * batch * units
    memory.check_fits("a mini-batch of spikes, with the weights,", least, {**samples, **inputs})
    if config.mode == "online" or not rule.has_whole:
        traces = config.traces if config.mode == "online" else "auto"
        how: dict[str, Any] = {"precision": config.precision, "backend": config.backend}
        form = stepper(net, rule, traces=traces, batch=batch, steps=steps, narrow=True, **how)
        state = memory.size(jax.eval_shape(lambda: form.init(batch, jnp.float32)))
        memory.check_fits(f"what {rule.name} keeps of each sample", least + seeds * state, {**network, **samples})
    if config.dataset in DRAWN:
        together = min(batch, max(config.valid_samples, config.test_samples))
        spikes = seeds * steps * together * max(widths)
        samples = {**samples, "batch": together}
        memory.check_fits("the spikes of a layer in an evaluation", states + spikes, {**samples, "hidden": widths[:-1]})


def _state(net: Network, optimizer: Any) -> int:
    """Bytes of the weights, of the best, and of the optimizer's state of one network."""
    return 2 * weights(net) + memory.size(interned(optimizer, parameter_shapes(net)).state)


def weights(net: Network) -> int:
    """Bytes of the weights of one network."""
    return memory.size(parameter_shapes(net))


@lru_cache(maxsize=64)
def parameter_shapes(net: Network) -> Any:
    """The shapes and types of the parameters of one network."""
    return jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32))


def _name_of_steps(config: Settings) -> str:
    """As its setting is called."""
    return "time_steps" if config.dataset in DRAWN else "bins" if config.bins else "time steps"
