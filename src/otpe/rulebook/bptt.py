"""BPTT: the exact gradient, backwards in time. The reference of every other rule.

    κ_t = g_t y_t + ρ_t κ_{t+1}           ∂loss/∂v_t, with all that follows from it
    m_t = κ_t

where y_t = q_t, except at the output under the leaky readout, whose sum spreads the loss over earlier spikes:
there y_t = q_t + λ y_{t+1}.

Dropped    nothing.
Exact      always, for the surrogate network.
Cost       O(T n) memory: it needs the whole sequence, so it has no per-step form and cannot learn online.

@article{neftci2019surrogate,
  title={Surrogate gradient learning in spiking neural networks},
  author={Neftci, Emre O and Mostafa, Hesham and Zenke, Friedemann},
  journal={IEEE Signal Processing Magazine}, year={2019}}
"""

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from otpe.rulebook.base import Averages, Decays, Now, Order, StageLeak, cascade


@dataclass(frozen=True)
class Bptt:
    order: ClassVar[Order] = "readout"
    stage_leak: ClassVar[StageLeak] = "plain"
    averages: ClassVar[Averages] = False

    def start(self, neuron: Array, stages: int) -> tuple[Array, ...]:
        return (neuron,) * (1 + stages)

    def backward(self, carry: tuple[Array, ...], q: Array, now: Now, decay: Decays):
        κ, *y = carry
        y_next, y = cascade(q, decay.stages[::-1], tuple(y))
        κ = now.g * y_next + decay.ρ * κ
        return (κ, *y), κ, κ
