"""The contract of a learning rule.

A rule answers two questions about ONE layer, from what that layer sees and nothing else:
which gradient do its weights get, and which signal goes to the layer below. It answers them in two forms
that a test holds equal:

per step         init / advance / emit      forwards in time, memory that does not grow with it
whole sequence   start / backward           backwards in time, one number per neuron and step

In the whole-sequence form the gradient of the weights is Σ_t x_t ⊗ κ_t, so `backward` returns κ and the signal m.
Everything here is elementwise; loops over time, matrix products and storage belong to the drivers.

Symbols, everywhere in this folder. A, b and h are explained in `otpe.neurons`:

  q_t  learning signal that reaches the layer: ∂loss_t/∂s_t as estimated from above
  m_t  what the layer sends down: the layer below receives q_t = m_t Wᵀ
  D_t  ∂z_t/∂W, the trace of a weight: k numbers for a neuron with k states
  A_t  ∂z_{t+1}/∂z_t; for a LIF neuron the survival ρ_t = λ(1 − θ g_t)
  A⁰   the leaks alone, of a layer as a whole; for a LIF layer λ
  h_t  ∂s_t/∂z_t
  g_t  h_t · b = ∂s_t/∂c_t, the surrogate derivative
  ḡ_t  its leaky average; for a LIF layer above, Σ_τ λ^(t−τ) g_τ / Σ_τ λ^(t−τ)
  a_t  decay of a whole stage: its leak, or for "mean-reset" the mean survival of its neurons, mean_j ρ_t

A vector of k numbers per neuron is a tuple of k arrays. Where k is 1 it is the array itself: for a LIF neuron
`decay.carry(D, x)` is `ρ * D + x`, and `now.read(D)` is `g * D`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from otpe import check, states
from otpe.losses import Readout
from otpe.states import Matrix, Vector

Order = int | Literal["depth", "readout"]
StageLeak = Literal["plain", "mean-reset"]
TraceKind = Literal["input", "weight"]
Averages = bool | Literal["below"]
Decay = Array | float  # one for all, or one per sample
Rows = tuple[Any, ...]  # traces, each an array or a vector of k arrays; see traces.py for their shape


class Now(NamedTuple):
    """How the outputs of the layer depend on its states at step t."""

    h: Vector  # h_t  [B, n] each
    h̄: Vector  # its leaky average, for rules that declare `averages` and where it matters; h_t elsewhere
    b: Vector = 1.0

    @property
    def g(self) -> Any:
        """g_t [B, n]."""
        return states.dot(self.h, self.b)

    @property
    def ḡ(self) -> Any:
        """ḡ_t [B, n]."""
        return states.dot(self.h̄, self.b)

    def read(self, D: Vector) -> Any:
        """h_t · D: ∂s_t/∂W from ∂z_t/∂W."""
        return states.dot(self.h, D)

    def spread(self, q: Array) -> Vector:
        """q h_t: from a signal for the outputs to one for the states."""
        return states.scaled(q, self.h)

    def spread_mean(self, q: Array) -> Vector:
        """q h̄_t."""
        return states.scaled(q, self.h̄)


class Decays(NamedTuple):
    """What is left after one step: from t−1 to t for `advance`, from t to t+1 for `backward`."""

    A: Matrix  # of each neuron [B, n] each; None per step for rules with a trace per input
    leaks: Matrix  # A⁰, of the layer as a whole; None where a rule has a trace per weight and a "mean-reset" leak
    stages: tuple[Decay, ...]  # of the leaky stages above, nearest first
    b: Vector = 1.0  # how an input enters the states

    def carry(self, D: Vector, x: Array) -> Vector:
        """A D + b x: a trace that knows which neuron listens, one step on."""
        return states.carried(self.A, D, states.scaled(x, self.b))

    def carry_leaky(self, a: Vector, x: Array) -> Vector:
        """A⁰ a + b x: a trace that all neurons of the layer share, one step on."""
        return states.carried(self.leaks, a, states.scaled(x, self.b))

    def carry_back(self, y: Vector, f: Vector) -> Vector:
        """f + Aᵀ y: a signal for the states, one step back."""
        return states.carried_back(self.A, y, f)

    def carry_back_leaky(self, y: Vector, f: Vector) -> Vector:
        """f + A⁰ᵀ y."""
        return states.carried_back(self.leaks, y, f)

    def enter(self, y: Vector) -> Any:
        """b · y: κ, the signal for the current, from the one for the states."""
        return states.dot(self.b, y)

    @property
    def ρ(self) -> Any:
        """A of neurons with one state."""
        return _only(self.A, "ρ", "carry")

    @property
    def own(self) -> Any:
        """A⁰ of neurons with one state."""
        return _only(self.leaks, "own", "carry_leaky")


def _only(A: Matrix, name: str, instead: str) -> Any:
    if isinstance(A, tuple):
        raise ValueError(
            f"decay.{name} is one number per neuron, but the neurons of this layer have {len(A)} states. Write the rule"
            f" with decay.{instead}(trace, x) instead: it works for all neurons."
        )
    return A


class Emission(NamedTuple):
    """dW_t = Σ_b post · row, and the signal for the layer below.

    `post` and `row` may be vectors of the same length: then dW_t = Σ_b Σ_i post_i · row_i.
    """

    post: Vector  # [B, n] each
    row: Vector  # one of the rows, or shaped like them
    below: Array  # m_t [B, n]


@runtime_checkable
class PerStep(Protocol):
    """Facts about a rule, and its form that runs forwards in time."""

    @property
    def trace(self) -> TraceKind:
        """Does a trace hold a number per "input" (memory O(n)) or per "weight" (O(n²))?"""
        ...

    @property
    def order(self) -> Order:
        """Through how many leaky stages above the layer do traces pass? "depth": through all of them;
        "readout": the leaky readout alone, in the output layer, for rules that pass all else on exactly."""
        ...

    @property
    def stage_leak(self) -> StageLeak:
        """Does a whole stage decay with its "plain" leak or with its "mean-reset" one?"""
        ...

    @property
    def averages(self) -> Averages:
        """Does the rule use ḡ? "below": only in what it sends down, so that the first layer has no need of it."""
        ...

    def init(self, row: Vector, stages: int) -> Rows:
        """The traces before the first step. `row` is a blank vector, `scalar(row)` a blank number; `stages` is how
        many leaky sums the order comes to here."""
        ...

    def advance(self, rows: Rows, x: Array, now: Now, decay: Decays) -> Rows:
        """The traces after step t, with the layer's input x_t in the shape of a row."""
        ...

    def emit(self, rows: Rows, q: Array, now: Now) -> Emission:
        """The gradient of step t, and the signal to send down."""
        ...


