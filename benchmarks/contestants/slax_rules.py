"""slax, the library of OTPE's authors: OSTL, OTTT, OTPE.

Its layers run here under a plain `lax.scan`. The loop it comes with (`train_online_deferred`) unrolls all steps into
one program, compiles for half a minute and more, and was slower in every case tried: see `slax_loop.py`.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

if not hasattr(jax, "tree_map"):  # slax calls it by the name that jax dropped
    jax.tree_map = jax.tree.map

import slax

from contestants.base import Contestant, Problem

RULES = {"ostl": ("ostl", "ostl"), "ottt": ("ottt", "ottt"), "otpe": ("otpe", "ostl")}  # hidden layers, output layer


def contestants(problem: Problem) -> list[Contestant]:
    return [contestant(problem, rule) for rule in RULES]


def contestant(problem: Problem, rule: str) -> Contestant:
    if problem.threshold != 1:
        raise ValueError("slax is set up here for threshold 1.")
    model = network(problem, rule)
    spikes, labels = jnp.asarray(problem.spikes), jnp.asarray(problem.labels)
    fresh = model.init(jax.random.key(0), spikes[0])
    params, rest = with_weights(fresh["params"], problem), jax.tree.map(jnp.zeros_like, fresh["carry"])
    summed = jax.jit(lambda *args: gradient(model, *args))

    def kernels(result: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(result[1]) if leaf.ndim == 2]

    note = "its biases get no trace: kernels compared" if rule == "ottt" else ""
    return Contestant(
        f"slax {rule}", rule, lambda: jax.block_until_ready(summed(params, rest, spikes, labels)), kernels, note
    )


def network(problem: Problem, rule: str) -> Any:
    hidden, output = RULES[rule]
    units = problem.sizes[1:]
    return slax.connect([*(layer(problem, hidden, n) for n in units[:-1]), layer(problem, output, units[-1])])


def layer(problem: Problem, rule: str, units: int) -> Any:
    leak = problem.leak
    neuron = slax.LIF(init_tau=float(np.log(leak / (1 - leak))), spike_fn=slax.fast_sigmoid(problem.slope))
    chain = [nn.Dense(units), neuron]
    if rule == "ostl":
        return slax.DenseOSTL(chain)
    return {"ottt": slax.OTTT, "otpe": slax.DenseOTPE}[rule](chain, leak)


def with_weights(params: Any, problem: Problem) -> Any:
    leaves, tree = jax.tree.flatten(params)  # bias before kernel, layer by layer
    ours = [jnp.asarray(p) for pair in zip(problem.biases, problem.kernels, strict=True) for p in pair]
    assert [leaf.shape for leaf in leaves] == [p.shape for p in ours]
    return jax.tree.unflatten(tree, ours)


def gradient(model: Any, params: Any, rest: Any, spikes: jax.Array, labels: jax.Array) -> Any:
    """Loss and gradient: the mean over time of what slax gives per step."""

    def loss_of_step(p: Any, carry: Any, x: jax.Array) -> Any:
        out, state = model.apply({"params": p, "carry": carry}, x, mutable="carry")
        return optax.softmax_cross_entropy_with_integer_labels(out, labels).mean(), state["carry"]

    def step(state: Any, x: jax.Array) -> Any:
        carry, total = state
        (loss, carry), grads = jax.value_and_grad(loss_of_step, has_aux=True)(params, carry, x)
        return (carry, jax.tree.map(jnp.add, total, grads)), loss

    (_, total), losses = jax.lax.scan(step, (rest, jax.tree.map(jnp.zeros_like, params)), spikes)
    return losses.mean(), jax.tree.map(lambda g: g / len(spikes), total)
