"""Neurons: each has k states and gives its own derivatives.

One time step takes the states from z_{t-1} to z_t and gives the output s_t. States are those before the spike:

    z_t = F(z_{t-1}, s_{t-1}) + b c_t     c_t is the current
    s_t = H(d(z_t))                       d is the distance to the threshold, H(0) = 1

A learning rule needs three derivatives, and nothing else:

    A_t = ∂z_{t+1}/∂z_t                   k × k; includes the path through s_t, that is, the reset
    b   = ∂z_t/∂c_t                       k plain numbers
    h_t = ∂s_t/∂z_t                       k numbers; the surrogate g_t = σ'(d) replaces the derivative of H

| neuron | z | b | h | A |
|---|---|---|---|---|
| `LIF` | v | 1 | g | ρ = λ(1 − θg) |
| `CubaLIF` | I, v | 1, 1 | 0, g | [[α, 0], [α, ρ]] |
| `AdaptiveLIF` | v, a | 1, 0 | g, −βg | [[ρ, λθβg], [(1−r)g, r − (1−r)βg]] |
| `LeakyIntegrator` | v | 1 | 1 | λ |

The table is for the reset "subtract". With "zero", ρ = λ(1 − s − v g), and λθβg becomes λvβg. With "none", ρ = λ, and
λθβg becomes 0.

Words that the code uses for neurons:

  kept      what `step` returns for `linearise`, which computes A, b and h from it
  trained   the parameters that an optimizer changes, such as the logit of a leak
  values    the arrays that a neuron computes with, such as λ of each neuron; made from the trained and fixed parameters
  causes    how each value acts on the next step: ∂z_t/∂value = e x, with an array x and a vector e of k plain numbers
  poles     the states that filter a current on its way to the output: one leaky sum each

`models.py` defines these four neurons. `contract.py` says what a neuron of your own needs. `leaks.py` defines leaks
that differ from neuron to neuron.

To add a neuron to otpe, write its class in a file of this folder and add a line to `NAMED` below. Files of networks can
then hold it, and the tests check it with every rule.
"""

from typing import Any

from otpe.neurons.contract import (
    Derivatives,
    arrays_in_A,
    arrays_in_h,
    bind,
    cause_inputs,
    cause_vectors,
    check_neuron,
    check_shape,
    derivatives,
    fixed_values,
    initial_state,
    is_spiking,
    largest_leaks,
    leak_matrix,
    poles,
    state_count,
    survival_varies,
    trained,
    values,
)
from otpe.neurons.leaks import PerNeuron, Uniform
from otpe.neurons.models import LIF, AdaptiveLIF, CubaLIF, LeakyIntegrator, Reset

NAMED: dict[str, Any] = {  # each can be built from its leak alone: `CubaLIF(0.9)`
    "lif": LIF,
    "cuba": CubaLIF,
    "adaptive": AdaptiveLIF,
    "integrator": LeakyIntegrator,
}

__all__ = [
    "LIF", "NAMED", "AdaptiveLIF", "CubaLIF", "Derivatives", "LeakyIntegrator", "PerNeuron", "Reset", "Uniform",
    "arrays_in_A", "arrays_in_h", "bind", "cause_inputs", "cause_vectors", "check_neuron", "check_shape",
    "derivatives", "fixed_values", "initial_state", "is_spiking", "largest_leaks", "leak_matrix", "poles",
    "state_count", "survival_varies", "trained", "values",
]  # fmt: skip
