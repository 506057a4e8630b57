"""Approx OTPE: OTPE with one number per input, and with the surrogate derivative replaced by its average.

    â_t = A⁰_{t-1} â_{t-1} + b x_t                    k numbers per input, as in OTTT
    ẑ⁽ᵏ⁾_t = a⁽ᵏ⁾_{t-1} ẑ⁽ᵏ⁾_{t-1} + ẑ⁽ᵏ⁻¹⁾_t,  ẑ⁽⁰⁾ = â        k = 1..order: one leaky sum per stage above, as in OTPE
    dW_t = ẑ_t ⊗ q_t h̄_t                              with the last sum ẑ, summed over the k numbers
    m_t = q_t ḡ_t

    whole sequence:   y⁽ᵏ⁾_t = y⁽ᵏ⁺¹⁾_t + a⁽ᵏ⁾_t y⁽ᵏ⁾_{t+1}     top stage first, its input is q_t h̄_t
                      y_t = y⁽¹⁾_t + A⁰_tᵀ y_{t+1},   κ_t = b · y_t

`order` and `stage_leak` are as in `otpe`. With the "mean-reset" leak, â also uses the mean survival of its layer. Order
1 with the plain leak is the paper's Approx OTPE. Order "depth" with the mean-reset leak is approx-deep-otpe.

Dropped    all that OTPE drops, and the changes of a neuron's reset and surrogate derivative from step to step.
Exact when the surrogate is constant, there is no reset, and OTPE is exact (order "depth" then equals BPTT at every
           depth); or T = 1; or λ = 0.
Cost       (1 + order) · n_in per sample per step; whole sequence O(T n) and one matrix product.

@article{summe2023estimating,
  title={Estimating Post-Synaptic Effects for Online Training of Feed-Forward {SNNs}},
  author={Summe, Thomas and Schaefer, Clemens JS and Joshi, Siddharth},
  journal={arXiv preprint arXiv:2311.16151}, year={2023}}
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array

from otpe.rulebook.rule import (
    Averages,
    Decays,
    Emission,
    Order,
    Rows,
    StageLeak,
    StepDerivatives,
    TraceKind,
    Vector,
    cascade,
    check_stages,
)


@dataclass(frozen=True)
class Approx:
    order: Order = 1
    stage_leak: StageLeak = "plain"
    trace: ClassVar[TraceKind] = "input"
    averages: ClassVar[Averages] = True

    def __post_init__(self) -> None:
        check_stages(self.order, self.stage_leak)

    def init(self, row: Vector, stages: int) -> Rows:
        return (row,) * (1 + stages)

    def advance(self, rows: Rows, x: Array, now: StepDerivatives, decay: Decays) -> Rows:
        a, *z = rows
        a = decay.carry_leaky(a, x)
        _, z = cascade(a, decay.stages, tuple(z))
        return (a, *z)

    def emit(self, rows: Rows, q: Array, now: StepDerivatives) -> Emission:
        return Emission(post=now.spread_mean(q), row=rows[-1], below=q * now.ḡ)

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        return (neuron,) * (1 + stages)

    def backward(self, carry: tuple[Any, ...], q: Array, now: StepDerivatives, decay: Decays):
        y, *filters = carry
        arrived, filters = cascade(now.spread_mean(q), decay.stages[::-1], tuple(filters))
        y = decay.carry_back_leaky(y, arrived)
        return (y, *filters), decay.enter(y), q * now.ḡ
