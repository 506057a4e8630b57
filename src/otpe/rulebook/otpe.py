"""OTPE: each weight has an eligibility for the effect of its neuron's past spikes on the layers above.

    D_t = A_{t-1} D_{t-1} + b x_t                     ∂z_t/∂W, as in OSTL
    R̂⁽⁰⁾_t = h_t · D_t                                ∂s_t/∂W
    R̂⁽ᵏ⁾_t = a⁽ᵏ⁾_{t-1} R̂⁽ᵏ⁾_{t-1} + R̂⁽ᵏ⁻¹⁾_t         k = 1..order: leaky sums, one per stage above, nearest first
    dW_t = Σ_b q_t R̂_t                                with the last sum R̂
    m_t = q_t ḡ_t

    whole sequence:   y⁽ᵏ⁾_t = y⁽ᵏ⁺¹⁾_t + a⁽ᵏ⁾_t y⁽ᵏ⁾_{t+1}     top stage first, its input is q_t
                      y_t = h_t y⁽¹⁾_t + A_tᵀ y_{t+1},   κ_t = b · y_t

`order` 1 with the "plain" leak a = λ of the layer above is the paper's OTPE. With `order` "depth", every leaky stage
between a layer's spikes and the loss adds a leaky sum. The "mean-reset" leak a_t = mean_j ρ_t includes the mean effect
of a stage's resets. Order "depth" with the mean-reset leak is deep-otpe. The leaky readout of the F- rules is also a
stage, the last one, and its leak is always plain.

Dropped    the resets of the layers above. With "mean-reset", only their differences from neuron to neuron: their mean
           over a layer is used. At order 1, also every leaky stage after the nearest one.
Exact when there is one hidden layer and the output's reset is detached from the gradient; or at every depth for order
           "depth" with a constant surrogate and no reset; or T = 1; or λ = 0.
Cost       (1 + order) · n_in · n_out per sample per step; whole sequence O(T n) and one matrix product.

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
    scalar,
)


@dataclass(frozen=True)
class Otpe:
    order: Order = 1
    stage_leak: StageLeak = "plain"
    trace: ClassVar[TraceKind] = "weight"
    averages: ClassVar[Averages] = "below"

    def __post_init__(self) -> None:
        check_stages(self.order, self.stage_leak)

    def init(self, row: Vector, stages: int) -> Rows:
        return (row, *(scalar(row),) * stages)

    def advance(self, rows: Rows, x: Array, now: StepDerivatives, decay: Decays) -> Rows:
        D, *R = rows
        D = decay.carry(D, x)
        _, R = cascade(now.read(D), decay.stages, tuple(R))
        return (D, *R)

    def emit(self, rows: Rows, q: Array, now: StepDerivatives) -> Emission:
        D, *R = rows
        R_top = R[-1] if R else now.read(D)
        return Emission(post=q, row=R_top, below=q * now.ḡ)

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        return (neuron, *(scalar(neuron),) * stages)

    def backward(self, carry: tuple[Any, ...], q: Array, now: StepDerivatives, decay: Decays):
        y, *filters = carry
        arrived, filters = cascade(q, decay.stages[::-1], tuple(filters))
        y = decay.carry_back(y, now.spread(arrived))
        return (y, *filters), decay.enter(y), q * now.ḡ
