"""Optimizers and schedules by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from otpe import check
from otpe.lab.settings import Settings


class Maker(NamedTuple):
    make: Callable[..., optax.GradientTransformation]
    takes: tuple[str, ...] = ()  # settings besides the learning rate


OPTIMIZERS = {
    "adamax": Maker(optax.adamax),
    "adam": Maker(optax.adam),
    "adamw": Maker(optax.adamw, ("weight_decay",)),
    "sgd": Maker(optax.sgd, ("momentum",)),
    "rmsprop": Maker(optax.rmsprop, ("momentum",)),
    "nadam": Maker(optax.nadam),
    "nadamw": Maker(optax.nadamw, ("weight_decay",)),
    "radam": Maker(optax.radam),
    "adabelief": Maker(optax.adabelief),
    "adagrad": Maker(optax.adagrad),
    "lamb": Maker(optax.lamb, ("weight_decay",)),
    "lion": Maker(optax.lion, ("weight_decay",)),
}
SCHEDULES = ("constant", "linear", "cosine", "exponential")


@dataclass(frozen=True)
class Schedule:
    """The share of the learning rate that a mini-batch has, for all updates in it."""

    kind: Literal["constant", "linear", "cosine", "exponential"] = "constant"
    final: float = 1.0  # share that is left at the last mini-batch
    warmup: int = 0  # mini-batches
    steps: int = 0  # mini-batches in all

    def __call__(self, step: Any) -> Array:
        """`step`: mini-batches learned from until now."""
        step = jnp.asarray(step, jnp.float32)
        done = jnp.clip((step - self.warmup) / max(self.steps - 1 - self.warmup, 1), 0, 1)
        share = {
            "constant": lambda: jnp.ones(()),
            "linear": lambda: 1 - (1 - self.final) * done,
            "cosine": lambda: self.final + (1 - self.final) * (1 + jnp.cos(jnp.pi * done)) / 2,
            "exponential": lambda: jnp.asarray(self.final, jnp.float32) ** done,
        }[self.kind]()
        rising = jnp.minimum((step + 1) / self.warmup, 1) if self.warmup else 1
        return jnp.asarray(share * rising, jnp.float32)


class Paced(NamedTuple):
    rate: Array  # the learning rate of updates to come
    inner: Any


def paced(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """An optimizer of learning rate 1 with the rate in its state: another rate is not another program to compile."""
    inner = optax.with_extra_args_support(optimizer)

    def init(params: Any) -> Paced:
        return Paced(jnp.ones((), jnp.float32), inner.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Paced]:
        full, after = inner.update(updates, state.inner, params, **extra)
        return jax.tree.map(lambda u: u * state.rate.astype(u.dtype), full), Paced(state.rate, after)

    return optax.GradientTransformationExtraArgs(init, update)


def optimizer(config: Settings) -> tuple[optax.GradientTransformation, Schedule]:
    """The optimizer of these settings, paced, and the schedule of its rate."""
    chosen = OPTIMIZERS[config.optimizer]
    options = {name: getattr(config, name) for name in chosen.takes if getattr(config, name) is not None}

    made = chosen.make(1.0, **options)
    clipped = made if config.clip is None else optax.chain(optax.clip_by_global_norm(config.clip), made)
    if config.schedule == "constant" and not config.warmup:
        return paced(clipped), Schedule()
    return paced(clipped), Schedule(config.schedule, config.final_rate, config.warmup, config.steps)


def check_optimizer(config: Settings) -> None:
    check.one_of("optimizer", config.optimizer, OPTIMIZERS)
    check.one_of("schedule", config.schedule, SCHEDULES)
    positive = "a finite number above 0"
    check.number("learning_rate", config.learning_rate, f"{positive}, such as 1e-3", lambda x: 0 < x < float("inf"))
    if config.clip is not None:
        check.number("clip", config.clip, positive, lambda x: 0 < x < float("inf"))
    check.number("final_rate", config.final_rate, "a share from 0 to 1", lambda x: 0 <= x <= 1)
    if config.schedule == "exponential" and config.final_rate == 0:
        raise ValueError("final_rate is 0, which an exponential schedule never reaches. Use 0.01, or another schedule.")
    if config.schedule == "constant" and config.final_rate != Settings.final_rate:
        raise ValueError(
            f"final_rate is {config.final_rate}, but the schedule is constant. Choose linear, cosine or exponential, or"
            " leave final_rate out."
        )
    if check.whole("warmup", config.warmup, 2**31) >= config.steps:
        raise ValueError(f"warmup is {config.warmup}, expected less than the {config.steps} steps of the run.")
    ranges = {"momentum": (0, 1), "weight_decay": (0, float("inf"))}
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is None:
            continue
        check.number(name, value, f"a number from {low} on, below {high}", lambda x, a=low, b=high: a <= x < b)
        if name not in OPTIMIZERS[config.optimizer].takes:
            able = ", ".join(other for other, maker in OPTIMIZERS.items() if name in maker.takes)
            raise ValueError(
                f"{name} is {value}, but {config.optimizer} has none. Leave it out, or use one of: {able}."
            )
