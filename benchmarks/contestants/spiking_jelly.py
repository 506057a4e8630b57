"""SpikingJelly: its OTTT, and BPTT in its multi-step mode.

Our surrogate 1/(k|d|+1)² is none of its own, and a surrogate from outside would cost it its fast neurons. But
`SuperSpike`, α/(|d|+1)², is ours on a membrane in units 1/k as large: weights, biases and threshold times k and α = 1/k
give the same spikes, and kernel gradients times k.
"""

from typing import Any

import torch
from spikingjelly.activation_based import functional, layer, neuron, surrogate
from torch import nn

from contestants.base import Contestant, Problem
from contestants.in_torch import DEVICE, by_threads, data, forget_gradients, kernel_gradients, linears, wait


def contestants(problem: Problem) -> list[Contestant]:
    return by_threads([ottt(problem), bptt(problem)])


def options(problem: Problem) -> dict[str, Any]:
    return {
        "tau": 1 / (1 - problem.leak),
        "decay_input": False,
        "v_threshold": problem.slope * problem.threshold,
        "v_reset": None,  # subtract
        "surrogate_function": surrogate.SuperSpike(1 / problem.slope),
    }


def ottt(problem: Problem) -> Contestant:
    layers = linears(problem, problem.slope)
    neurons = [neuron.OTTTLIFNode(**options(problem)) for _ in layers]
    net = layer.OTTTSequential(*(m for pair in zip(layers, neurons, strict=True) for m in pair)).to(DEVICE)
    spikes, labels = data(problem)

    def run() -> Any:
        forget_gradients(layers)
        functional.reset_net(net)
        trace, total = torch.zeros_like(spikes[0]), torch.zeros((), device=DEVICE)
        for x in spikes:
            trace = neurons[0].track_trace(x, trace, neurons[0].tau)  # else the first layer would see this step only
            loss = nn.functional.cross_entropy(net([x, trace])[0], labels) / len(spikes)
            loss.backward()
            total += loss.detach()
        wait()
        return total

    note = "its biases get no trace: kernels compared"
    return Contestant("spikingjelly ottt", "ottt", run, lambda _: kernel_gradients(layers, problem.slope), note)


def bptt(problem: Problem) -> Contestant:
    layers = linears(problem, problem.slope)
    neurons = [neuron.LIFNode(**options(problem), step_mode="m") for _ in layers]
    net = nn.Sequential(*(m for pair in zip(layers, neurons, strict=True) for m in pair)).to(DEVICE)
    spikes, labels = data(problem)
    labels = labels.expand(len(spikes), -1)

    def run() -> Any:
        forget_gradients(layers)
        functional.reset_net(net)
        loss = nn.functional.cross_entropy(net(spikes).flatten(0, 1), labels.flatten())
        loss.backward()
        wait()
        return loss

    return Contestant("spikingjelly bptt", "bptt", run, lambda _: kernel_gradients(layers, problem.slope))
