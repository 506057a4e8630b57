"""OTTT: the leaky sum of the inputs stands for the eligibility of every weight.

    â_t = A⁰ â_{t-1} + b x_t              k numbers per input, the bias's constant 1 included
    dW_t = â_t ⊗ q_t h_t                  summed over the k
    m_t = q_t g_t

    whole sequence:   y_t = h_t q_t + A⁰ᵀ y_{t+1},   κ_t = b · y_t

Dropped    the reset, from the layer's own memory; where leaks differ within a layer, all but their mean; and, as in
           OSTL, all that earlier spikes do above.
Exact when one layer whose reset is detached from the gradient; or T = 1; or λ = 0.
Cost       n_in per sample per step; whole sequence O(T n) and one matrix product.

@inproceedings{xiao2022online,
  title={Online training through time for spiking neural networks},
  author={Xiao, Mingqing and Meng, Qingyan and Zhang, Zongpeng and He, Di and Lin, Zhouchen},
  booktitle={Advances in Neural Information Processing Systems}, year={2022}}
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array

from otpe.rulebook.rule import Averages, Decays, Emission, Now, Order, Rows, StageLeak, TraceKind, Vector


@dataclass(frozen=True)
class Ottt:
    trace: ClassVar[TraceKind] = "input"
    order: ClassVar[Order] = 0
    stage_leak: ClassVar[StageLeak] = "plain"
    averages: ClassVar[Averages] = False

    def init(self, row: Vector, stages: int) -> Rows:
        return (row,)

    def advance(self, rows: Rows, x: Array, now: Now, decay: Decays) -> Rows:
        (a,) = rows
        return (decay.carry_leaky(a, x),)

    def emit(self, rows: Rows, q: Array, now: Now) -> Emission:
        (a,) = rows
        return Emission(post=now.spread(q), row=a, below=q * now.g)

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        return (neuron,)

    def backward(self, carry: tuple[Any, ...], q: Array, now: Now, decay: Decays):
        (y,) = carry
        y = decay.carry_back_leaky(y, now.spread(q))
        return (y,), decay.enter(y), q * now.g
