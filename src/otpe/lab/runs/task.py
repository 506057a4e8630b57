"""The data of a run, for training, validation and test, and a check that the run fits into memory."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from otpe import memory
from otpe.datasets import Dataset, FrameSet, flat, registry
from otpe.datasets.dataset import shape_of
from otpe.lab.progress import say
from otpe.lab.runs.check_settings import Config
from otpe.lab.runs.custom import CustomParts
from otpe.lab.settings import DataSettings, Settings, TrainConfig
from otpe.networks import Network
from otpe.rulebook import Rule, stepper
from otpe.training.interned import interned


class Splits(NamedTuple):
    """Three datasets of one kind. A dataset that draws its samples may be all three: each of them uses other seeds."""

    train: Dataset
    valid: Dataset
    test: Dataset


class EvaluationSet(NamedTuple):
    """The samples of an evaluation: all recordings in order, or samples drawn from a seed that training never uses."""

    seed: int
    batches: int
    size: int


SPLITS = ("train", "valid", "test")
VALID, TEST = 2**32 - 1, 2**32 - 2  # seeds of the draws; runs have smaller ones


def named(settings: DataSettings) -> Splits:
    """Return the named dataset of these settings. If its number of units was read from files, say so."""
    splits = Splits(*registry.DATASETS[settings.dataset].from_settings(settings))
    if settings.dataset == "folder" and settings.units is None and not settings.shape:
        units = shape_of(splits.train)[0] * settings.pool
        say(f"{settings.data_name}: {units} units, as the largest one is {units - 1}. --units gives another number.")
    return splits


def with_own_name(config: Config, data: Any) -> Config:
    """Return the settings with the dataset "own" if a user's own data has the name of a known dataset."""
    if data is not None and not (isinstance(config.dataset, str) and config.dataset):
        raise ValueError(f"dataset is {config.dataset!r}, expected a name for your data, such as 'mine'.")
    return replace(config, dataset="own") if data is not None and config.dataset in registry.DATASETS else config


def given(data: Any) -> Splits:
    """Return a user's own datasets. Raises if they are not three valid datasets."""
    advice = "otpe.Splits(train=..., valid=..., test=...)"
    if not isinstance(data, tuple) or len(data) != 3:
        raise TypeError(f"data is a {type(data).__name__}, expected three datasets: {advice}.")
    splits = Splits(*data)
    for name, dataset in splits._asdict().items():
        shape = "units" if hasattr(dataset, "units") else "shape"  # a user's flat data may have `units` and no `shape`
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
    """Raise if a batch does not have the shape that the dataset states, or if its labels are not whole numbers."""
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


def loaded(config: Settings, own: CustomParts, check_size: Callable[["Shape"], None]) -> Splits:
    """Return the named data or a user's own, as the network takes it. Raises if its parts do not match.

    `check_size` raises for a shape that is too large. It is called before the named data is made, and after.
    """
    if own.data is None:
        check_size(expected_shape(config))
    splits = named(config) if own.data is None else given(own.data)
    check_shapes(splits, config.batch)
    check_size(found_shape(splits))
    return shaped_for_network(config, splits, own)


def shaped_for_network(config: Settings, splits: Splits, own: CustomParts) -> Splits:
    """Return the data in the shape that the network takes: flat for dense layers, otherwise unchanged."""
    return splits if config.conv or own.net is not None else flattened(splits)


def flattened(splits: Splits) -> Splits:
    """Return flat data, for a network of dense layers. If the three are the same object, the results are too."""
    made = {id(dataset): flat(dataset) for dataset in splits}
    return Splits(*(made[id(dataset)] for dataset in splits))


def check_shapes(splits: Splits, batch: int) -> None:
    """Raise ValueError if the three differ in shape or classes, or if a mini-batch is larger than the data."""
    found = {name: (list(shape_of(dataset)), len(dataset.names)) for name, dataset in splits._asdict().items()}
    if any(each != found["train"] for each in found.values()):
        listed = ", ".join(f"{name} has {shape} and {classes}" for name, (shape, classes) in found.items())
        raise ValueError(f"shapes and classes of the datasets differ: {listed}. Expected the same in all three.")
    train = splits.train
    if isinstance(train, FrameSet) and batch > len(train):
        raise ValueError(f"batch is {batch}, more than the {len(train)} recordings to learn from. Use a smaller batch.")


