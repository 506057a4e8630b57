"""Optimizers by name, and schedules of their learning rate."""

from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass, fields
from functools import lru_cache
from math import inf
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from otpe import check

# Name → optax's function, and the settings that it takes besides the learning rate.
OPTIMIZERS: dict[str, tuple[Callable[..., optax.GradientTransformation], tuple[str, ...]]] = {
    "adamax": (optax.adamax, ()),
    "adam": (optax.adam, ()),
    "adamw": (optax.adamw, ("weight_decay",)),
    "sgd": (optax.sgd, ("momentum",)),
    "rmsprop": (optax.rmsprop, ("momentum",)),
    "nadam": (optax.nadam, ()),
    "nadamw": (optax.nadamw, ("weight_decay",)),
    "radam": (optax.radam, ()),
    "adabelief": (optax.adabelief, ()),
    "adagrad": (optax.adagrad, ()),
    "lamb": (optax.lamb, ("weight_decay",)),
    "lion": (optax.lion, ("weight_decay",)),
}
SCHEDULES = ("constant", "linear", "cosine", "exponential")
OPTIONAL = ("momentum", "weight_decay", "clip")
RANGES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "learning_rate": ("a finite number above 0, such as 1e-3", lambda x: 0 < x < inf),
    "clip": ("a finite number above 0", lambda x: 0 < x < inf),
    "final_rate": ("a share from 0 to 1", lambda x: 0 <= x <= 1),
    "momentum": ("a number from 0 on, below 1", lambda x: 0 <= x < 1),
    "weight_decay": ("a number from 0 on, below inf", lambda x: 0 <= x < inf),
}


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of optax by name. Use it wherever `optimizer=` takes an optimizer of optax.

        optimizer = otpe.Optimizer("adamw", 1e-3, weight_decay=1e-4, schedule="cosine", steps=10_000)
        opt_state = optimizer.init(params)

    Optimizers with equal fields are equal and share their compiled programs. `dataclasses.asdict` gives plain JSON.

    Args:
      name: adamax, adam, adamw, sgd, rmsprop, nadam, nadamw, radam, adabelief, adagrad, lamb or lion.
      learning_rate: the learning rate, before any schedule.
      momentum: for sgd and rmsprop.
      weight_decay: for adamw, nadamw, lamb and lion. The default is optax's.
      clip: scale gradients down to this norm, over all layers together, where they are larger.
      schedule: "constant", "linear", "cosine" or "exponential": how the learning rate falls from update to update. In
        `otpe.train` it falls from mini-batch to mini-batch.
      final_rate: the learning rate at the end of the schedule, as a share of `learning_rate`.
      warmup: the number of updates over which the learning rate rises from 0 first.
      steps: the number of updates until the final rate. In `otpe.train` it is the number of steps of the run.
    """

    name: str = "adamax"
    learning_rate: float = 1e-3
    _: KW_ONLY
    momentum: float | None = None
    weight_decay: float | None = None
    clip: float | None = None
    schedule: Literal["constant", "linear", "cosine", "exponential"] = "constant"
    final_rate: float = 0.01
    warmup: int = 0
    steps: int | None = None

    def __post_init__(self) -> None:
        check.one_of("optimizer", self.name, OPTIMIZERS)
        check.one_of("schedule", self.schedule, SCHEDULES)
        for name, (expected, fits) in RANGES.items():
            value = getattr(self, name)
            if value is not None or name not in OPTIONAL:
                object.__setattr__(self, name, check.number(name, value, expected, fits))
        if self.schedule == "exponential" and self.final_rate == 0:
            raise ValueError(
                "final_rate is 0, which an exponential schedule never reaches. Use 0.01, or another schedule."
            )
        if self.schedule == "constant" and self.final_rate != Optimizer.final_rate:
            raise ValueError(
                f"final_rate is {self.final_rate}, but the schedule is constant. Choose linear, cosine or exponential,"
                " or leave final_rate out."
            )
        if self.steps is not None:
            object.__setattr__(self, "steps", check.count("steps", self.steps))
        object.__setattr__(self, "warmup", check.whole("warmup", self.warmup, 2**31))
        if self.warmup >= (self.steps or inf):
            raise ValueError(f"warmup is {self.warmup}, expected less than the {self.steps} steps of the run.")
        for name in ("momentum", "weight_decay"):
            if getattr(self, name) is not None and name not in OPTIMIZERS[self.name][1]:
                able = ", ".join(other for other, (_, takes) in OPTIMIZERS.items() if name in takes)
                raise ValueError(
                    f"{name} is {getattr(self, name)}, but {self.name} has none. Leave it out, or use one of: {able}."
                )

    @classmethod
    def of(cls, config: Any) -> "Optimizer":
        """Return the optimizer that the settings of a run describe. Raises ValueError if they make no sense."""
        options = {field.name: getattr(config, field.name) for field in fields(cls) if field.name != "name"}
        return cls(config.optimizer, **{name: value for name, value in options.items() if value is not None})

    def settings(self) -> dict[str, Any]:
        """Return the fields as settings of a run, without `steps`, which the run itself sets."""
        options = asdict(self)
        del options["steps"]
        return {"optimizer": options.pop("name"), **options}

    def init(self, params: Any) -> Any:
        """Return the state before the first update, like an optimizer of optax."""
        return self.transformation().init(params)

    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Return the updates of the parameters for these gradients, and the next state, like an optimizer of optax."""
        return self.transformation().update(updates, state, params, **extra)

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """Return the optimizer of optax. For equal fields it is the same object."""
        return _transformation(self)

    def rate_schedule(self) -> "Schedule":
        """Return the schedule of the learning rate."""
        if self.schedule == "constant" and not self.warmup:
            return Schedule()
        if self.schedule != "constant" and self.steps is None:
            raise ValueError(
                f"schedule is {self.schedule!r}, which needs the number of updates until the final rate:"
                f" otpe.Optimizer(..., schedule={self.schedule!r}, steps=1000)."
            )
        return Schedule(self.schedule, self.final_rate, self.warmup, self.steps or 0)

    def with_rate_in_state(self) -> optax.GradientTransformationExtraArgs:
        """Return the optimizer with the learning rate in its state: the same object for all rates and schedules."""
        options: dict[str, Any] = {"momentum": self.momentum, "weight_decay": self.weight_decay, "clip": self.clip}
        return _with_rate_in_state(Optimizer(self.name, 1.0, **options))

    def _build(self, rate: float | Callable[[Any], Array]) -> optax.GradientTransformationExtraArgs:
        build, takes = OPTIMIZERS[self.name]
        options = {name: getattr(self, name) for name in takes if getattr(self, name) is not None}
        built = build(rate, **options)
        chained = built if self.clip is None else optax.chain(optax.clip_by_global_norm(self.clip), built)
        return optax.with_extra_args_support(chained)


