"""Approx OTPE: OTPE with one number per input, the surrogate replaced by its average.

    â_t = A⁰_{t-1} â_{t-1} + b x_t                    k numbers per input, as in OTTT
    ẑ⁽ᵏ⁾_t = a⁽ᵏ⁾_{t-1} ẑ⁽ᵏ⁾_{t-1} + ẑ⁽ᵏ⁻¹⁾_t,  ẑ⁽⁰⁾ = â        k = 1..order: one leaky sum per stage above, as in OTPE
    dW_t = ẑ_t ⊗ q_t h̄_t                              the last of them, summed over the k
    m_t = q_t ḡ_t

    whole sequence:   y⁽ᵏ⁾_t = y⁽ᵏ⁺¹⁾_t + a⁽ᵏ⁾_t y⁽ᵏ⁾_{t+1}     the top stage first, fed with q_t h̄_t
                      y_t = y⁽¹⁾_t + A⁰_tᵀ y_{t+1},   κ_t = b · y_t

`order` and `stage_leak` as in `otpe`; with the "mean-reset" leak the layer's own filter has it too. Order 1 and the
plain leak is the paper's Approx OTPE, order "depth" and mean-reset is approx-deep-otpe.

Dropped    what OTPE drops, and that a neuron's reset and surrogate change from step to step.
Exact when it equals OTPE: constant surrogate and no reset. Order "depth" then equals BPTT at every depth. T = 1; λ = 0.
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
    Now,
    Order,
    Rows,
    StageLeak,
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

    def advance(self, rows: Rows, x: Array, now: Now, decay: Decays) -> Rows:
        a, *z = rows
        a = decay.carry_leaky(a, x)
        _, z = cascade(a, decay.stages, tuple(z))
        return (a, *z)

    def emit(self, rows: Rows, q: Array, now: Now) -> Emission:
        return Emission(post=now.spread_mean(q), row=rows[-1], below=q * now.ḡ)

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        return (neuron,) * (1 + stages)

    def backward(self, carry: tuple[Any, ...], q: Array, now: Now, decay: Decays):
        y, *filters = carry
        arrived, filters = cascade(now.spread_mean(q), decay.stages[::-1], tuple(filters))
        y = decay.carry_back_leaky(y, arrived)
        return (y, *filters), decay.enter(y), q * now.ḡ
