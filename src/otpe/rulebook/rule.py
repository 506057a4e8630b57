"""The contract of a learning rule.

A rule answers two questions about ONE layer, using only what that layer sees: what is the gradient of its weights, and
which signal goes to the layer below? It answers them in two forms. A test checks that both forms give the same result.

per step         init / advance / emit      forwards in time, in memory that does not grow with time
whole sequence   start / backward           backwards in time, one number per neuron and step

In the whole-sequence form the gradient of the weights is Σ_t x_t ⊗ κ_t, so `backward` returns κ and the signal m.
All methods of a rule are elementwise. The drivers do the loops over time, the matrix products and the storage.

Symbols used in this folder. `otpe.neurons` explains A, b and h:

  q_t  learning signal that reaches the layer: ∂loss_t/∂s_t as estimated from above
  m_t  signal that the layer sends down: the layer below receives q_t = m_t Wᵀ
  D_t  ∂z_t/∂W, the trace of a weight: k numbers for a neuron with k states
  A_t  ∂z_{t+1}/∂z_t; for a LIF neuron the survival ρ_t = λ(1 − θ g_t)
  A⁰   the leaks alone, one matrix for the whole layer; for a LIF layer λ
  h_t  ∂s_t/∂z_t
  g_t  h_t · b = ∂s_t/∂c_t, the surrogate derivative
  ḡ_t  leaky average of g; for a LIF layer above, Σ_τ λ^(t−τ) g_τ / Σ_τ λ^(t−τ)
  a_t  decay of a whole stage: its leak, or with "mean-reset" the mean survival of its neurons, mean_j ρ_t

A vector of k numbers per neuron is a tuple of k arrays. If k is 1, the vector is the array itself: for a LIF neuron
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
Decay = Array | float  # one number for all samples, or one per sample
Rows = tuple[Any, ...]  # traces, each an array or a vector of k arrays; traces.py gives their shapes


class StepDerivatives(NamedTuple):
    """Derivatives of a layer's outputs with respect to its states, at step t."""

    h: Vector  # h_t  [B, n] each
    h̄: Vector  # leaky average of h if the rule declares `averages` and uses it in this layer; otherwise h_t
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
        """h_t · D: turns ∂z_t/∂W into ∂s_t/∂W."""
        return states.dot(self.h, D)

    def spread(self, q: Array) -> Vector:
        """q h_t: turns a signal for the outputs into one for the states."""
        return states.scaled(q, self.h)

    def spread_mean(self, q: Array) -> Vector:
        """q h̄_t."""
        return states.scaled(q, self.h̄)


class Decays(NamedTuple):
    """Decay factors over one step: from t−1 to t for `advance`, from t to t+1 for `backward`.

    For the weights of a layer, fields that its rule must not use are None:

    | trace    | stage_leak   | A    | leaks                                  |
    |----------|--------------|------|----------------------------------------|
    | "weight" | "plain"      | A    | A⁰                                     |
    | "weight" | "mean-reset" | A    | None                                   |
    | "input"  | "plain"      | None | A⁰                                     |
    | "input"  | "mean-reset" | None | A⁰ with the mean survival of the layer |

    The traces of trained neuron parameters are one per neuron, so for them A is never None.
    """

    A: Matrix  # of each neuron [B, n] each
    leaks: Matrix  # of the layer as a whole
    stages: tuple[Decay, ...]  # of the leaky stages above, nearest first
    b: Vector = 1.0  # how an input enters the states

    def carry(self, D: Vector, x: Array) -> Vector:
        """A D + b x: one step of a trace that each neuron has for itself."""
        return states.carried(self.A, D, states.scaled(x, self.b))

    def carry_leaky(self, a: Vector, x: Array) -> Vector:
        """A⁰ a + b x: one step of a trace that all neurons of the layer share."""
        return states.carried(self.leaks, a, states.scaled(x, self.b))

    def carry_back(self, y: Vector, f: Vector) -> Vector:
        """f + Aᵀ y: a signal for the states, carried one step back in time."""
        return states.carried_back(self.A, y, f)

    def carry_back_leaky(self, y: Vector, f: Vector) -> Vector:
        """f + A⁰ᵀ y."""
        return states.carried_back(self.leaks, y, f)

    def enter(self, y: Vector) -> Any:
        """b · y: turns a signal for the states into κ, the signal for the current."""
        return states.dot(self.b, y)

    @property
    def ρ(self) -> Any:
        """A, for neurons with one state. Raises ValueError for several states."""
        return _only(self.A, "ρ", "carry")

    @property
    def own(self) -> Any:
        """A⁰, for neurons with one state. Raises ValueError for several states."""
        return _only(self.leaks, "own", "carry_leaky")


