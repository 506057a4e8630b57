"""RTRL: the exact gradient, forwards in time.

    J_t = ∂(all membranes)_t / ∂(all parameters) = (∂u_t/∂u_{t-1}) J_{t-1} + ∂u_t/∂W
    dW_t = q_t · ∂(readout)_t/∂W                          both by forward-mode differentiation of one network step

Dropped    nothing.
Exact      always, at every step, for parameters that stay as they are. (Online, while they move, no rule is.)
Cost       parameters × neurons per sample: an oracle for small networks, and the reason the other rules exist.

@article{williams1989experimental,
  title={Experimental analysis of the real-time recurrent learning algorithm},
  author={Williams, Ronald J and Zipser, David},
  journal={Connection Science}, year={1989}}
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from otpe import check, layers, losses
from otpe.network import Network
from otpe.rulebook.base import Rule, check_step


@dataclass(frozen=True)
class Rtrl:
    """Not a local rule: it carries the influence of every weight on every neuron."""

    def stepper(self, net: Network, rule: Rule) -> "RtrlStepper":
        return RtrlStepper(net, rule)


class State(NamedTuple):
    u: Array  # all membranes, then the leaky readout     [B, S]
    J: Array  # their derivative by all parameters        [B, S, P]


class Info(NamedTuple):
    spikes: tuple[Array, ...]  # s_t of every layer                       [B, n]
    logits: Array  # what the loss looks at: s_t or o_t       [B, classes]
    J: Array  # its derivative by all parameters         [B, classes, P]


@dataclass(frozen=True)
class RtrlStepper:
    """The per-step form of RTRL on a network: `init`, `advance`, `emit`."""

    net: Network
    rule: Rule

    def init(self, batch: int = 1, dtype: Any = float) -> State:
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        like = jax.eval_shape(self.net.init, jax.random.key(0))
        parameters = sum(leaf.size for leaf in jax.tree.leaves(like))
        states = sum(self._widths()) + self._widths()[-1]
        return State(jnp.zeros((batch, states), dtype), jnp.zeros((batch, states, parameters), dtype))

    def traces_of(self, state: State) -> Any:
        return state.J

    def membranes_of(self, state: State) -> tuple[Array, ...]:
        *membranes, _ = self._split(state.u)
        shapes = [layer.out_shape for layer in self.net.layers]
        return tuple(u.reshape(-1, *shape) for u, shape in zip(membranes, shapes, strict=True))

    def advance(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Info]:
        params = check.params(self.net, params)
        x = check_step(self, self.net, params, state, x).astype(state.u.dtype)
        weights, unravel = ravel_pytree(params)

        def one_sample(u: Array, J: Array, x: Array) -> tuple[State, Info]:
            def step(weights: Array, u: Array) -> tuple[Array, Array, tuple[Array, ...]]:
                return self._step(unravel(weights), u, x)

            after, logits, spikes = step(weights, u)
            by_weights, by_state = (jax.jacfwd(lambda w, u: step(w, u)[:2], argnums=i)(weights, u) for i in (0, 1))
            J, J_logits = (w + jnp.matmul(s, J, precision="highest") for w, s in zip(by_weights, by_state, strict=True))
            return State(after, J), Info(spikes, logits, J_logits)

        return jax.vmap(one_sample)(state.u, state.J, x)

    def emit(
        self, params: Any, state: State, info: Info, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        params = check.params(self.net, params)
        labels = check.labels(self.net.classes, labels, batch=info.logits.shape[0])
        loss, q = losses.cross_entropy_and_signal(info.logits, labels, weight)
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

    def _step(self, params: Any, u: Array, x: Array) -> tuple[Array, Array, tuple[Array, ...]]:
        """One sample through the network, all its states in one vector: the states after, the logits, the spikes."""
        *membranes, o = self._split(u)
        after, spikes, s = [], [], x
        for layer, neuron, p, u in zip(self.net.layers, self.net.neurons, params, membranes, strict=True):
            u, s, _ = neuron.fire(u.reshape(layer.out_shape), layers.apply(layer, p, s))
            after.append(u.ravel())
            spikes.append(s)
        o = self.net.readout_leak * o + s.ravel()
        return jnp.concatenate([*after, o]), s.ravel() if self.rule.readout == "spikes" else o, tuple(spikes)

    def _split(self, u: Array) -> list[Array]:
        """The membranes of each layer, then the leaky readout."""
        widths = self._widths()
        return jnp.split(u, [sum(widths[: i + 1]) for i in range(len(widths))], axis=-1)

    def _widths(self) -> list[int]:
        return [math.prod(layer.out_shape) for layer in self.net.layers]
