"""slax with the loop it comes with, `train_online_deferred`: all steps in one program. Only run when asked for."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import slax

from contestants.base import Contestant, Problem
from contestants.slax_rules import RULES, network, with_weights


def contestants(problem: Problem) -> list[Contestant]:
    return [contestant(problem, rule) for rule in RULES]


def contestant(problem: Problem, rule: str) -> Contestant:
    steps, batch, _ = problem.spikes.shape
    model, optimizer = network(problem, rule), optax.identity()
    spikes = jnp.asarray(problem.spikes)
    labels = jnp.broadcast_to(jax.nn.one_hot(problem.labels, problem.sizes[-1]), (steps, batch, problem.sizes[-1]))
    fresh = model.init(jax.random.key(0), spikes[0])
    rest = jax.tree.map(jnp.zeros_like, fresh["carry"])
    variables = {"params": with_weights(fresh["params"], problem), "carry": rest}
    train = slax.train_online_deferred(model, optax.softmax_cross_entropy, optimizer)

    @jax.jit
    def summed(variables: Any, spikes: jax.Array, labels: jax.Array) -> Any:
        *_, losses, grads = train(variables, (spikes, labels), optimizer.init(variables["params"]), True)
        return losses.mean(), grads

    def kernels(result: Any) -> list[np.ndarray]:  # slax divides by the batch where it means the steps
        return [np.asarray(leaf) * batch / steps for leaf in jax.tree.leaves(result[1]) if leaf.ndim == 2]

    run = lambda: jax.block_until_ready(summed(variables, spikes, labels))  # noqa: E731
    return Contestant(f"slax {rule}, its own loop", rule, run, kernels)
