"""A convolutional network: one mini-batch gradient by our rules, by `jax.grad` through a scan, and by SpikingJelly.

    python benchmarks/conv.py                            # 2×34×34 – conv 16 – conv 32 – 10, T 50, batch 32
    python benchmarks/conv.py --net pooled --batch 8

All contestants get the same weights and spikes. Each is checked against our rule of the same mathematics. They take
turns in random order, as in `benchmarks/rivals.py`. The scan runs in two versions: with XLA's convolution, as one
would write it, and with the products of our maps. The last table has the ratio of our OTTT and Approx OTPE to each
other contestant. Below 1, ours is faster. Ratios are of wall time (medians) and processor time (best call): wall time
says little on a machine that also does other work.
"""

import argparse
import importlib.util
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import rivals
from contestants.base import Contestant, Problem
from contestants.ours import wait

import otpe
from otpe import layers
from otpe.build import network
from otpe.layers import avg_pool, conv, dense, flatten

LEAK, SLOPE = 0.9, 25.0
NETS = {
    "strided": [conv(16, 5, stride=2), conv(32, 3, stride=2), flatten() >> dense(10)],
    "pooled": [conv(16, 3, padding=1), avg_pool(2) >> conv(32, 3, padding=1), avg_pool(4) >> flatten() >> dense(10)],
}
RULES = ("bptt", "ottt", "approx-otpe")


def main() -> None:
    args = arguments()
    net, problem = live_problem(args)
    ours, others, absent = (
        [mine(net, problem, rule) for rule in RULES],
        [by_hand(net, problem, xla) for xla in (True, False)],
        {},
    )
    if importlib.util.find_spec("spikingjelly"):
        others += spiking_jelly(net, problem)
    else:
        absent["spikingjelly"] = "not installed: pip install spikingjelly==2.0.0"
    processor: dict[str, list[float]] = {c.name: [] for c in (*ours, *others)}
    ours, others = ([replace(c, run=partial(clocked, c.run, processor[c.name])) for c in cs] for cs in (ours, others))
    rows = {c.name: rivals.first_call(c) for c in (*ours, *others)}
    rivals.check(rows, ours)
    rivals.race([c for c in (*ours, *others) if "error" not in rows[c.name]], rows, args)
    rivals.compare(rows)
    rivals.report(rows, absent)
    for name, seconds in processor.items():
        rows[name]["processor_seconds"] = min(seconds[1:], default=None)  # the first call compiles
    ratios(rows)
    if args.json:
        kept = {name: {k: v for k, v in row.items() if k != "kernels"} for name, row in rows.items()}
        about = {"machine": rivals.machine(), "net": args.net, "steps": args.steps, "batch": args.batch}
        args.json.write_text(json.dumps({**about, "contestants": kept}, indent=1) + "\n")


def live_problem(args: argparse.Namespace) -> tuple[otpe.Network, Problem]:
    """Return weights with which every layer spikes: kernels are twice as large and biases are raised."""
    neuron = otpe.LIF(LEAK, surrogate=otpe.fast_sigmoid(SLOPE))
    net = network((2, 34, 34), [(layer, neuron) for layer in NETS[args.net]])
    params = net.init(jax.random.key(0), jnp.float32)
    params = tuple(p._replace(kernel=2 * p.kernel, bias=p.bias + 0.02) for p in params)
    rng = np.random.default_rng(0)
    spikes = (rng.random((args.steps, args.batch, 2, 34, 34)) < args.rate).astype(np.float32)
    labels = rng.integers(0, 10, args.batch)
    rates = [round(float(s.mean()), 4) for s in net.record(params, spikes)]
    print(f"{args.net}, T {args.steps}, batch {args.batch}, spike rate by layer", *rates)
    if not min(rates) > 0:
        raise SystemExit("a layer is silent, so a comparison would be meaningless. Raise --rate.")
    kernels, biases = [np.asarray(p.kernel) for p in params], [np.asarray(p.bias) for p in params]
    return net, Problem(kernels, biases, spikes, labels, LEAK, slope=SLOPE)


def arrays(net: otpe.Network, problem: Problem) -> tuple[Any, jax.Array, jax.Array]:
    like = jax.eval_shape(net.init, jax.random.key(0))
    given = zip(like, problem.kernels, problem.biases, strict=True)
    params = tuple(type(p)(jnp.asarray(kernel), jnp.asarray(bias)) for p, kernel, bias in given)
    return params, jnp.asarray(problem.spikes), jnp.asarray(problem.labels)


def kernels(result: Any) -> list[np.ndarray]:
    return [np.asarray(layer.kernel) for layer in result[1]]


def mine(net: otpe.Network, problem: Problem, rule: str) -> Contestant:
    run = jax.jit(partial(otpe.gradients, net, rule=rule))
    return Contestant(f"otpe {rule}", rule, partial(wait, run, *arrays(net, problem)), kernels)