def _only(A: Matrix, name: str, instead: str) -> Any:
    """The single entry of A. Raises ValueError, which names the method to use instead, for several states."""
    if isinstance(A, tuple):
        raise ValueError(
            f"decay.{name} is one number per neuron, but the neurons of this layer have {len(A)} states. Write the rule"
            f" with decay.{instead}(trace, x) instead: it works for all neurons."
        )
    return A


class Emission(NamedTuple):
    """What a rule gives at step t: the gradient dW_t = Σ_b post · row, and the signal for the layer below.

    `post` and `row` may be vectors of the same length. Then dW_t = Σ_b Σ_i post_i · row_i.
    """

    post: Vector  # [B, n] each
    row: Vector  # one of the traces, or an array of the same shape
    below: Array  # m_t [B, n]


@runtime_checkable
class PerStep(Protocol):
    """The form of a rule that runs forwards in time, and facts about the rule."""

    @property
    def trace(self) -> TraceKind:
        """Whether a trace holds one number per "input" (memory O(n)) or per "weight" (O(n²))."""
        ...

    @property
    def order(self) -> Order:
        """How many leaky stages above the layer filter the traces. "depth": all of them. "readout": in the output layer
        the leaky readout, in other layers none. This is for rules that send the exact signal down, such as BPTT."""
        ...

    @property
    def stage_leak(self) -> StageLeak:
        """Whether a whole stage decays with its "plain" leak or its "mean-reset" leak."""
        ...

    @property
    def averages(self) -> Averages:
        """Whether the rule uses ḡ. "below": only in the signal that it sends down, so the first layer needs no ḡ."""
        ...

    def init(self, row: Vector, stages: int) -> Rows:
        """The traces before the first step.

        `row` is a blank trace: a vector of zeros. `scalar(row)` is a blank trace with one number instead of k.
        `stages` is the number of leaky sums above: one per pole of each stage that `order` selects.
        """
        ...

    def advance(self, rows: Rows, x: Array, now: StepDerivatives, decay: Decays) -> Rows:
        """The traces after step t. `x` is the layer's input x_t in the shape of a trace."""
        ...

    def emit(self, rows: Rows, q: Array, now: StepDerivatives) -> Emission:
        """The gradient of step t, and the signal for the layer below."""
        ...


@runtime_checkable
class WholeSequence(Protocol):
    """The form of a rule that runs backwards in time, and facts about the rule."""

    @property
    def order(self) -> Order: ...

    @property
    def stage_leak(self) -> StageLeak: ...

    @property
    def averages(self) -> Averages: ...

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        """The filters after the last step. `neuron` and `stages` are like `row` and `stages` in `init`."""
        ...

    def backward(
        self, carry: tuple[Any, ...], q: Array, now: StepDerivatives, decay: Decays
    ) -> tuple[tuple[Any, ...], Array, Array]:
        """The filters at step t, κ_t and m_t."""
        ...


class LocalRule(PerStep, WholeSequence, Protocol):
    """A rule in both forms."""


def check_stages(order: object, stage_leak: object) -> None:
    """Raise ValueError for an invalid order or stage leak."""
    if order != "depth" and not (isinstance(order, int) and not isinstance(order, bool) and order >= 0):
        raise ValueError(
            f"order is {order!r}, expected a whole number from 0 on, or 'depth' for all leaky stages above a layer."
        )
    check.one_of("stage_leak", stage_leak, get_args(StageLeak))


