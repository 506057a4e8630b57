"""BPTT: the exact gradient, backwards in time. The reference of every other rule.

    y_t = h_t q̃_t + A_tᵀ y_{t+1}          ∂loss/∂z_t, with all that follows from it
    κ_t = b · y_t                         ∂loss/∂c_t
    m_t = κ_t

where q̃_t = q_t, except at the output under the leaky readout, whose sum spreads the loss over earlier spikes:
there q̃_t = q_t + λ q̃_{t+1}.

Dropped    nothing.
Exact      always, for the surrogate network.
Cost       O(T n) memory: it needs the whole sequence, so it has no per-step form and cannot learn online.

@article{neftci2019surrogate,
  title={Surrogate gradient learning in spiking neural networks},
  author={Neftci, Emre O and Mostafa, Hesham and Zenke, Friedemann},
  journal={IEEE Signal Processing Magazine}, year={2019}}
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array

from otpe.rulebook.rule import Averages, Decays, Now, Order, StageLeak, Vector, cascade, scalar


@dataclass(frozen=True)
class Bptt:
    order: ClassVar[Order] = "readout"
    stage_leak: ClassVar[StageLeak] = "plain"
    averages: ClassVar[Averages] = False

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        return (neuron, *(scalar(neuron),) * stages)

    def backward(self, carry: tuple[Any, ...], q: Array, now: Now, decay: Decays):
        y, *filters = carry
        arrived, filters = cascade(q, decay.stages[::-1], tuple(filters))
        y = decay.carry_back(y, now.spread(arrived))
        κ = decay.enter(y)
        return (y, *filters), κ, κ
