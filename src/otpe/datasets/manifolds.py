"""Random smooth manifolds: for each class and unit, a function of x in [0, 1]^d.

    v(x) = Π_d g_d(x_d),   g_d(x) = Σ_f a_f / (f + 2)^α · sin(2π (f·x·b_f + c_f)),   f = 0 … F−1

with a, b, c uniform in [0, 1] for each class, unit and dimension, and a_0 = 0. F is where the spectrum has fallen to a
thousandth, 1,000 at most (the paper: α = 1, so 1,000).

Evaluated directly, a mini-batch of the authors' protocol takes 1.5·10⁹ sines. But every g_d is a function of one
number: it is tabulated once, on GRID + 1 points, and looked up between them, with an error of about 10⁻⁴ of its range.
"""

import math
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
    home, made = cache.home(), np.empty((classes, dims, GRID + 1, units), np.float32)
    kept = cache.read(home, name, stamp, lambda kept: _alike(kept["tables"], made))
    if kept is not None:
        return kept["tables"]
    rows = np.empty((units, GRID + 1), np.float32)
    for label in range(classes):
        k = coefficients(seed, label, units, dims, alpha)
        for dim in range(dims):
            tabulate(Coefficients(*(part[:, dim] for part in k)), alpha, rows)
            made[label, dim] = rows.T
    cache.write(home, name, stamp, {"tables": made})
    return made


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def tabulate(k: Coefficients, alpha: float, out: np.ndarray) -> None:
    """Every g of one dimension [units, GRID + 1] from its coefficients, each [units, F].

    A point is x = h/COARSE + l/GRID, so e^(2πi f·x·b) = e^(2πi f·b·h/COARSE) · e^(2πi f·b·l/GRID): a few hundred sines
    for each f instead of thousands, and a matrix product in place of the sum over f. Of the product of two complex
    numbers the imaginary part is wanted, which is the inner product of the one with i times the conjugate of the other.
    """
    f = np.arange(k.a.shape[1])
    weight, cycles = k.a / (f + 2.0) ** alpha, f * k.b
    start = weight * np.exp(2j * np.pi * k.c)
    coarse, fine = (np.empty((count, f.size), complex) for count in (COARSE, FINE))  # used again for every unit
    for unit in range(len(out)):
        coarse[0], fine[0] = start[unit], 1j
        _turn(coarse, cycles[unit] / COARSE)
        _turn(fine, -cycles[unit] / GRID)
        out[unit, :-1] = (coarse.view(float) @ fine.view(float).T).ravel()
    out[:, -1] = np.sum(weight * np.sin(2 * np.pi * (cycles + k.c)), axis=1)


def _turn(rows: np.ndarray, cycles: np.ndarray) -> None:
    """Row k becomes the first, turned by k·cycles. There are 2ⁿ rows: each half is the half before, turned."""
    done = 1
    while done < len(rows):
        np.multiply(rows[:done], np.exp(2j * np.pi * done * cycles), out=rows[done : 2 * done])
        done *= 2
