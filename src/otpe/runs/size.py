"""Does a run fit into memory? Counted before anything is made, from settings where the data is not there yet."""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from otpe import memory
from otpe.datasets.contract import shape_of
from otpe.datasets.frames import pooled
from otpe.datasets.named import DRAWN, ENCODINGS, SHAPES
from otpe.networks import Network
from otpe.rulebook import Rule, stepper
from otpe.runs import settings
from otpe.runs.config import Settings, TrainConfig
from otpe.runs.task import Splits
from otpe.training.optimizer import ByValue


class Shape(NamedTuple):
    """Of the data."""

    steps: int
    units: int
    classes: int
    axes: tuple[int, ...]  # of the units


def expected(config: Settings) -> Shape:
    """The shape of what is drawn; of recordings, the least that it can be."""
    if config.dataset in ENCODINGS:
        units = config.units or 50
        return Shape(config.time_steps, units, config.classes, (units,))
    if config.dataset == SHAPES:
        data = settings.shapes(config)
        return Shape(data.steps, data.units, len(data.names), data.shape)
    axes = pooled(settings.recorded_shape(config), config.pool)
    return Shape(config.bins or 1, prod(axes), 1, axes)


def found(splits: Splits) -> Shape:
    axes = shape_of(splits.train)
    return Shape(splits.train.steps, prod(axes), len(splits.train.names), axes)


def check(config: TrainConfig, rule: Rule, net: Network, optimizer: ByValue, shape: Shape) -> None:
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
    memory.refuse_more("the weights and the state of the optimizer", states, network)
    samples = {"batch": batch, _name_of_steps(config): steps, "seeds": seeds}
    least = states + seeds * steps * batch * units
    memory.refuse_more("a mini-batch of spikes, with the weights,", least, {**samples, **inputs})
    if config.mode == "online" or not rule.has_whole:
        traces = config.traces if config.mode == "online" else "auto"
        how: dict[str, Any] = {"precision": config.precision, "backend": config.backend}
        form = stepper(net, rule, traces=traces, batch=batch, steps=steps, narrow=True, **how)
        state = memory.size(jax.eval_shape(lambda: form.init(batch, jnp.float32)))
        memory.refuse_more(f"what {rule.name} keeps of each sample", least + seeds * state, {**network, **samples})
    if config.dataset in DRAWN:
        together = min(batch, max(config.valid_samples, config.test_samples))
        spikes = seeds * steps * together * max(widths)
        samples = {**samples, "batch": together}
        memory.refuse_more(
            "the spikes of a layer in an evaluation", states + spikes, {**samples, "hidden": widths[:-1]}
        )


@lru_cache(maxsize=64)
def _state(net: Network, optimizer: ByValue) -> int:
    """Bytes of the weights, of the best, and of the optimizer's state of one network."""
    return 2 * weights(net) + memory.size(jax.eval_shape(optimizer.value.init, _shapes(net)))


def weights(net: Network) -> int:
    """Bytes of the weights of one network."""
    return memory.size(_shapes(net))


def _shapes(net: Network) -> Any:
    return jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32))


def _name_of_steps(config: Settings) -> str:
    """As its setting is called."""
    return "time_steps" if config.dataset in DRAWN else "bins" if config.bins else "time steps"
