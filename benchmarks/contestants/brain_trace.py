"""braintrace: D-RTRL, ES-D-RTRL and, where the installed version has them, OTTT and what it calls OTPE.

Its traces follow the hidden state, so a neuron has to keep the membrane before the reset: with the membrane after it,
braintrace gives zero gradients.
"""

from typing import Any

import brainstate
import braintrace
import jax
import jax.numpy as jnp
import numpy as np
import optax

from contestants.base import Contestant, Problem


def contestants(problem: Problem) -> list[Contestant]:
    leak = {"leak": problem.leak}
    made = [
        contestant(problem, "D_RTRL", "d-rtrl", "ostl"),
        contestant(problem, "es_d_rtrl", "es-d-rtrl", "ostl", {"decay_or_rank": problem.leak}),
    ]
    if hasattr(braintrace, "OTPE"):
        made.append(contestant(problem, "otpe", '"otpe"', "ottt", leak, "called OTPE there; the gradient is OTTT's"))
    if hasattr(braintrace, "OTTT"):
        made.append(contestant(problem, "ottt", "ottt", "ottt", leak))
    return made


def contestant(
    problem: Problem, algorithm: str, name: str, rule: str, options: dict[str, Any] | None = None, note: str = ""
) -> Contestant:
    spikes, labels = jnp.asarray(problem.spikes), jnp.asarray(problem.labels)
    net = Net(problem)
    learner = braintrace.compile(net, algorithm, spikes[0], batch_size=spikes.shape[1], **(options or {}))
    summed = brainstate.transform.jit(lambda x: gradient(net, learner, x, labels))

    def kernels(result: Any) -> list[np.ndarray]:
        return [np.asarray(layer["weight"]) for layer in result[1].values()]

    name = f"braintrace {braintrace.__version__} {name}"
    return Contestant(name, rule, lambda: jax.block_until_ready(summed(spikes)), kernels, note)


class Layer(brainstate.nn.Module):
    def __init__(self, problem: Problem, index: int):
        super().__init__()
        kernel, bias = problem.kernels[index], problem.biases[index]
        self.weight = brainstate.ParamState({"weight": jnp.asarray(kernel), "bias": jnp.asarray(bias)})
        self.problem, self.units = problem, len(bias)
        self.fire = spike(problem)

    def init_state(self, batch_size: int, **_: Any) -> None:
        self.v = brainstate.HiddenState(jnp.zeros((batch_size, self.units)))

    def update(self, x: jax.Array) -> jax.Array:
        u = self.v.value - self.problem.threshold * self.fire(self.v.value)
        weight = self.weight.value
        self.v.value = self.problem.leak * u + braintrace.matmul(x, weight["weight"], weight["bias"])
        return self.fire(self.v.value)


class Net(brainstate.nn.Module):
    def __init__(self, problem: Problem):
        super().__init__()
        self.layers = [Layer(problem, i) for i in range(len(problem.kernels))]

    def update(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return x


def spike(problem: Problem) -> Any:
    @jax.custom_jvp
    def fire(v: jax.Array) -> jax.Array:
        return (v >= problem.threshold).astype(v.dtype)

    @fire.defjvp
    def _(primal: Any, tangent: Any) -> Any:
        (v,), (dv,) = primal, tangent
        return fire(v), dv / (problem.slope * jnp.abs(v - problem.threshold) + 1) ** 2

    return fire


def gradient(net: Net, learner: Any, spikes: jax.Array, labels: jax.Array) -> Any:
    """Loss and gradient: the mean over time of what braintrace gives per step."""
    for state in net.states(brainstate.HiddenState).values():
        state.value = jnp.zeros_like(state.value)
    learner.reset_state(batch_size=spikes.shape[1])
    params = net.states(brainstate.ParamState)

    def loss_of_step(x: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(learner(x), labels).mean()

    def step(total: Any, x: jax.Array) -> Any:
        grads, loss = brainstate.transform.grad(loss_of_step, params, return_value=True)(x)
        return jax.tree.map(jnp.add, total, grads), loss

    zero = jax.tree.map(jnp.zeros_like, {key: p.value for key, p in params.items()})
    total, losses = brainstate.transform.scan(step, zero, spikes)
    return losses.mean(), jax.tree.map(lambda g: g / len(spikes), total)
