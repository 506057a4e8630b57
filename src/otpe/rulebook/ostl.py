"""OSTL: the exact eligibility of each weight for its own neuron's spike of this step.

    D_t = A_{t-1} D_{t-1} + b x_t         ∂z_t/∂W, k numbers per weight
    dW_t = Σ_b q_t h_t · D_t
    m_t = q_t g_t

    whole sequence:   y_t = h_t q_t + A_tᵀ y_{t+1},   κ_t = b · y_t

Dropped    how earlier spikes of this layer still act on the membranes above: m_t carries only the present.
Exact when the layer is the output; or T = 1; or λ = 0.
Cost       n_in · n_out per sample per step; whole sequence O(T n) and one matrix product.

@article{bohnstingl2022online,
  title={Online spatio-temporal learning in deep neural networks},
  author={Bohnstingl, Thomas and Woźniak, Stanisław and Pantazi, Angeliki and Eleftheriou, Evangelos},
  journal={IEEE Transactions on Neural Networks and Learning Systems}, year={2022}}
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array

from otpe.rulebook.rule import Averages, Decays, Emission, Now, Order, Rows, StageLeak, TraceKind, Vector


@dataclass(frozen=True)
class Ostl:
    trace: ClassVar[TraceKind] = "weight"
    order: ClassVar[Order] = 0
    stage_leak: ClassVar[StageLeak] = "plain"
    averages: ClassVar[Averages] = False

    def init(self, row: Vector, stages: int) -> Rows:
        return (row,)

    def advance(self, rows: Rows, x: Array, now: Now, decay: Decays) -> Rows:
        (D,) = rows
        return (decay.carry(D, x),)

    def emit(self, rows: Rows, q: Array, now: Now) -> Emission:
        (D,) = rows
        return Emission(post=now.spread(q), row=D, below=q * now.g)

    def start(self, neuron: Vector, stages: int) -> tuple[Any, ...]:
        return (neuron,)

    def backward(self, carry: tuple[Any, ...], q: Array, now: Now, decay: Decays):
        (y,) = carry
        y = decay.carry_back(y, now.spread(q))
        return (y,), decay.enter(y), q * now.g
