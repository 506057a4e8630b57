"""RTRL: the exact gradient, forwards in time.

    J_t = ∂(all states)_t / ∂(all parameters) = (∂z_t/∂z_{t-1}) J_{t-1} + ∂z_t/∂W
    dW_t = q_t · ∂(readout)_t/∂W                          both by forward-mode differentiation of one network step

Dropped    nothing.
Exact      always, at every step, for parameters that stay as they are. (Online, while they move, no rule is.)
Cost       parameters × neurons per sample: an oracle for small networks, and the reason the other rules exist.

@article{williams1989experimental,
  title={Experimental analysis of the real-time recurrent learning algorithm},
  author={Williams, Ronald J and Zipser, David},
  journal={Connection Science}, year={1989}}
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from otpe import check, losses, neurons
from otpe.losses import DEFAULT, Loss
from otpe.networks import Network, one_step
from otpe.rulebook.rule import Rule, check_step


@dataclass(frozen=True)
class Rtrl:
    """Not a local rule: it carries the influence of every weight on every neuron."""

    def stepper(self, net: Network, rule: Rule, loss: Loss = DEFAULT) -> "RtrlStepper":
        return RtrlStepper(net, rule, loss)


class State(NamedTuple):
    z: Array  # all states of all neurons, then the leaky readout     [B, S]
    J: Array  # their derivative by all parameters                    [B, S, P]


class Info(NamedTuple):
    spikes: tuple[Array, ...]  # output of every layer                    [B, n]
    logits: Array  # what the loss looks at: s_t or o_t       [B, classes]
    J: Array  # derivative of all outputs, then of the logits, by all parameters    [B, outputs + classes, P]


@dataclass(frozen=True)
class RtrlStepper:
    """The per-step form of RTRL on a network: `init`, `advance`, `emit`."""

    net: Network
    rule: Rule
    loss: Loss = DEFAULT

    def init(self, batch: int = 1, dtype: Any = float) -> State:
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        like = jax.eval_shape(self.net.init, jax.random.key(0))
        parameters = sum(leaf.size for leaf in jax.tree.leaves(like))
        one, _ = ravel_pytree(self._rest(dtype))
        z = jnp.broadcast_to(one, (batch, one.size))
        return State(z, jnp.zeros((batch, one.size, parameters), dtype))

    def traces_of(self, state: State) -> Any:
        return state.J

    def neurons_of(self, state: State) -> tuple[Any, ...]:
        _, unravel = ravel_pytree(self._rest(state.z.dtype))
        return jax.vmap(unravel)(state.z)[0]

    def advance(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Info]:
        params = check.params(self.net, params)
        x = check_step(self, self.net, params, state, x).astype(state.z.dtype)
        weights, unravel = ravel_pytree(params)
        _, states_of = ravel_pytree(self._rest(state.z.dtype))

        def one_sample(z: Array, J: Array, x: Array) -> tuple[State, Info]:
            def step(weights: Array, z: Array) -> tuple[Array, Array, Any]:
                neurons, o = states_of(z)
                after, outputs = one_step(self.net, unravel(weights), jax.tree.map(lambda a: a[None], neurons), x[None])
                after, outputs = jax.tree.map(lambda a: a[0], (after, tuple(outputs)))
                o = self.net.readout_leak * o + outputs[-1]
                logits = outputs[-1] if self.rule.readout == "spikes" else o
                seen = jnp.concatenate([*map(jnp.ravel, outputs), logits])
                return ravel_pytree((after, o))[0], seen, (outputs, logits)

            after, _, (outputs, logits) = step(weights, z)
            by_weights, by_state = (jax.jacfwd(lambda w, z: step(w, z)[:2], argnums=i)(weights, z) for i in (0, 1))
            J, J_seen = (w + jnp.matmul(s, J, precision="highest") for w, s in zip(by_weights, by_state, strict=True))
            return State(after, J), Info(outputs, logits, J_seen)

        return jax.vmap(one_sample)(state.z, state.J, x)

    def emit(
        self, params: Any, state: State, info: Info, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        params = check.params(self.net, params)
        target = check.targets(self.net, self.loss, labels, info.logits.shape[0])
        loss, q = losses.value_and_signal(self.loss, info.logits, target, weight)
        signals = [jnp.zeros_like(s) for s in info.spikes]
        if self.loss.rate_weight:
            for i, (neuron, s) in enumerate(zip(self.net.neurons[:-1], info.spikes[:-1], strict=True)):
                if neurons.is_spiking(neuron):
                    penalty, signals[i] = losses.rate_penalty(self.loss, s, s.ndim - 1, weight)
                    loss = loss + penalty
        q = jnp.concatenate([*(m.reshape(m.shape[0], -1) for m in signals), q], axis=1)
        _, unravel = ravel_pytree(params)
        return loss, unravel(jnp.einsum("bc,bcp->p", q, info.J, precision="highest"))

    def learn(
        self, params: Any, state: State, x: ArrayLike, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[State, Info, Array, Any]:
        state, info = self.advance(params, state, x)
        return state, info, *self.emit(params, state, info, labels, weight)

    grows = False

    def remembering(self, steps: int) -> "RtrlStepper":
        return self

    def widen(self, state: State) -> State:
        return state

    def _rest(self, dtype: Any) -> tuple[Any, Array]:
        """All states of one sample: those of the neurons, then the leaky readout."""
        rest = jax.tree.map(lambda a: a[0], self.net.start(1, dtype))
        return rest, jnp.zeros(self.net.layers[-1].out_shape, dtype)
