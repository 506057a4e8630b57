"""What the torch libraries share: data on the device, parameters as `nn.Linear`, threads, waiting."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import torch
from torch import nn

from contestants.base import Contestant, Problem

DEVICE = torch.device("cuda" if torch.cuda.is_available() and jax.default_backend() == "gpu" else "cpu")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def by_threads(made: list[Contestant]) -> list[Contestant]:
    """Each with as many threads as cores, and again with one: torch's threads wait for each other at every small step,
    and where other programs use the cores as well, one thread can be several times faster than all."""
    if DEVICE.type != "cpu" or cores() == 1:
        return [replace(c, run=partial(with_threads, cores(), c.run)) for c in made]
    names = {cores(): "{}", 1: "{}, 1 thread"}
    return [
        replace(c, name=name.format(c.name), run=partial(with_threads, threads, c.run))
        for c in made
        for threads, name in names.items()
    ]


def with_threads(threads: int, run: Callable[[], Any]) -> Any:
    torch.set_num_threads(threads)
    return run()


def linears(problem: Problem, scale: float = 1.0) -> list[nn.Linear]:
    """One `nn.Linear` per layer with the problem's weights, times `scale`."""
    made = []
    for kernel, bias in zip(problem.kernels, problem.biases, strict=True):
        linear = nn.Linear(*kernel.shape, device=DEVICE)
        with torch.no_grad():
            linear.weight.copy_(scale * torch.tensor(kernel).T)
            linear.bias.copy_(scale * torch.tensor(bias))
        made.append(linear)
    return made


def data(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    spikes = torch.tensor(problem.spikes, device=DEVICE)
    return spikes, torch.tensor(problem.labels, device=DEVICE).long()


def forget_gradients(layers: list[nn.Linear]) -> None:
    for layer in layers:
        layer.weight.grad = layer.bias.grad = None


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def kernel_gradients(layers: list[nn.Linear], scale: float = 1.0) -> list[np.ndarray]:
    gradients: list[Any] = [layer.weight.grad for layer in layers]
    return [scale * gradient.cpu().numpy().T for gradient in gradients]
