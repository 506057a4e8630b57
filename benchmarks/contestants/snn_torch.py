"""snnTorch: BPTT through `snn.Leaky`.

Its own neuron cannot be ours by options alone. With `reset_delay=True` the reset comes one step late, does not leak and
is kept out of the gradient; with `reset_delay=False` it is as ours, but a membrane that is still above the threshold
after its reset is reset again before it fires. The smallest change that makes it our neuron: `reset_delay=False`, and
no reset before the spike.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import snntorch
import torch
from snntorch import surrogate
from torch import nn

from contestants.base import Contestant, Problem
from contestants.in_torch import by_threads, data, forget_gradients, kernel_gradients, linears, wait


class Leaky(snntorch.Leaky):
    def mem_reset(self, mem: torch.Tensor) -> float:
        return 0.0


def contestants(problem: Problem) -> list[Contestant]:
    forms: dict[str, Callable[..., torch.Tensor]] = {"bptt": step_by_step, "bptt, layer by layer": layer_by_layer}
    return by_threads([contestant(problem, name, forward) for name, forward in forms.items()])


def contestant(problem: Problem, name: str, forward: Callable[..., torch.Tensor]) -> Contestant:
    layers = linears(problem)
    neuron = partial(Leaky, problem.leak, problem.threshold, surrogate.fast_sigmoid(problem.slope), reset_delay=False)
    neurons = [neuron().to(layer.weight.device) for layer in layers]
    spikes, labels = data(problem)
    labels = labels.expand(len(spikes), -1)

    def run() -> Any:
        forget_gradients(layers)
        loss = nn.functional.cross_entropy(forward(layers, neurons, spikes).flatten(0, 1), labels.flatten())
        loss.backward()
        wait()
        return loss

    return Contestant(
        f"snntorch {name}",
        "bptt",
        run,
        lambda _: kernel_gradients(layers),
        "snn.Leaky with its reset moved, see its file",
    )


def step_by_step(layers: list[nn.Linear], neurons: list[Leaky], spikes: torch.Tensor) -> torch.Tensor:
    """As in snnTorch's tutorials: a loop over time around the network."""
    membranes = [neuron.reset_mem() for neuron in neurons]
    out = []
    for x in spikes:
        for i, (layer, neuron) in enumerate(zip(layers, neurons, strict=True)):
            x, membranes[i] = neuron(layer(x), membranes[i])
        out.append(x)
    return torch.stack(out)


def layer_by_layer(layers: list[nn.Linear], neurons: list[Leaky], x: torch.Tensor) -> torch.Tensor:
    """One matrix product per layer for all steps, a loop over time for the neurons: the fastest way to use it."""
    for layer, neuron in zip(layers, neurons, strict=True):
        membrane, out = neuron.reset_mem(), []
        for current in layer(x):
            s, membrane = neuron(current, membrane)
            out.append(s)
        x = torch.stack(out)
    return x
