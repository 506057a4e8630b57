"""The public check of neurons: ours and a user's pass it, and it names what is wrong with wrong ones."""

from dataclasses import dataclass, field
from typing import ClassVar

import jax
import jax.numpy as jnp
import pytest
from theory.networks import flat
from theory.own_neuron import AlphaSynapse, Parallel

import otpe
from otpe.neurons import AdaptiveLIF, CubaLIF, LeakyIntegrator, PerNeuron, Uniform
from otpe.surrogates import surrogate_derivative
from otpe.testing import check_neuron

TRAINED = {"learn_leak": True, "learn_current_leak": "neuron"}
OURS = [
    otpe.LIF(0.0, reset="none"),
    otpe.LIF(Uniform(0.3, 0.9), reset="zero", surrogate=otpe.arctan(), learn_leak=True),
    CubaLIF(PerNeuron([0.9, 0.5, 0.8, 0.2]), 0.7, **TRAINED),
    CubaLIF(0.9, 0.7, reset="zero", surrogate=otpe.gaussian(), **TRAINED),
    CubaLIF(0.8, 0.0, reset="none", surrogate=otpe.triangular(0.5)),
    CubaLIF(0.8, 0.6, surrogate=flat),
    AdaptiveLIF(0.9, 0.8, 0.5, reset="zero", learn_leak="neuron", learn_adaptation_leak=True),
    AdaptiveLIF(0.9, Uniform(0.2, 0.8), threshold=0.5, reset="none", surrogate=flat),
    LeakyIntegrator(0.9, learn_leak=True),
    *(kind(0.9) for kind in otpe.neurons.NAMED.values()),
]


@pytest.mark.parametrize("neuron", OURS, ids=lambda neuron: f"{type(neuron).__name__}-{getattr(neuron, 'reset', '')}")
def test_our_neurons_pass(neuron):
    check_neuron(neuron)


def test_our_neurons_pass_in_32_bits():
    with jax.enable_x64(False):
        for neuron in (otpe.LIF(0.9), CubaLIF(0.9, 0.7, reset="zero", **TRAINED), AdaptiveLIF(0.9)):
            check_neuron(neuron, shape=(2, 3))


def test_a_users_neuron_passes():
    check_neuron(AlphaSynapse())


# One wrong entry at a time


def changed(kind, part, index, by):
    """Return the neuron with one entry of A, b or h changed by `by`."""

    @dataclass(frozen=True)
    class Wrong(kind):
        def linearise(self, point):
            A, b, h = super().linearise(point)
            entries = {"A": [list(row) for row in A], "b": list(b), "h": list(h)}
            into = entries[part][index[0]] if part == "A" else entries[part]
            into[index[-1]] = into[index[-1]] + by
            return tuple(map(tuple, entries["A"])), tuple(entries["b"]), tuple(entries["h"])

    return Wrong


ENTRIES = [("A", (i, j)) for i in (0, 1) for j in (0, 1)] + [(part, (i,)) for part in "bh" for i in (0, 1)]


@pytest.mark.parametrize("kind", [CubaLIF, AdaptiveLIF])
@pytest.mark.parametrize(("part", "index"), ENTRIES, ids=str)
def test_a_wrong_entry_is_named(kind, part, index):
    entry = part + "".join(rf"\[{i}\]" for i in index)
    what = {
        "A": "state {} by state {} one step before".format(*index, ""),
        "b": f"state {index[0]} by the current",
        "h": f"the output by state {index[0]}",
    }[part]
    with pytest.raises(AssertionError, match=rf"linearise of Wrong: {entry} is .*, but the derivative of {what} is"):
        check_neuron(changed(kind, part, index, 0.05)(0.9, 0.7))


# Typical mistakes


@dataclass(frozen=True)
class ForgetsTheReset(otpe.LIF):
    def linearise(self, v):
        _, b, h = super().linearise(v)
        return self.leak, b, h


