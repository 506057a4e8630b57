"""OTTT: the leaky sum of the inputs stands for the eligibility of every weight.

    â_t = λ â_{t-1} + x_t                 one number per input, the bias's constant 1 included
    dW_t = â_t ⊗ q_t g_t
    m_t = q_t g_t

    whole sequence:   κ_t = q_t g_t + λ κ_{t+1}

Dropped    the reset, from the layer's own memory; and, as in OSTL, all that earlier spikes do above.
Exact when one layer whose reset is detached from the gradient; or T = 1; or λ = 0.
Cost       n_in per sample per step; whole sequence O(T n) and one matrix product.

@inproceedings{xiao2022online,
  title={Online training through time for spiking neural networks},
  author={Xiao, Mingqing and Meng, Qingyan and Zhang, Zongpeng and He, Di and Lin, Zhouchen},
  booktitle={Advances in Neural Information Processing Systems}, year={2022}}
"""

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from otpe.rulebook.base import Averages, Decays, Emission, Now, Order, Rows, StageLeak, TraceKind


@dataclass(frozen=True)
class Ottt:
    trace: ClassVar[TraceKind] = "input"
    order: ClassVar[Order] = 0
    stage_leak: ClassVar[StageLeak] = "plain"
    averages: ClassVar[Averages] = False

    def init(self, row: Array, stages: int) -> Rows:
        return (row,)

    def advance(self, rows: Rows, x: Array, now: Now, decay: Decays) -> Rows:
        (a,) = rows
        return (decay.own * a + x,)

    def emit(self, rows: Rows, q: Array, now: Now) -> Emission:
        (a,) = rows
        return Emission(post=q * now.g, row=a, below=q * now.g)

    def start(self, neuron: Array, stages: int) -> tuple[Array, ...]:
        return (neuron,)

    def backward(self, carry: tuple[Array, ...], q: Array, now: Now, decay: Decays):
        (κ,) = carry
        κ = q * now.g + decay.own * κ
        return (κ,), κ, q * now.g
