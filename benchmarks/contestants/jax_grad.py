"""What one writes by hand: `jax.grad` through a `lax.scan` over time steps."""

from functools import partial

import jax

from contestants.base import Contestant, Problem
from contestants.ours import arguments, kernels, network, wait
from otpe.testing import oracles


def contestants(problem: Problem) -> list[Contestant]:
    run = jax.jit(partial(oracles.autodiff, network(problem)))
    return [Contestant("jax.grad bptt", "bptt", partial(wait, run, *arguments(problem)), kernels)]
