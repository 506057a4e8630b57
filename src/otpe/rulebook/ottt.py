"""OTTT: the leaky sum of an input replaces the eligibility of all weights of that input.

    â_t = A⁰ â_{t-1} + b x_t              k numbers per input, including the constant input 1 of the bias
    dW_t = â_t ⊗ q_t h_t                  summed over the k numbers
    m_t = q_t g_t

    whole sequence:   y_t = h_t q_t + A⁰ᵀ y_{t+1},   κ_t = b · y_t

Dropped    the reset in the layer's own memory; the differences between leaks within a layer (their mean is used); and,
           as in OSTL, the effect of earlier spikes on the layers above.
Exact when the network has one layer, and the reset is detached from the gradient; or T = 1; or λ = 0.
Cost       n_in per sample per step; whole sequence O(T n) and one matrix product.

@inproceedings{xiao2022online,
  title={Online training through time for spiking neural networks},
  author={Xiao, Mingqing and Meng, Qingyan and Zhang, Zongpeng and He, Di and Lin, Zhouchen},
  booktitle={Advances in Neural Information Processing Systems}, year={2022}}
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array

from otpe.rulebook.rule import Averages, Decays, Emission, Order, Rows, StageLeak, StepDerivatives, TraceKind, Vector


@dataclass(frozen=True)
class Ottt:
    trace: ClassVar[TraceKind] = "input"
    order: ClassVar[Order] = 0
    stage_leak: ClassVar[StageLeak] = "plain"
    averages: ClassVar[Averages] = False

    def init(self, row: Vector, stages: int) -> Rows:
        return (row,)

    def advance(self, rows: Rows, x: Array, now: StepDerivatives, decay: Decays) -> Rows:
        (a,) = rows
        return (decay.carry_leaky(a, x),)

    def emit(self, rows: Rows, q: Array, now: StepDerivatives) -> Emission:
        (a,) = rows
        return Emission(post=now.spread(q), row=a, below=q * now.g)

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        return (neuron,)

    def backward(self, carry: tuple[Any, ...], q: Array, now: StepDerivatives, decay: Decays):
        (y,) = carry
        y = decay.carry_back_leaky(y, now.spread(q))
        return (y,), decay.enter(y), q * now.g
