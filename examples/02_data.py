"""Learn T-Randman with OTPE: batches are drawn inside the jitted loop, so a block of steps is one call.

python examples/02_data.py
"""

import jax
import jax.numpy as jnp
import optax

import otpe

BLOCK, BATCH = 100, 64

data = otpe.datasets.randman("time", classes=5, units=40, dims=2, alpha=2.0, standardize="fixed")
net = otpe.dense([data.units, 64, len(data.names)])
optimizer = optax.adamax(4e-3)


@jax.jit
def block(data, params, opt_state, first):
    """Run BLOCK training steps. The dataset is an argument, so its tables are not constants in the program."""

    def step(state, i):
        params, opt_state = state
        spikes, labels = data.batch(0, i, BATCH)
        loss, grads = otpe.gradients(net, params, spikes, labels, rule="otpe")
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), loss

    return jax.lax.scan(step, (params, opt_state), first + jnp.arange(BLOCK))


params = net.init(jax.random.key(0))
opt_state = optimizer.init(params)
unseen = data.batch(seed=1, step=0, size=1000)  # another seed gives other points of the same manifolds
print("steps   loss   accuracy on unseen points")
for first in range(0, 10 * BLOCK, BLOCK):
    (params, opt_state), losses = block(data, params, opt_state, first)
    accuracy = otpe.accuracy(net.run(params, unseen.spikes), unseen.labels)
    print(f"{first + BLOCK:5}  {losses.mean():.3f}   {accuracy:.3f}", flush=True)
