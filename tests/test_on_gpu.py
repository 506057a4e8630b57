"""On a GPU: every neuron and map has fused kernels there, and they compute what plain loops compute.

Skipped on a machine without a GPU. A step without a kernel gives a warning, which is an error in this suite.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory import networks
from theory.cases import LOCAL
from theory.networks import NETWORKS, live

import otpe
from otpe.testing import relative_error

pytestmark = pytest.mark.skipif(jax.default_backend() != "gpu", reason="no GPU here")
MAKERS = NETWORKS | {"membrane": networks.membrane, "own": networks.own}
WHOLE = [name for name in otpe.rules() if otpe.rule(name).has_whole]
ONLINE = [(make, rule) for make in MAKERS for rule in ("otpe", "approx-otpe")]
ONLINE += [("short", rule) for rule in LOCAL if ("short", rule) not in ONLINE]


def narrow(make):
    """A live mini-batch in the types of training on a GPU: 32 bits for parameters, 8 bits for spikes."""
    case = live(make)
    return case._replace(params=jax.tree.map(jnp.float32, case.params), spikes=np.asarray(case.spikes, np.uint8))


@pytest.mark.parametrize("rule", WHOLE)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_kernels_give_the_gradient_of_plain_loops(make, rule):
    case = narrow(make)
    plain, kernels = (otpe.gradients(*case, rule=rule, backend=b) for b in ("plain", "pallas"))
    assert relative_error(kernels, plain) < 1e-4


@pytest.mark.parametrize("traces", ["dense", "factored"])
@pytest.mark.parametrize(("name", "rule"), ONLINE)
def test_kernels_learn_online_as_plain_loops_do(name, rule, traces):
    case, optimizer = narrow(MAKERS[name]), optax.sgd(1e-3)
    after = [
        otpe.online_pass(*case[:2], optimizer.init(case.params), *case[2:], rule=rule, optimizer=optimizer,
                         traces=traces, backend=backend)
        for backend in ("plain", "pallas")
    ]  # fmt: skip
    assert relative_error(after[1][0], after[0][0]) < 1e-4
    np.testing.assert_allclose(after[1][2], after[0][2], rtol=1e-4)
