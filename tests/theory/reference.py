"""All local rules a second time, as plainly as can be: numpy, one sample, one step, one weight matrix at a time.

Written from the equations in their per-step form, for any reset, and sharing nothing with the library, so that a mistake
made alike in both of its forms is found here.
"""

import numpy as np

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
    """[(kernel, bias), ...] of the mean loss over time and samples."""
    steps, batch = np.shape(case.spikes)[:2]
    total = [np.zeros((p.kernel.shape[0] + 1, p.kernel.shape[1])) for p in case.params]
    for b in range(batch):
        for dW in one_sample(case, np.asarray(case.spikes)[:, b], int(case.labels[b]), *RULES[rule]):
            total = [a + d / (steps * batch) for a, d in zip(total, dW, strict=True)]
    return [(dW[:-1], dW[-1]) for dW in total]


def one_sample(case, spikes, label, hidden, output, deep, leaky):
    """Yields, step by step, the gradient of every layer, with the bias as a last row."""
    neurons, L = case.net.neurons, len(case.params)
    W = [np.vstack([p.kernel, p.bias]) for p in case.params]
    kinds = [hidden] * (L - 1) + [output]
    leaks = [n.leak for n in neurons]
    above = [leaks[l + 1 :] + ([leaks[-1]] if leaky else []) for l in range(L)]  # plain leaks of the stages above
    above = [stages if deep else stages[:1] for stages in above]
    u = [np.zeros(w.shape[1]) for w in W]
    E = [np.zeros_like(w) for w in W]
    a = [np.zeros(w.shape[0]) for w in W]
    R = [[np.zeros_like(w) for _ in stages] for w, stages in zip(W, above, strict=True)]
    z = [[np.zeros(w.shape[0]) for _ in stages] for w, stages in zip(W, above, strict=True)]
    g_sum, g_norm = [np.zeros(w.shape[1]) for w in W], [0.0] * L
    reset_before = [1.0] * L  # mean_j ∂u/∂v of the step before: 1 − θ g for the paper's reset
    o = np.zeros(W[-1].shape[1])

    for x in spikes:
        g, s, D, R0, kept = [], x, [], [], []
        for l, neuron in enumerate(neurons):
            x1 = np.append(s, 1.0)
            v = neuron.leak * u[l] + x1 @ W[l]
            s = np.where(v >= neuron.threshold, 1.0, 0.0)
            g.append(np.asarray(neuron.surrogate(v - neuron.threshold)))
            u[l], du_dv = {
                "subtract": (v - neuron.threshold * s, 1 - neuron.threshold * g[l]),
                "zero": (v * (1 - s), 1 - s - v * g[l]),
                "none": (v, np.ones_like(v)),
            }[neuron.reset]
            kept.append(du_dv.mean())
            D.append(neuron.leak * E[l] + x1[:, None])
            E[l] = du_dv * D[l]
            R0.append(g[l] * D[l])
            own_reset = reset_before[l] if deep and kinds[l] == "approx" else 1.0
            a[l] = neuron.leak * own_reset * a[l] + x1
        for l in range(L):
            below_R, below_z = R0[l], a[l]
            for k, leak in enumerate(above[l]):
                stage = l + 1 + k
                decay = leak * (reset_before[stage] if deep and stage < L else 1.0)
                below_R = R[l][k] = decay * R[l][k] + below_R
                below_z = z[l][k] = decay * z[l][k] + below_z
            window = above[l][0] if above[l] else leaks[l]
            g_sum[l], g_norm[l] = window * g_sum[l] + g[l], window * g_norm[l] + 1
        reset_before = kept

        o = leaks[-1] * o + s if leaky else s
        q = np.exp(o - o.max()) / np.exp(o - o.max()).sum()
        q[label] -= 1
        dW = [None] * L
        for l in reversed(range(L)):
            mean_g = g_sum[l] / g_norm[l]
            dW[l], m = {
                "ostl": (q * g[l] * D[l], q * g[l]),
                "ottt": (np.outer(a[l], q * g[l]), q * g[l]),
                "otpe": (q * (R[l][-1] if R[l] else R0[l]), q * mean_g),
                "approx": (np.outer(z[l][-1] if z[l] else a[l], q * mean_g), q * mean_g),
            }[kinds[l]]
            q = W[l][:-1] @ m
        yield dW