def by_hand(net: otpe.Network, problem: Problem, xla: bool) -> Contestant:
    """`jax.grad` through a `lax.scan` over time steps."""

    def loss(params: Any, spikes: jax.Array, labels: jax.Array) -> jax.Array:
        def step(membranes: Any, x: jax.Array) -> Any:
            after = []
            for layer, neuron, p, u in zip(net.layers, net.neurons, params, membranes, strict=True):
                u, x, _ = neuron.step(u, by_xla(layer, p, x) if xla else layer.apply(p, x))
                after.append(u)
            return after, x

        rest = [jnp.zeros((spikes.shape[1], *layer.out_shape)) for layer in net.layers]
        _, out = jax.lax.scan(step, rest, spikes)
        targets = jnp.broadcast_to(labels, out.shape[:2])
        return optax.softmax_cross_entropy_with_integer_labels(out, targets).mean()

    run = jax.jit(jax.value_and_grad(loss))
    name = "jax.grad through a scan" if xla else "the same, with our maps"
    return Contestant(name, "bptt", partial(wait, run, *arrays(net, problem)), kernels)


def by_xla(layer: Any, params: Any, x: jax.Array) -> jax.Array:
    for part in getattr(layer, "parts", (layer,)):
        if isinstance(part, layers.ConvLayer):
            c = jax.lax.conv_general_dilated(x, params.kernel, part.stride, part.padding)
            x = c + params.bias[:, None, None]
        else:
            x = part.apply(params, x)
    return x


def spiking_jelly(net: otpe.Network, problem: Problem) -> list[Contestant]:
    """SpikingJelly's OTTT. `contestants/spiking_jelly.py` explains the scale of the weights."""
    import torch
    from contestants.in_torch import DEVICE, by_threads, data, forget_gradients
    from contestants.spiking_jelly import options
    from spikingjelly.activation_based import functional, layer, neuron
    from torch import nn

    modules, learned, neurons = [], [], []
    for mine, kernel, bias in zip(net.layers, problem.kernels, problem.biases, strict=True):
        for part in getattr(mine, "parts", (mine,)):
            modules.append(in_torch(part))
            if list(modules[-1].parameters()):
                learned.append(modules[-1])
                with torch.no_grad():
                    turned = kernel.T if isinstance(part, layers.DenseLayer) else kernel
                    learned[-1].weight.copy_(problem.slope * torch.tensor(turned))
                    learned[-1].bias.copy_(problem.slope * torch.tensor(bias))
        neurons.append(neuron.OTTTLIFNode(**options(problem)))
        modules.append(neurons[-1])
    model = layer.OTTTSequential(*modules).to(DEVICE)
    spikes, labels = data(problem)

    def run() -> Any:
        forget_gradients(learned)
        functional.reset_net(model)
        trace = torch.zeros_like(spikes[0])
        for x in spikes:
            trace = neurons[0].track_trace(x, trace, neurons[0].tau)  # or the first layer would see only this step
            loss = nn.functional.cross_entropy(model([x, trace])[0], labels) / len(spikes)
            loss.backward()
        return loss

    def gradients(_: Any) -> list[np.ndarray]:
        found = [problem.slope * module.weight.grad.cpu().numpy() for module in learned]
        return [g.T if isinstance(m, nn.Linear) else g for g, m in zip(found, learned, strict=True)]

    note = "its biases get no trace: kernels compared"
    return by_threads([Contestant("spikingjelly ottt", "ottt", run, gradients, note)])


def in_torch(part: Any) -> Any:
    from torch import nn

    if isinstance(part, layers.ConvLayer):
        padding = tuple(before for before, _ in part.padding)
        return nn.Conv2d(part.in_shape[0], part.channels, part.size, part.stride, padding, part.dilation, part.groups)
    if isinstance(part, layers.PoolLayer):
        return nn.AvgPool2d(part.size, part.stride)
    return nn.Flatten() if isinstance(part, layers.FlattenLayer) else nn.Linear(part.n_in, part.n_out)


def clocked(run: Any, seconds: list[float]) -> Any:
    """Return the result of `run` and the processor time of all its threads."""
    start = time.process_time()
    result = run()
    seconds.append(time.process_time() - start)
    return result


def ratios(rows: dict[str, dict]) -> None:
    print(f"\n{'ours / other':50}{'wall':>8}{'processor':>12}")
    for name, row in rows.items():
        if name.startswith("otpe") or not row.get("processor_seconds"):
            continue
        for rule in ("ottt", "approx-otpe"):
            mine = rows[f"otpe {rule}"]
            wall, processor = (mine[each] / row[each] for each in ("median_seconds", "processor_seconds"))
            print(f"{f'otpe {rule} / {name}':50}{wall:8.2f}{processor:12.2f}")
    print(
        "\nprocessor ms:",
        ", ".join(f"{n} {1e3 * r['processor_seconds']:.0f}" for n, r in rows.items() if r["processor_seconds"]),
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", choices=NETS, default="strided")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.1, help="share of inputs that spike in a step")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds after which a contestant gets no more rounds"
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