@runtime_checkable
class WholeSequence(Protocol):
    """Facts about a rule, and its form that runs backwards in time."""

    @property
    def order(self) -> Order: ...

    @property
    def stage_leak(self) -> StageLeak: ...

    @property
    def averages(self) -> Averages: ...

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        """The filters after the last step, made of a blank vector per neuron; `scalar(neuron)` is a blank number."""
        ...

    def backward(
        self, carry: tuple[Any, ...], q: Array, now: Now, decay: Decays
    ) -> tuple[tuple[Any, ...], Array, Array]:
        """The filters at step t, then κ_t and m_t."""
        ...


class LocalRule(PerStep, WholeSequence, Protocol):
    """A rule in both forms."""


def check_stages(order: object, stage_leak: object) -> None:
    """Refuse an order or a stage leak that means nothing."""
    if order != "depth" and not (isinstance(order, int) and not isinstance(order, bool) and order >= 0):
        raise ValueError(
            f"order is {order!r}, expected a whole number from 0 on, or 'depth' for every leaky stage above a layer."
        )
    check.one_of("stage_leak", stage_leak, get_args(StageLeak))


class StepForm(Protocol):
    """The per-step form of a rule on a whole network.

    `advance` feeds one time step of spikes [B, n_in] and needs no label; `emit` then gives the loss of that step and
    its gradient. The state is what the next step needs, the info what happened in this one.
    """

    def init(self, batch: int = 1, dtype: Any = float) -> Any: ...

    def traces_of(self, state: Any) -> Any:
        """The part of a state that is there for learning, not for running the network."""
        ...

    def neurons_of(self, state: Any) -> tuple[Any, ...]:
        """The state of the neurons of each layer: arrays [B, n]."""
        ...

    def advance(self, params: Any, state: Any, x: ArrayLike) -> tuple[Any, Any]: ...

    def emit(
        self, params: Any, state: Any, info: Any, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        """The mean over the batch, or the sum with these weights [B]."""
        ...

    def learn(
        self, params: Any, state: Any, x: ArrayLike, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Any, Any, Array, tuple[Any, ...]]:
        """`advance` and `emit` at once: the state, the info, the loss and the gradient."""
        ...

    @property
    def grows(self) -> bool:
        """Does a step cost more the more steps are to be remembered?"""
        ...

    def remembering(self, steps: int) -> "StepForm":
        """The same for a sequence of no more than that many steps."""
        ...

    def widen(self, state: Any) -> Any:
        """The state of one that remembers fewer steps, while it has not had to forget any yet."""
        ...


def check_step(form: StepForm, net: Any, params: Any, state: Any, x: ArrayLike) -> Array:
    """The spikes of one step, if the state was made by this form, for these parameters."""
    batch = next((leaf.shape[0] for leaf in jax.tree.leaves(state) if np.ndim(leaf)), 1)
    dtype = jax.tree.leaves(params)[0].dtype
    fix = f"what init(batch, {str(dtype)!r}) of this stepper, or its last advance, returned"
    check.state(state, _blank_state(form, batch, dtype), fix)
    return check.step_spikes(net, params, x, batch)


@lru_cache
def _blank_state(form: StepForm, batch: int, dtype: Any) -> Any:
    return jax.eval_shape(lambda: form.init(batch, dtype))


@runtime_checkable
class NonLocal(Protocol):
    """A rule that must see the whole network, and so brings its own per-step form."""

    def stepper(self, net: Any, rule: "Rule", loss: Any) -> StepForm: ...


@dataclass(frozen=True)
class Rule:
    """A learning rule for a whole network: one local rule for hidden layers, one for the output.

    `readout` is what the loss sees: the output spikes, or their leaky sum.
    """

    name: str
    hidden: Any
    output: Any
    readout: Readout = "spikes"

    def __post_init__(self) -> None:
        check.one_of("readout", self.readout, get_args(Readout))
        for where, local in (("hidden", self.hidden), ("output", self.output)):
            if isinstance(local, type) or not isinstance(local, PerStep | WholeSequence | NonLocal):
                raise TypeError(
                    f"{where} is {local!r}, expected a local rule such as otpe.Otpe() or otpe.Ostl(); docs/"
                    "how-to-write-a-rule.md has the contract."
                )
        if isinstance(self.hidden, NonLocal) != isinstance(self.output, NonLocal):
            raise ValueError(
                f"hidden is {self.hidden!r} and output is {self.output!r}: a rule that sees the whole network cannot"
                " share it with a local one. Use it for both, or for neither."
            )
        if not (self.has_whole or self.has_steps):
            raise ValueError(
                f"hidden is {self.hidden!r} and output is {self.output!r}: one has only a per-step form, the other"
                " only a whole-sequence form, expected a form that both have."
            )

    def at(self, layer: int, depth: int) -> Any:
        """The local rule of a layer, 0 being the first of `depth`."""
        return self.output if layer == depth - 1 else self.hidden

    @property
    def has_whole(self) -> bool:
        """Does it have a whole-sequence form?"""
        return isinstance(self.hidden, WholeSequence) and isinstance(self.output, WholeSequence)

    @property
    def has_steps(self) -> bool:
        """Does it have a per-step form, so that it can learn online?"""
        return isinstance(self.hidden, PerStep | NonLocal) and isinstance(self.output, PerStep | NonLocal)


def scalar(v: Vector) -> Any:
    """One entry of a blank vector: the start of a trace with one number, whatever the neuron."""
    return states.entries(v)[0]


def cascade(signal: Any, decays: tuple[Decay, ...], filters: Rows) -> tuple[Any, Rows]:
    """Pass a signal, a number or a vector, through a chain of leaky sums; return what comes out, and all of them.

    y⁽ᵏ⁾ = a⁽ᵏ⁾ y⁽ᵏ⁾ + y⁽ᵏ⁻¹⁾,   y⁽⁰⁾ the signal
    """
    passed = []
    for a, y in zip(decays, filters, strict=True):
        signal = states.summed(a, y, signal)
        passed.append(signal)
    return signal, tuple(passed)
