"""Approx OTPE: OTPE with one number per input, the surrogate replaced by its average.

    â_t = a_{t-1} â_{t-1} + x_t                       one number per input, as in OTTT
    ẑ⁽ᵏ⁾_t = a⁽ᵏ⁾_{t-1} ẑ⁽ᵏ⁾_{t-1} + ẑ⁽ᵏ⁻¹⁾_t,  ẑ⁽⁰⁾ = â        k = 1..order: one leaky sum per stage above, as in OTPE
    dW_t = ẑ_t ⊗ q_t ḡ_t                              the last of them
    m_t = q_t ḡ_t

    whole sequence:   y⁽ᵏ⁾_t = y⁽ᵏ⁺¹⁾_t + a⁽ᵏ⁾_t y⁽ᵏ⁾_{t+1}     the top stage first, fed with q_t ḡ_t
                      κ_t = y⁽¹⁾_t + a_t κ_{t+1}

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
from typing import ClassVar

from jax import Array

from otpe.rulebook.base import Averages, Decays, Emission, Now, Order, Rows, StageLeak, TraceKind, cascade, check_stages


@dataclass(frozen=True)
class Approx:
    order: Order = 1
    stage_leak: StageLeak = "plain"
    trace: ClassVar[TraceKind] = "input"
    averages: ClassVar[Averages] = True

    def __post_init__(self) -> None:
        check_stages(self.order, self.stage_leak)

    def init(self, row: Array, stages: int) -> Rows:
        return (row,) * (1 + stages)

    def advance(self, rows: Rows, x: Array, now: Now, decay: Decays) -> Rows:
        a, *z = rows
        a = decay.own * a + x
        _, z = cascade(a, decay.stages, tuple(z))
        return (a, *z)

    def emit(self, rows: Rows, q: Array, now: Now) -> Emission:
        return Emission(post=q * now.ḡ, row=rows[-1], below=q * now.ḡ)

    def start(self, neuron: Array, stages: int) -> tuple[Array, ...]:
        return (neuron,) * (1 + stages)

    def backward(self, carry: tuple[Array, ...], q: Array, now: Now, decay: Decays):
        κ, *y = carry
        y_next, y = cascade(q * now.ḡ, decay.stages[::-1], tuple(y))
        κ = y_next + decay.own * κ
        return (κ, *y), κ, q * now.ḡ
