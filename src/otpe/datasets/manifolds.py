"""Random smooth manifolds: for each class and unit, a function of x in [0, 1]^d.

    v(x) = Π_d g_d(x_d),   g_d(x) = Σ_f a_f / (f + 2)^α · sin(2π (f·x·b_f + c_f)),   f = 0 … F−1

with a, b, c uniform in [0, 1] for each class, unit and dimension, and a_0 = 0. F is where the spectrum has fallen to a
thousandth, 1,000 at most (the paper: α = 1, so 1,000).

Evaluated directly, a mini-batch of the authors' protocol takes 1.5·10⁹ sines. But every g_d is a function of one
number: it is tabulated once, on GRID + 1 points, and looked up between them, with an error of about 10⁻⁴ of its range.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from otpe.datasets import cache

GRID = 8192  # a power of two, so that the place in the table is exact in float32
COARSE = 64  # the grid is walked in 64 strides of 128 points
FINE = GRID // COARSE


class Coefficients(NamedTuple):
    """Of one class, each [units, dims, F]."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


def cutoff(alpha: float) -> int:
    """F: how many terms."""
    if alpha <= 1:
        return 1000
    return math.ceil(1000 ** (1 / alpha) - 1e-9)  # less a hair, lest rounding add a term on some machine


def coefficients(seed: int, label: int, units: int, dims: int, alpha: float) -> Coefficients:
    """Equal on every machine: made from the raw bits of PCG64, whose stream numpy promises not to change."""
    shape = (3, units, dims, cutoff(alpha))
    bits = np.random.PCG64([seed, label]).random_raw(math.prod(shape))
    a, b, c = ((bits >> np.uint64(11)) * 2.0**-53).reshape(shape)
    a[..., 0] = 0
    return Coefficients(a, b, c)


def direct(k: Coefficients, x: np.ndarray, alpha: float) -> np.ndarray:
    """v(x) [points, units] straight from the formula, for x [points, dims]."""
    f = np.arange(k.a.shape[-1])
    phase = f * x[:, None, :, None] * k.b + k.c  # [points, units, dims, F]
    return (k.a / (f + 2.0) ** alpha * np.sin(2 * np.pi * phase)).sum(-1).prod(-1)


def tables(seed: int, classes: int, units: int, dims: int, alpha: float) -> np.ndarray:
    """Every g at 0, 1/GRID, …, 1: [classes, dims, GRID + 1, units] float32, from the disk where it is cached there.

    The units are last: a point has one x_d for all of them, and finds them side by side.
    """
    name = f"randman-{seed}-{classes}x{units}x{dims}-alpha-{alpha:g}"
    stamp = {"tables": 1, "seed": seed, "classes": classes, "units": units, "dims": dims, "alpha": alpha, "grid": GRID}
    kept = cache.read(cache.home(), name, stamp)
    if kept is not None:
        return kept["tables"]
    made = np.empty((classes, dims, GRID + 1, units), np.float32)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for label in range(classes):
            k = coefficients(seed, label, units, dims, alpha)
            places = list(np.ndindex(units, dims))
            rows = pool.map(lambda at, k=k: tabulate(k.a[at], k.b[at], k.c[at], alpha), places)
            for (unit, dim), g in zip(places, rows, strict=True):
                made[label, dim, :, unit] = g
    cache.write(cache.home(), name, stamp, {"tables": made})
    return made


def tabulate(a: np.ndarray, b: np.ndarray, c: np.ndarray, alpha: float) -> np.ndarray:
    """One g [GRID + 1] from its coefficients [F].

    A point is x = h/COARSE + l/GRID, so e^(2πi f·x·b) = e^(2πi f·b·h/COARSE) · e^(2πi f·b·l/GRID): a few hundred sines
    for each f instead of thousands, and a matrix product in place of the sum over f.
    """
    f = np.arange(a.size)
    weight, cycles = a / (f + 2.0) ** alpha, f * b
    coarse = weight * np.exp(2j * np.pi * c) * _turns(cycles / COARSE, COARSE)  # [COARSE, F]
    fine = _turns(cycles / GRID, FINE)  # [FINE, F]
    inside = np.hstack([np.imag(coarse), np.real(coarse)]) @ np.hstack([np.real(fine), np.imag(fine)]).T
    end = np.sum(weight * np.sin(2 * np.pi * (cycles + c)))
    return np.append(inside, end)


def _turns(cycles: np.ndarray, count: int) -> np.ndarray:
    """e^(2πi k·cycles) for k = 0 … count − 1, a power of two: [count, F]. Each half is the half before, turned."""
    turned = np.ones((1, cycles.size), complex)
    while len(turned) < count:
        turned = np.concatenate([turned, turned * np.exp(2j * np.pi * len(turned) * cycles)])
    return turned