@dataclass(frozen=True)
class ForgetsTheCoupling(CubaLIF):
    def linearise(self, v):
        ((α, _), (_, ρ)), b, h = super().linearise(v)
        return ((α, 0), (0, ρ)), b, h


@dataclass(frozen=True)
class TakesTheSpikeForItsDerivative(CubaLIF):
    def linearise(self, v):
        A, b, _ = super().linearise(v)
        return A, b, (0, (v >= self.threshold).astype(v.dtype))


@dataclass(frozen=True)
class SignOfTheAdaptation(AdaptiveLIF):
    def linearise(self, point):
        A, b, (g, h) = super().linearise(point)
        return A, b, (g, -h)


@dataclass(frozen=True)
class WrongLeaks(CubaLIF):
    def leaks(self):
        return ((self.current_leak, 0), (0, self.leak))


@dataclass(frozen=True)
class WrongCauses(CubaLIF):
    def causes(self, state):
        return super().causes(state) | {"current_leak": (state[0], (1.0, 0))}


@dataclass(frozen=True)
class CausesLateByOne(otpe.LIF):
    def causes(self, u):
        return {"leak": (0.9 * u, 1.0)}


@dataclass(frozen=True)
class Normalised(otpe.LIF):
    """Neurons that inhibit each other, which a step must not do."""

    def step(self, u, current):
        return super().step(u, current - 0.1 * current.mean(-1, keepdims=True))


@dataclass(frozen=True)
class SaysItSpikes(LeakyIntegrator):
    spiking: ClassVar = True


@dataclass(frozen=True)
class OtherShape(otpe.LIF):
    def step(self, u, current):
        u, s, v = super().step(u, current)
        return u, s.sum(-1), v


@dataclass(frozen=True)
class TwoOfThree(otpe.LIF):
    def step(self, u, current):
        return super().step(u, current)[:2]


@dataclass(frozen=True)
class OtherPoles(CubaLIF):
    poles: ClassVar = (0, 2)


@dataclass(frozen=True)
class CurrentLast(CubaLIF):
    poles: ClassVar = (1, 0)


@dataclass(frozen=True)
class TooFewEntries(CubaLIF):
    def linearise(self, v):
        A, b, (_, g) = super().linearise(v)
        return A, b, (g,)


@dataclass(frozen=True)
class NotAlike:
    """Equality by identity instead of by value."""

    inner: otpe.LIF = field(default=otpe.LIF(0.9), compare=False)
    start, step, linearise = (property(lambda self, name=name: getattr(self.inner, name)) for name in ("start", "step", "linearise"))  # fmt: skip
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class NoHash(otpe.LIF):
    __hash__ = None


def root(d):
    """NaN below the threshold, but not at the seven distances at which every surrogate is tested."""
    return jnp.where(jnp.abs(d + 0.5) < 0.2, jnp.sqrt(-jnp.abs(d)), jnp.exp(-jnp.abs(d)))


