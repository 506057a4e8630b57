"""Training as a plain loop over mini-batches, with `otpe.gradients` or `otpe.online_pass`, and optax."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe
from otpe.datasets.dataset import random_key


class Trained(NamedTuple):
    net: Any
    params: list[Any]  # by the number of steps before the evaluation
    losses: list[float]  # of each


def train(config, splits, seed) -> Trained:
    data, optimizer = splits.train, optax.adamax(config.learning_rate)
    net = otpe.dense([data.units, *config.hidden, len(data.names)], threshold=config.threshold)
    params = [net.init(jax.random.fold_in(random_key(seed), 2**31), jnp.float32)]
    opt_state, losses = optimizer.init(params[0]), []
    for step in range(config.steps):
        batch = data.batch(seed, step, config.batch)
        mask = batch.mask if batch.lengths is not None else None
        sample = (batch.spikes, batch.labels, mask)
        if config.mode == "online":
            new, opt_state, each = otpe.online_pass(
                net, params[-1], opt_state, *sample, rule=config.rule, optimizer=optimizer, every=config.every
            )
            loss = np.average(each, weights=np.asarray(batch.mask).sum(1))
        else:
            loss, grads = otpe.gradients(net, params[-1], *sample, rule=config.rule)
            updates, opt_state = optimizer.update(grads, opt_state, params[-1])
            new = optax.apply_updates(params[-1], updates)
        params.append(new)
        losses.append(float(loss))
    return Trained(net, params, losses)


def accuracy(net, params, batches):
    """Return the share of correct predictions over all samples of these batches."""
    counts = [len(batch.labels) for batch in batches]
    each = [otpe.accuracy(net.run(params, batch.spikes), batch.labels, batch.mask) for batch in batches]
    return np.average(each, weights=counts)


def loss(net, params, batches, readout_leak=0.0):
    """Cross-entropy of output spikes or of their leaky sum: the mean over all valid time steps."""
    total, count = 0.0, 0
    for batch in batches:
        logits = list(np.asarray(net.run(params, batch.spikes), np.float64))
        for t in range(1, len(logits)):
            logits[t] = logits[t] + readout_leak * logits[t - 1]
        each = optax.softmax_cross_entropy_with_integer_labels(
            jnp.stack(logits), jnp.broadcast_to(batch.labels, np.shape(logits)[:2])
        )
        total, count = total + float((each * batch.mask).sum()), count + int(batch.mask.sum())
    return total / count