@dataclass(frozen=True)
class Schedule:
    """The share of the learning rate at each step.

    The values differ from those of `optax.schedules` in the last bits. Runs of earlier versions must resume bitwise.
    """

    kind: Literal["constant", "linear", "cosine", "exponential"] = "constant"
    final: float = 1.0  # share at the last step
    warmup: int = 0  # steps
    steps: int = 0

    def __call__(self, step: Any) -> Array:
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


@lru_cache(maxsize=256)
def _transformation(optimizer: Optimizer) -> optax.GradientTransformationExtraArgs:
    schedule, rate = optimizer.rate_schedule(), optimizer.learning_rate
    return optimizer._build(rate if schedule == Schedule() else lambda count: rate * schedule(count))


class RateInState(NamedTuple):
    """The state of an optimizer from `with_rate_in_state`. Checkpoints contain these field names."""

    rate: Array  # the learning rate of the next updates
    inner: Any


@lru_cache(maxsize=256)
def _with_rate_in_state(optimizer: Optimizer) -> optax.GradientTransformationExtraArgs:
    """Return an optimizer that multiplies the updates for learning rate 1 by the rate in its state.

    So one program is compiled for all rates. `optax.inject_hyperparams` would do the same, but for rmsprop with
    momentum it gives other numbers: optax scales by the rate before the momentum, not after it. And its state has other
    names, so earlier checkpoints would not load.
    """
    inner = optimizer._build(1.0)

    def init(params: Any) -> RateInState:
        return RateInState(jnp.ones((), jnp.float32), inner.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, RateInState]:
        full, after = inner.update(updates, state.inner, params, **extra)
        return jax.tree.map(lambda u: u * state.rate.astype(u.dtype), full), RateInState(state.rate, after)

    return optax.GradientTransformationExtraArgs(init, update)