@pytest.mark.parametrize(
    ("neuron", "message"),
    [
        (ForgetsTheReset(0.9), r"linearise of ForgetsTheReset: A is 0.9, but the derivative of the state by the state one step before is"),
        (ForgetsTheCoupling(0.9, 0.7), r"A\[1\]\[0\] is 0, but the derivative of state 1 by state 0 one step before is 0.7 .*Correct linearise"),
        (TakesTheSpikeForItsDerivative(0.9, 0.7), r"h\[1\] is [01], but the derivative of the output by state 1 is"),
        (SignOfTheAdaptation(0.9), r"h\[1\] is .*, but the derivative of the output by state 1 is -"),
        (WrongLeaks(0.9, 0.7), r"leaks\(\)\[1\]\[0\] is 0, but the derivative of state 1 by state 0 without spikes is 0.7"),
        (WrongCauses(0.9, 0.7, **TRAINED), r"by causes\(\), the derivative of the output by current_leak is .* at step \d, but by step it is"),
        (CausesLateByOne(0.9, learn_leak=True), r"by causes\(\), the derivative of the output by leak is"),
        (Normalised(0.9), r"another current in one neuron changed another neuron. All of step and linearise must be elementwise"),
        (SaysItSpikes(0.9), r"SaysItSpikes says that it is spiking, but its output is .*, expected 0 or 1"),
        (OtherShape(0.9), r"OtherShape: the output of step has the shape \[16\] and the type float64, expected the shape \[16, 4\]"),
        (TwoOfThree(0.9), r"step of TwoOfThree returned tuple, expected \(state, output, kept\), where linearise takes kept"),
        (OtherPoles(0.9, 0.7), r"poles of OtherPoles are \(0, 2\), expected numbers of states from 0 to 1, each at most once"),
        (CurrentLast(0.9, 0.7), r"poles of CurrentLast are \(1, 0\), but state 0 does not drive the output: the membrane is last"),
        (TooFewEntries(0.9, 0.7), r"linearise of TooFewEntries returned 1 entries where b has 2, expected 2"),
        (NotAlike(), r"NotAlike differs from a copy of itself: make it a frozen dataclass"),
        (NoHash(0.9), r"NoHash cannot be hashed, expected a frozen dataclass of plain numbers.*otpe.PerNeuron"),
        (otpe.LIF(0.9, surrogate=root), r"LIF: A is nan at some step, expected finite numbers. A frequent cause is a surrogate"),
        (otpe.LIF, r"neuron is <class .*LIF.*>, expected a neuron such as otpe.LIF\(0.95\)"),
        (Parallel(), r"Parallel: 0 steps after a current of 1 its membrane is 2, but a chain of leaky sums through the states \(0, 1, 2\) gives 1.*say so in the class: poles"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)  # fmt: skip
def test_wrong_neurons_are_found(neuron, message):
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_neuron(neuron)


@dataclass(frozen=True)
class Early(AlphaSynapse):
    """The state is stored after the leak, linearise describes it before the leak. The outputs are the same function."""

    def step(self, state, current):
        J, I, u = state
        J = J + current
        I = I + J
        v = u + I
        s = otpe.spike(self.surrogate, v - 1)
        return (self.rise * J, self.fall * I, self.leak * (v - self.reset * s)), s, v


@dataclass(frozen=True)
class EarlyWithLeaks(Early):
    def leaks(self):
        return ((self.rise, 0, 0), (self.rise, self.fall, 0), (self.rise, self.fall, self.leak))


@dataclass(frozen=True)
class Scaled(otpe.LIF):
    """A scaled state: its leak stays the same."""

    def step(self, u, current):
        after, s, v = super().step(u / 3, current)
        return 3 * after, s, v


def test_states_may_have_other_coordinates_if_the_neuron_has_leaks():
    with pytest.raises(AssertionError, match=r"b\[0\] is 1, but the derivative of state 0 by the current is 0.5"):
        check_neuron(Early())
    check_neuron(EarlyWithLeaks())
    check_neuron(Scaled(0.9))


@dataclass(frozen=True)
class Delayed:
    """A current acts one step late, and the spike is stored: the state has one array more than linearise has states."""

    surrogate: object = otpe.arctan()
    wrong: float = 0.0
    poles: ClassVar = (0, 1)

    def start(self, shape, dtype):
        return (jnp.zeros(shape, dtype),) * 3

    def step(self, state, current):
        I, v, s = state
        v = 0.9 * (v - s) + I
        I = 0.7 * I + current
        s = otpe.spike(self.surrogate, v - 1)
        return (I, v, s), s, v

    def linearise(self, v):
        g = surrogate_derivative(self.surrogate, v - 1)
        return ((0.7, 0), (1.0, 0.9 * (1 - g) + self.wrong)), (1.0, 0), (0, g)

    def leaks(self):
        return ((0.7, 0), (1.0, 0.9))


def test_a_state_with_extra_arrays_is_compared_by_its_output_derivatives():
    check_neuron(Delayed())
    with pytest.raises(
        AssertionError,
        match=r"the derivative of the output by the current 2 steps before is .* by h A² b, but .* by step",
    ):
        check_neuron(Delayed(wrong=0.05))