def evaluation_set(dataset: Dataset, seed: int, samples: int, size: int) -> EvaluationSet:
    """Return the evaluation of a dataset: `samples` draws, or all recordings, in mini-batches of this size."""
    if isinstance(dataset, FrameSet):
        size = min(size, len(dataset))
        return EvaluationSet(seed, -(-len(dataset) // size), size)
    size = min(size, samples)
    return EvaluationSet(seed, -(-samples // size), size)


class Facts(NamedTuple):
    """What one must know of the data of a run to judge its accuracy."""

    epochs: float | None  # how often each recording is seen. None for data that is drawn
    test_samples: int
    chance: float  # accuracy of a constant answer. For recordings, of the most frequent class

    def __str__(self) -> str:
        epochs = [] if self.epochs is None else [f"{self.epochs:.3g} epochs"]
        return ", ".join([*epochs, f"tested on {self.test_samples:,} samples", f"chance {self.chance:.3f}"])


def facts(config: TrainConfig, splits: Splits) -> Facts:
    """Return the epochs, the number of samples of the test, and the chance level of a run."""
    train, test = splits.train, splits.test
    epochs = config.steps * config.batch / len(train) if isinstance(train, FrameSet) else None
    if not isinstance(test, FrameSet):
        drawn = evaluation_set(test, TEST, config.test_samples, config.batch)
        return Facts(epochs, drawn.batches * drawn.size, 1 / len(test.names))
    labels = np.asarray(test.labels).ravel()
    return Facts(epochs, len(test), float(np.bincount(labels).max() / labels.size))


def fingerprint(splits: Splits, seed: int, batch: int) -> str:
    """Return a hash of the first mini-batch of each dataset. A run must not be resumed on other data."""
    content = hashlib.sha256()
    for dataset in {id(dataset): dataset for dataset in splits}.values():
        size = min(batch, len(dataset)) if isinstance(dataset, FrameSet) else batch
        for part in jax.tree.leaves(dataset.batch(seed, 0, size)):
            known = np.asarray(part)
            content.update(f"{known.dtype} {known.shape}".encode() + np.ascontiguousarray(known).tobytes())
    return content.hexdigest()[:16]


# --------------------
# The check that a run fits into memory. It runs before any large array exists.


class Shape(NamedTuple):
    """The shape of a dataset."""

    steps: int
    units: int
    classes: int
    axes: tuple[int, ...]  # of the units


def expected_shape(settings: DataSettings) -> Shape:
    """Return the shape of the named dataset of these settings. For recordings, a lower bound."""
    steps, axes, classes = registry.DATASETS[settings.dataset].expected_shape(settings)
    return Shape(steps, prod(axes), classes, axes)


def found_shape(splits: Splits) -> Shape:
    """Return the shape of loaded datasets."""
    axes = shape_of(splits.train)
    return Shape(splits.train.steps, prod(axes), len(splits.train.names), axes)


def check_memory(config: TrainConfig, rule: Rule, net: Network, optimizer: Any, shape: Shape) -> None:
    """Raise ValueError if the run cannot fit into memory.

    All networks are trained side by side. Each has its weights, the best weights and the state of the optimizer, before
    and after a block of steps; a mini-batch of spikes of one byte each; and the traces of a rule that learns step by
    step, or the output spikes of a layer in an evaluation.
    """
    seeds, (steps, units, classes, _), batch = config.seeds, shape, config.batch
    widths = tuple(prod(layer.out_shape) for layer in net.layers)
    uses = registry.DATASETS[config.dataset].uses if config.dataset in registry.DATASETS else ()
    inputs = {"size": config.size} if "size" in uses else {"units": units}  # by the name of the setting
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
        memory.check_fits(f"the state of {rule.name} for each sample", least + seeds * state, {**network, **samples})
    if registry.is_drawn(config.dataset):
        together = min(batch, max(config.valid_samples, config.test_samples))
        spikes = seeds * steps * together * max(widths)
        samples = {**samples, "batch": together}
        memory.check_fits("the spikes of a layer in an evaluation", states + spikes, {**samples, "hidden": widths[:-1]})


def _state(net: Network, optimizer: Any) -> int:
    """Return the bytes of the weights, the best weights and the state of the optimizer of one network."""
    return 2 * weights(net) + memory.size(interned(optimizer, parameter_shapes(net)).state)


def weights(net: Network) -> int:
    """Return the bytes of the weights of one network."""
    return memory.size(parameter_shapes(net))


@lru_cache(maxsize=64)
def parameter_shapes(net: Network) -> Any:
    """Return the shapes and types of the parameters of one network."""
    return jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32))


def _name_of_steps(config: Settings) -> str:
    """Return the name of the setting that says how many time steps a sample has."""
    return "time_steps" if registry.is_drawn(config.dataset) else "bins" if config.bins else "time steps"
