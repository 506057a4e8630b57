"""Compares ways to compute a convolution's three products on this device: forward, transposed to the inputs and to the
kernel. Also compares ways to pool.

    python benchmarks/conv_products.py --steps 50 --batch 32

`patches` are products of matrices for a block of samples at a time, as in `ConvLayer` on a CPU. `xla` is XLA's
convolution. Each is measured for all samples at once, and in a loop over time steps, as an online rule needs it.
Pooling is a sum of slices, as in `PoolLayer`, or XLA's `reduce_window`. Processor time is listed beside wall
time, because wall time says little on a machine that also does other work.
"""

import argparse
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from otpe.layers import conv, sum_pool

MAPS = [(conv(16, 5, stride=2), (2, 34, 34)), (conv(32, 3, stride=2), (16, 15, 15)), (conv(32, 3), (16, 15, 15))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(f"{'best wall / processor ms':50}{'forward':>18}{'to inputs':>18}{'to kernel':>18}")
    for spec, shape in MAPS:
        layer, rng = spec.on(shape), np.random.default_rng(0)
        kernel = layer.init(jax.random.key(0), jnp.float32).kernel
        x = jnp.asarray(rng.random((args.steps, args.batch, *shape)) < 0.1, jnp.float32)
        m = jnp.asarray(rng.standard_normal((args.steps, args.batch, *layer.out_shape)), jnp.float32)
        for name, product in {"patches": layer._by_patches, "xla": layer._by_convolution}.items():
            for how in (at_once, in_a_loop):
                times = [timed(call, args.rounds) for call in how(product, kernel, x, m)]
                row(f"{layer}, {name}, {how.__name__}", times)
    for size in (2, 3, 8):
        layer, window = sum_pool(size).on((16, 16, 16)), (1, 1, size, size)
        x = jnp.zeros((args.steps * args.batch, 16, 16, 16))
        ways = {
            "slices": lambda x, layer=layer: layer.apply((), x),
            "xla": lambda x, w=window: jax.lax.reduce_window(x, 0.0, jax.lax.add, w, w, "VALID"),
        }
        for name, way in ways.items():
            m = way(x)
            back = jax.jit(lambda m, way=way, x=x: jax.linear_transpose(way, x)(m)[0])
            forward = jax.jit(way)
            row(f"{layer}, {name}", [timed(partial(forward, x), args.rounds), timed(partial(back, m), args.rounds)])


def row(name: str, times: list[str]) -> None:
    print(f"{name:50}" + "".join(f"{t:>18}" for t in times), flush=True)


def at_once(product: Any, kernel: jax.Array, x: jax.Array, m: jax.Array) -> list[Any]:
    flat_x, flat_m = (a.reshape(-1, *a.shape[2:]) for a in (x, m))
    given = ((kernel, flat_x), (kernel, flat_m), (flat_x, flat_m))
    return [lambda f=f, a=a: f(*a) for f, a in zip(map(jax.jit, three(product, kernel, flat_x)), given, strict=True)]


def in_a_loop(product: Any, kernel: jax.Array, x: jax.Array, m: jax.Array) -> list[Any]:
    forward, to_inputs, to_kernel = three(product, kernel, x[0])
    loops = (
        lambda: jax.lax.map(lambda x: forward(kernel, x), x),
        lambda: jax.lax.map(lambda m: to_inputs(kernel, m), m),
        lambda: jax.lax.scan(lambda total, at: (total + to_kernel(*at), None), jnp.zeros_like(kernel), (x, m))[0],
    )
    return [jax.jit(loop) for loop in loops]


def three(product: Any, kernel: jax.Array, x: jax.Array) -> list[Any]:
    return [
        product,
        lambda kernel, m: jax.linear_transpose(lambda x: product(kernel, x), x)(m)[0],
        lambda x, m: jax.linear_transpose(lambda kernel: product(kernel, x), kernel)(m)[0],
    ]


def timed(call: Any, rounds: int) -> str:
    jax.block_until_ready(call())
    walls, processors = [], []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        jax.block_until_ready(call())
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return f"{1e3 * min(walls):.1f} / {1e3 * min(processors):.1f}"


if __name__ == "__main__":
    main()
