"""A second, plain implementation of all local rules in numpy: one sample, step and weight matrix at a time.

It follows the equations in per-step form, for every neuron and any map. It shares no code with the library, so
it finds a mistake that both forms of the library share. A map is its matrix: JAX only converts parameters to it
and the gradient back.

A rule or a neuron that is registered in the library but has no second implementation here runs by its own methods.
Then only the drivers are compared: the equations are checked by `check_rule` and `check_neuron`.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import otpe
from otpe import neurons, states
from otpe.rulebook import Decays, StepDerivatives

# name: (kind of the hidden layers, kind of the output layer, deep, leaky readout)
RULES = {
    "ostl": ("ostl", "ostl", False, False),
    "ottt": ("ottt", "ottt", False, False),
    "otpe": ("otpe", "ostl", False, False),
    "approx-otpe": ("approx", "ottt", False, False),
    "f-otpe": ("otpe", "otpe", False, True),
    "f-approx-otpe": ("approx", "approx", False, True),
    "deep-otpe": ("otpe", "ostl", True, False),
    "approx-deep-otpe": ("approx", "ottt", True, False),
    "f-deep-otpe": ("otpe", "otpe", True, True),
    "f-approx-deep-otpe": ("approx", "approx", True, True),
}


def gradients(case, rule):
    """Return the gradient of the mean loss over time and samples, in the shape of the parameters."""
    steps, batch = np.shape(case.spikes)[:2]
    layers = [Layer.of(*each) for each in zip(case.net.layers, case.net.neurons, case.params, strict=True)]
    total = [0.0] * len(layers)
    for b in range(batch):
        x = np.asarray(case.spikes)[:, b].reshape(steps, -1)
        for one_step in one_sample(layers, x, int(case.labels[b]), *RULES.get(rule) or composition(otpe.rule(rule))):
            total = [a + new / (steps * batch) for a, new in zip(total, one_step, strict=True)]
    return [layer.as_parameters(sums) for layer, sums in zip(layers, total, strict=True)]


def composition(rule):
    """A row like those of RULES for a rule without a second implementation."""
    return rule.hidden, rule.output, rule.hidden.order == "depth", rule.readout == "leaky"


@dataclass
class Layer:
    map: object
    neuron: object
    params: object
    W: np.ndarray  # [inputs + 1, outputs]: the last row is the bias
    leaks: dict  # by name, one per neuron

    @staticmethod
    def of(layer, neuron, params):
        leaks = {}
        for name in leak_names(neuron):
            if getattr(neuron, f"learn_{name}", False):
                leaks[name] = 1 / (1 + np.exp(-np.asarray(getattr(params, name))))
            else:
                leaks[name] = as_array(getattr(neuron, name), layer.out_shape)
            leaks[name] = np.broadcast_to(leaks[name], layer.out_shape).ravel()
        return Layer(layer, neuron, params, np.asarray(as_matrix(layer, params)), leaks)

    @property
    def known(self):
        return type(self.neuron) in B

    @property
    def poles(self):
        return POLES[type(self.neuron)] if self.known else list(neurons.poles(self.neuron))

    @property
    def b(self):
        return np.array(B[type(self.neuron)] if self.known else self.step(self.start(), 0 * self.W[0])[-1], float)

    def start(self):
        if self.known:
            return [np.zeros(self.W.shape[1])] * CARRIED[type(self.neuron)]
        return self.neuron.start(self.W[0].shape, float)

    def step(self, state, c):
        """For a neuron without a second implementation: what `fire` returns, and b."""
        bound = self.neuron.with_values(self.leaks) if self.leaks else self.neuron
        after, s, kept = bound.step(state, jnp.asarray(c))
        A, b, h = neurons.derivatives(bound, kept)
        causes = {
            name: (x, states.entries(e)) for name, (x, e) in (bound.causes(state) if self.trained else {}).items()
        }
        h = [np.broadcast_to(part, s.shape) for part in states.entries(h)]
        return after, np.asarray(s), states.rows(A), h, causes, states.entries(b)

    @property
    def trained(self):
        return [name for name in leak_names(self.neuron) if getattr(self.neuron, f"learn_{name}", False)]

    def as_parameters(self, gradient):
        """Convert [inputs + 1 + trained numbers, outputs] to the layout of the parameters."""
        rows = self.W.shape[0]
        grads = from_matrix(self.map, self.params, jnp.asarray(gradient[:rows]))
        for i, name in enumerate(self.trained):
            leak, shape = self.leaks[name], np.shape(getattr(self.params, name))
            by_logit = gradient[rows + i] * leak * (1 - leak)
            grads = grads._replace(**{name: by_logit.sum() if shape == () else by_logit.reshape(shape)})
        return grads


def leak_names(neuron):
    """Return the names of the leaks in the order of the parameters."""
    return sorted(getattr(neuron, "LEAKS", ("leak",)))


def as_array(leak, shape):
    return np.asarray(leak.on(shape) if hasattr(leak, "on") else leak)


@partial(jax.jit, static_argnums=0)
def as_matrix(layer, params):
    n_in = int(np.prod(layer.in_shape))
    x = jnp.vstack([jnp.eye(n_in), jnp.zeros((1, n_in))]).reshape(n_in + 1, *layer.in_shape)
    one = jnp.zeros(n_in + 1).at[-1].set(1).reshape(-1, *(1,) * len(layer.out_shape))
    return layer.apply(params, x, one).reshape(n_in + 1, -1)


@partial(jax.jit, static_argnums=0)
def from_matrix(layer, params, gradient):
    """Convert the gradient of the matrix to the layout of the parameters."""
    return jax.vjp(lambda p: as_matrix(layer, p), params)[1](gradient)[0]


compiled = lru_cache(jax.jit)


# The neurons: the state after a step, the output, A [k, k, n], h [k, n], and the derivatives by trained numbers


def fire(layer, state, c):
    if not layer.known:
        return layer.step(state, c)[:-1]
    neuron, leaks = layer.neuron, layer.leaks
    kind, λ = type(neuron), leaks["leak"]
    if kind is otpe.LeakyIntegrator:
        (v_old,) = state
        v = λ * v_old + c
        return (v,), v, [[λ]], [np.ones_like(v)], {"leak": (v_old, [1])}
    if kind is otpe.LIF:
        (u,) = state
        v = λ * u + c
        s, g = spikes(neuron, v - neuron.threshold)
        u_new, ρ, _ = reset(neuron, λ, v, s, g)
        return (u_new,), s, [[ρ]], [g], {"leak": (u, [1])}
    if kind is otpe.CubaLIF:
        (I_old, u), α = state, leaks["current_leak"]
        I = α * I_old + c
        v = λ * u + I
        s, g = spikes(neuron, v - neuron.threshold)
        u_new, ρ, _ = reset(neuron, λ, v, s, g)
        A = [[α, 0 * α], [α, ρ]]
        return (I, u_new), s, A, [0 * g, g], {"leak": (u, [0, 1]), "current_leak": (I_old, [1, 1])}
    (u, a, a_minus_s), r, β = state, leaks["adaptation_leak"], neuron.strength
    v = λ * u + c
    s, g = spikes(neuron, v - neuron.threshold - β * a)
    u_new, ρ, by_spike = reset(neuron, λ, v, s, g)
    A = [[ρ, -λ * by_spike * β * g], [(1 - r) * g, r - (1 - r) * β * g]]
    causes = {"leak": (u, [1, 0]), "adaptation_leak": (a_minus_s, [0, 1])}
    return (u_new, r * a + (1 - r) * s, a - s), s, A, [g, -β * g], causes


def spikes(neuron, d):
    return np.where(d >= 0, 1.0, 0.0), np.asarray(compiled(neuron.surrogate)(d))


def reset(neuron, λ, v, s, g):
    """Return the membrane after the reset, the survival, and the derivative of that membrane by the spike."""
    θ = neuron.threshold
    return {
        "subtract": (v - θ * s, λ * (1 - θ * g), -θ * np.ones_like(v)),
        "zero": (v * (1 - s), λ * (1 - s - v * g), -v),
        "none": (v, λ * np.ones_like(v), np.zeros_like(v)),
    }[neuron.reset]


CARRIED = {otpe.LIF: 1, otpe.CubaLIF: 2, otpe.AdaptiveLIF: 3, otpe.LeakyIntegrator: 1}
B = {otpe.LIF: [1], otpe.CubaLIF: [1, 1], otpe.AdaptiveLIF: [1, 0], otpe.LeakyIntegrator: [1]}
POLES = {otpe.LIF: [0], otpe.CubaLIF: [0, 1], otpe.AdaptiveLIF: [0], otpe.LeakyIntegrator: [0]}


def leaks_alone(layer):
    """A⁰ of the whole layer."""
    if not layer.known:
        values = {name: jnp.asarray(leak) for name, leak in layer.leaks.items()}
        return np.array(states.rows(neurons.leak_matrix(layer.neuron, values, layer.map.out_shape)), float)
    mean = {name: leak.mean() for name, leak in layer.leaks.items()}
    if isinstance(layer.neuron, otpe.CubaLIF):
        return np.array([[mean["current_leak"], 0], [mean["current_leak"], mean["leak"]]])
    if isinstance(layer.neuron, otpe.AdaptiveLIF):
        return np.diag([mean["leak"], mean["adaptation_leak"]])
    return np.array([[mean["leak"]]])


def one_sample(layers, inputs, label, hidden, output, deep, leaky):
    """Yield at each step the gradient of every layer, as `Layer.as_parameters` takes it."""
    L = len(layers)
    kinds = [hidden] * (L - 1) + [output]
    poles, plain = [layer.poles for layer in layers], [leaks_alone(layer) for layer in layers]
    readout_leak = as_array(layers[-1].neuron.leak, layers[-1].map.out_shape).mean()
    stages = [list(range(l + 1, L + leaky)) for l in range(L)]  # L is the readout
    orders = [("depth" if deep else 1) if isinstance(kind, str) else kind.order for kind in kinds]
    stages = [s if order == "depth" else s[:order] for s, order in zip(stages, orders, strict=True)]
    state = [layer.start() for layer in layers]
    A = [np.zeros((len(layer.b), len(layer.b), layer.W.shape[1])) for layer in layers]  # of the last step
    traces, averages, o = [{} for _ in layers], [{} for _ in layers], 0.0

    def decays(stage, mean_reset):
        """The decays of a stage, one per pole, from the current to the membrane."""
        if stage == L:
            return [readout_leak]
        values = [plain[stage][i][i] for i in poles[stage]]
        return [*values[:-1], A[stage][poles[stage][-1], poles[stage][-1]].mean()] if mean_reset else values

    for s in inputs:
        now, A_now = [], []
        for l, (layer, kind) in enumerate(zip(layers, kinds, strict=True)):
            x, b = np.append(s, 1.0), layer.b
            state[l], s, A_t, h, causes = fire(layer, state[l], x @ layer.W)
            A_now.append(np.array([[np.broadcast_to(a, s.shape) for a in row] for row in A_t]))
            h = np.array(h)
            nearest = decays((stages[l] + [l])[0], mean_reset=False)
            h_mean = cascaded(averages[l], "h", h, nearest) / cascaded(averages[l], "1", 1.0, nearest)
            own, end = plain[l].copy(), poles[l][-1]
            mean_reset = deep if isinstance(kind, str) else kind.stage_leak == "mean-reset"
            if mean_reset and (kind == "approx" or getattr(kind, "trace", None) == "input"):
                own[end, end] = A[l][end, end].mean()
            filters = [a for stage in stages[l] for a in decays(stage, mean_reset)]

            def trace(name, x, b, some, l=l, h=h, h_mean=h_mean, own=own, filters=filters, kind=kind, A=A):
                """The trace that multiplies q, for an input x that enters the states through b."""
                entering = np.multiply.outer(b, x)
                if kind in ("ostl", "otpe"):
                    D = traces[l][name] = (
                        np.einsum("ijo,j...o->i...o", A[l], traces[l].get(name, 0 * entering)) + entering
                    )
                    out = np.einsum("io,i...o->...o", h, D)
                    return cascaded(traces[l], name + "+", out, filters) if kind == "otpe" else out
                a = traces[l][name] = (
                    np.tensordot(own[np.ix_(some, some)], traces[l].get(name, 0 * entering), 1) + entering
                )
                out = cascaded(traces[l], name + "+", a, filters) if kind == "approx" else a
                return np.einsum("i...o,io->...o", out, (h_mean if kind == "approx" else h)[some])

            if not isinstance(kind, str):
                inputs = [
                    ("W", x, b),
                    *((name, causes[name][0], np.array(causes[name][1], float)) for name in layer.trained),
                ]
                now.append(by_own_methods(kind, traces[l], inputs, h, h_mean, b, A[l], own, filters, poles[l]))
                continue
            everywhere, some = np.ones_like(s), poles[l] if kind in ("ottt", "approx") else list(range(len(b)))
            rows = [trace("W", np.multiply.outer(x, everywhere), b[some], some)]
            for name in layer.trained:
                cause, e = causes[name]
                rows.append(trace(name, cause, np.array(e, float), list(range(len(b)))))
            g = b @ (h_mean if kind in ("otpe", "approx") else h)
            now.append(lambda q, rows=rows, g=g: ([q * row for row in rows], q * g))
        A = A_now

        o = readout_leak * o + s if leaky else s
        q = np.exp(o - o.max()) / np.exp(o - o.max()).sum()
        q[label] -= 1
        values = [None] * L
        for l in reversed(range(L)):
            rows, m = now[l](q)
            values[l] = np.vstack(rows)
            q = layers[l].W[:-1] @ m
        yield values


def cascaded(states, name, signal, decays):
    """A chain of leaky sums. The first one gets the signal."""
    old = states.get(name, [0.0] * len(decays))
    new = []
    for a, y in zip(decays, old, strict=True):
        signal = a * y + signal
        new.append(signal)
    states[name] = new
    return signal


def by_own_methods(local, traces, inputs, h, h_mean, b, A, leaks, filters, poles):
    """Advance the traces of a rule without a second implementation. Return a function from q to gradients and m."""
    emissions = []
    for name, x, entering in inputs:
        some = poles if name == "W" and local.trace == "input" else list(range(len(b)))
        now = StepDerivatives(*(states.packed([v[i] for i in some]) for v in (h, h_mean if local.averages else h, b)))
        decay = Decays(
            A=states.matrix(A[np.ix_(some, some)]),
            leaks=states.matrix(leaks[np.ix_(some, some)]),
            stages=tuple(filters),
            b=states.packed([entering[i] for i in some]),
        )
        x = x[:, None] if name == "W" else x[None]
        blank = np.zeros(x.shape if local.trace == "input" and name == "W" else (len(x), len(h[0])))
        old = traces.get(name) or local.init(states.packed([blank] * len(some)), len(filters))
        traces[name] = local.advance(old, x, now, decay)
        emissions.append((traces[name], now))

    def emit(q):
        out = [local.emit(rows, q, now) for rows, now in emissions]
        rows = [states.dot(each.row, each.post) for each in out]
        return rows, np.asarray(out[0].below)

    return emit