class StepForm(Protocol):
    """The per-step form of a rule on a whole network.

    `advance` takes one time step of spikes [B, n_in] and needs no label. `emit` then returns the loss of that step and
    its gradient. The state is what the next step needs. The info is what `emit` needs to know about this step.
    """

    def init(self, batch: int = 1, dtype: Any = float) -> Any: ...

    def traces_of(self, state: Any) -> Any:
        """The part of a state that is needed for learning, but not for running the network."""
        ...

    def neurons_of(self, state: Any) -> tuple[Any, ...]:
        """The state of the neurons of each layer: arrays [B, n]."""
        ...

    def advance(self, params: Any, state: Any, x: ArrayLike) -> tuple[Any, Any]: ...

    def emit(
        self, params: Any, state: Any, info: Any, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        """The loss of the last step and its gradient: a mean over the batch, or a sum with `weight` [B]."""
        ...

    def learn(
        self, params: Any, state: Any, x: ArrayLike, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Any, Any, Array, tuple[Any, ...]]:
        """`advance` and `emit` in one call. Returns the state, the info, the loss and the gradient."""
        ...

    @property
    def grows(self) -> bool:
        """Whether the cost of a step grows with the number of steps to remember."""
        ...

    def remembering(self, steps: int) -> "StepForm":
        """The same stepper for a sequence of at most `steps` steps."""
        ...

    def widen(self, state: Any) -> Any:
        """Convert a state of a stepper that remembers fewer steps. That stepper must not have dropped a step yet."""
        ...


def check_step(form: StepForm, net: Any, params: Any, state: Any, x: ArrayLike) -> Array:
    """The spikes of one step as an array. Raises ValueError if the state does not fit the form and the parameters."""
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
    """A rule that needs the whole network, and therefore brings its own per-step form."""

    def stepper(self, net: Any, rule: "Rule", loss: Any) -> StepForm: ...


@dataclass(frozen=True)
class Rule:
    """A learning rule for a whole network: one local rule for the hidden layers, one for the output layer.

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
                    f"{where} is {local!r}, expected a local rule such as otpe.Otpe() or otpe.Ostl();"
                    " docs/how-to/write-a-rule.md describes what a rule needs."
                )
        if isinstance(self.hidden, NonLocal) != isinstance(self.output, NonLocal):
            raise ValueError(
                f"hidden is {self.hidden!r} and output is {self.output!r}: a rule that sees the whole network cannot be"
                " combined with a local one. Use it for both, or for neither."
            )
        if not (self.has_whole or self.has_steps):
            raise ValueError(
                f"hidden is {self.hidden!r} and output is {self.output!r}: one has only a per-step form, the other"
                " only a whole-sequence form. Expected two rules that have a form in common."
            )

    def at(self, layer: int, depth: int) -> Any:
        """The local rule of layer number `layer` in a network of `depth` layers, counted from 0."""
        return self.output if layer == depth - 1 else self.hidden

    @property
    def has_whole(self) -> bool:
        """Whether both local rules have a whole-sequence form."""
        return isinstance(self.hidden, WholeSequence) and isinstance(self.output, WholeSequence)

    @property
    def has_steps(self) -> bool:
        """Whether both local rules have a per-step form, so that the rule can learn online."""
        return isinstance(self.hidden, PerStep | NonLocal) and isinstance(self.output, PerStep | NonLocal)


def scalar(v: Vector) -> Any:
    """One entry of a vector of zeros: the start of a trace with one number, for neurons with any number of states."""
    return states.entries(v)[0]


def cascade(signal: Any, decays: tuple[Decay, ...], filters: Rows) -> tuple[Any, Rows]:
    """Pass a signal (a number or a vector) through a chain of leaky sums. Return the last sum, and all sums.

    y⁽ᵏ⁾ = a⁽ᵏ⁾ y⁽ᵏ⁾ + y⁽ᵏ⁻¹⁾,   y⁽⁰⁾ the signal
    """
    sums = []
    for a, y in zip(decays, filters, strict=True):
        signal = states.summed(a, y, signal)
        sums.append(signal)
    return signal, tuple(sums)
