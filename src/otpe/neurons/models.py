"""The four neurons. See the table in `otpe.neurons` for their states and derivatives."""

import copy
import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import check, states
from otpe.neurons import leaks
from otpe.neurons.leaks import Leak
from otpe.states import Matrix, Vector
from otpe.surrogates import Surrogate, check_surrogate, fast_sigmoid, spike, surrogate_derivative

Reset = Literal["subtract", "zero", "none"]
Learn = bool | Literal["neuron"]


class Step(NamedTuple):
    """One step of a population: its state, its output, and what `linearise` needs."""

    state: Any
    output: Array
    kept: Any


class Leaky:
    """Base of otpe's neurons. A leak may be one number or an array, fixed or trained."""

    LEAKS: ClassVar[tuple[str, ...]] = ("leak",)
    spiking: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in self.LEAKS:
            object.__setattr__(self, name, leaks.checked(name, getattr(self, name)))
            learn, smallest = getattr(self, f"learn_{name}"), leaks.smallest(getattr(self, name))
            if not (isinstance(learn, bool) or learn == "neuron"):
                raise ValueError(
                    f"learn_{name} is {learn!r}, expected True, False or 'neuron' for one trained leak per neuron."
                )
            if learn and not smallest > 0:
                raise ValueError(
                    f"{name} is {smallest:g} and trained, expected a number in (0, 1): it is stored as its logit. Start"
                    " at a small number above 0."
                )
        settings = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        if "threshold" in settings:
            object.__setattr__(self, "threshold", _checked_threshold(settings["threshold"]))
        reset = settings.get("reset", "none")
        if reset not in get_args(Reset):
            raise ValueError(f"reset is {reset!r}, expected one of {', '.join(map(repr, get_args(Reset)))}.")
        if "surrogate" in settings:
            check_surrogate(settings["surrogate"])

    def init(self, shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
        """Return the trained leaks as logits, so that λ = sigmoid(logit) stays between 0 and 1."""
        logits = {}
        for name in self.LEAKS:
            learn, leak = getattr(self, f"learn_{name}"), getattr(self, name)
            if learn:
                start = leaks.per_neuron(leak, shape if learn == "neuron" or leaks.varies(leak) else ())
                logits[name] = jnp.asarray(np.log(start / (1 - start)), dtype)
        return logits

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if the leaks do not fit a layer of this shape."""
        for name in self.LEAKS:
            leak = getattr(self, name)
            if isinstance(leak, leaks.PerNeuron):
                leak.on(shape, name)

    def values(self, trained: dict[str, Array], shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
        """Return the leaks that are arrays: the trained ones, and the ones that differ from neuron to neuron."""
        given = {name: getattr(self, name) for name in self.LEAKS}
        fixed = {name: jnp.asarray(leak.on(shape), dtype) for name, leak in given.items() if leaks.varies(leak)}
        return fixed | {name: jax.nn.sigmoid(logit) for name, logit in trained.items()}

    def with_values(self, values: dict[str, Any]) -> Any:
        """Return a copy of the neuron with these leaks, which may be arrays."""
        changed = copy.copy(self)
        for name, value in values.items():
            object.__setattr__(changed, name, value)
        return changed

    def means(self, values: dict[str, Array], shape: tuple[int, ...]) -> dict[str, Any]:
        """Return the mean of each leak over the layer. Leaks that are not trained give plain numbers."""
        means = {}
        for name in self.LEAKS:
            leak = getattr(self, name)
            trained = name in values and getattr(self, f"learn_{name}")
            fixed = float(leaks.per_neuron(leak, shape).mean()) if leaks.varies(leak) else leak
            means[name] = jnp.mean(values[name]) if trained else fixed
        return means

    def _after_reset(self, v: Array, s: Array) -> Array:
        """Return u, the membrane after the reset."""
        if self.reset == "subtract":  # type: ignore[attr-defined]
            return v - self.threshold * s  # type: ignore[attr-defined]
        return v * (1 - s) if self.reset == "zero" else v  # type: ignore[attr-defined]

    def _reset_by_spike(self, v: Array) -> Any:
        """Return ∂u/∂s, where u is the membrane after the reset."""
        if self.reset == "subtract":  # type: ignore[attr-defined]
            return -self.threshold  # type: ignore[attr-defined]
        return -v if self.reset == "zero" else 0  # type: ignore[attr-defined]

    def _survival(self, v: Array, s: Any, g: Array) -> Any:
        """Return ρ = λ du/dv, where u is the membrane after the reset: the total derivative, through the spike too."""
        λ = self.leak  # type: ignore[attr-defined]
        if self.reset == "subtract":  # type: ignore[attr-defined]
            return λ * (1 - self.threshold * g)  # type: ignore[attr-defined]
        if self.reset == "zero":  # type: ignore[attr-defined]
            return λ * (1 - s - v * g)
        return jnp.full_like(v, 1) * λ


@dataclass(frozen=True)
class LIF(Leaky):
    """Leaky integrate-and-fire: v_t = λ u_{t-1} + c_t, and u_t is v_t after the reset.

    Args:
      leak: λ, the share of the membrane that is left after one step: a number, an array with one number per neuron,
        or `otpe.Uniform(low, high)`.
      threshold: θ. A neuron spikes when its membrane reaches it.
      surrogate: the function of v − θ that replaces the derivative of the spike.
      reset: what a spike does to the membrane: "subtract" θ, set it to "zero", or "none".
      learn_leak: whether to train the leak. True: one trained leak if `leak` is one number, else one per neuron.
        "neuron": one trained leak per neuron.
    """

    leak: Leak
    threshold: float = 1.0
    surrogate: Surrogate = fast_sigmoid(25.0)
    reset: Reset = "subtract"
    learn_leak: Learn = False

    poles: ClassVar[tuple[int, ...]] = (0,)

    def start(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """u, the membrane after the reset."""
        return jnp.zeros(shape, dtype)

    def step(self, u: Array, current: Array) -> Step:
        """Take one time step. `jax.grad` through it uses the surrogate."""
        v = self.leak * u + current
        s = spike(self.surrogate, v - self.threshold)
        return Step(self._after_reset(v, s), s, v)

    def linearise(self, v: Array) -> tuple[Matrix, Vector, Vector]:
        g = surrogate_derivative(self.surrogate, v - self.threshold)
        return self._survival(v, v >= self.threshold, g), 1.0, g

    def leaks(self) -> Matrix:
        return self.leak

    def causes(self, u: Array) -> dict[str, tuple[Array, Vector]]:
        return {"leak": (u, 1.0)}


@dataclass(frozen=True)
class CubaLIF(Leaky):
    """Current-based LIF: I_t = α I_{t-1} + c_t and v_t = λ u_{t-1} + I_t, with u_t as in `LIF`.

    `current_leak` is α; `learn_current_leak` trains it. Other arguments as in `LIF`.
    """

    leak: Leak
    current_leak: Leak = 0.8
    threshold: float = 1.0
    surrogate: Surrogate = fast_sigmoid(25.0)
    reset: Reset = "subtract"
    learn_leak: Learn = False
    learn_current_leak: Learn = False

    LEAKS: ClassVar[tuple[str, ...]] = ("leak", "current_leak")
    poles: ClassVar[tuple[int, ...]] = (0, 1)

    def start(self, shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
        """I, and u, the membrane after the reset."""
        return jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)

    def step(self, state: tuple[Array, Array], current: Array) -> Step:
        i, u = state
        i = self.current_leak * i + current
        v = self.leak * u + i
        s = spike(self.surrogate, v - self.threshold)
        return Step((i, self._after_reset(v, s)), s, v)

    def linearise(self, v: Array) -> tuple[Matrix, Vector, Vector]:
        α, g = self.current_leak, surrogate_derivative(self.surrogate, v - self.threshold)
        return ((α, 0), (α, self._survival(v, v >= self.threshold, g))), (1.0, 1.0), (0, g)

    def leaks(self) -> Matrix:
        return ((self.current_leak, 0), (self.current_leak, self.leak))

    def causes(self, state: tuple[Array, Array]) -> dict[str, tuple[Array, Vector]]:
        i, u = state
        return {"leak": (u, (0, 1.0)), "current_leak": (i, (1.0, 1.0))}


@dataclass(frozen=True)
class AdaptiveLIF(Leaky):
    """LIF with an adaptive threshold θ + β a, where a_{t+1} = r a_t + (1 − r) s_t is a leaky mean of the spikes.

    Every spike raises the threshold for a while. `adaptation_leak` is r, `strength` is β; the reset subtracts θ.
    Both leaks may be trained. Other arguments as in `LIF`.
    """

    leak: Leak
    adaptation_leak: Leak = 0.97
    strength: float = 1.0
    threshold: float = 1.0
    surrogate: Surrogate = fast_sigmoid(25.0)
    reset: Reset = "subtract"
    learn_leak: Learn = False
    learn_adaptation_leak: Learn = False

    LEAKS: ClassVar[tuple[str, ...]] = ("leak", "adaptation_leak")
    poles: ClassVar[tuple[int, ...]] = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        expected, fits = "a finite number, 0 or above", lambda β: 0 <= β < math.inf
        strength = check.number("strength", states.number(self.strength), expected, fits)
        object.__setattr__(self, "strength", strength)

    def start(self, shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
        """v and a, both before the spike."""
        return jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)

    def step(self, state: tuple[Array, Array], current: Array) -> Step:
        (v, a), r, s = state, self.adaptation_leak, self._spike(*state)
        v = self.leak * self._after_reset(v, s) + current
        a = r * a + (1 - r) * s
        return Step((v, a), self._spike(v, a), (v, a))

    def linearise(self, kept: tuple[Array, Array]) -> tuple[Matrix, Vector, Vector]:
        (v, a), λ, r, β = kept, self.leak, self.adaptation_leak, self.strength
        d = v - self.threshold - β * a
        g = surrogate_derivative(self.surrogate, d)
        A = (
            (self._survival(v, d >= 0, g), states.times(self._reset_by_spike(v), -λ * β * g)),
            ((1 - r) * g, r - (1 - r) * β * g),
        )
        return A, (1.0, 0), (g, -β * g)

    def leaks(self) -> Matrix:
        return ((self.leak, 0), (0, self.adaptation_leak))

    def causes(self, state: tuple[Array, Array]) -> dict[str, tuple[Array, Vector]]:
        (v, a), s = state, self._spike(*state)
        return {"leak": (self._after_reset(v, s), (1.0, 0)), "adaptation_leak": (a - s, (0, 1.0))}

    def _spike(self, v: Array, a: Array) -> Array:
        return spike(self.surrogate, v - self.threshold - self.strength * a)


@dataclass(frozen=True)
class LeakyIntegrator(Leaky):
    """A membrane that never spikes, for an output layer: v_t = λ v_{t-1} + c_t, and its output is v_t."""

    leak: Leak
    learn_leak: Learn = False

    spiking: ClassVar[bool] = False
    poles: ClassVar[tuple[int, ...]] = (0,)

    def start(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return jnp.zeros(shape, dtype)

    def step(self, v: Array, current: Array) -> Step:
        v = self.leak * v + current
        return Step(v, v, ())

    def linearise(self, kept: Any) -> tuple[Matrix, Vector, Vector]:
        return self.leak, 1.0, 1.0

    def leaks(self) -> Matrix:
        return self.leak

    def causes(self, v: Array) -> dict[str, tuple[Array, Vector]]:
        return {"leak": (v, 1.0)}


def _checked_threshold(value: Any) -> float:
    if not (leaks.is_number(value) and 0 < value < math.inf):
        raise ValueError(f"threshold is {value!r}, expected a finite number above 0; the usual choice is 1.0.")
    return float(value)
