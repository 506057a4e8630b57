"""How the work is executed: which kernels, and how exact a matrix product is.

backend
  "auto"       "pallas" on a CUDA GPU, "plain" elsewhere
  "plain"      ordinary JAX, on any device
  "pallas"     one fused kernel per layer and direction, walking all time steps; matrix products from parts
  "interpret"  those kernels run as ordinary JAX, slowly, on any device: for tests

precision, of matrix products on a GPU (a CPU has only float32; parameters of another type than float32 keep theirs)
  "float32"    no less exact than a native float32 product: spikes are exact in 16 bits, and a float32 is the sum of
               three such numbers
  "tf32"       no less exact than TF32, relative error below 1e-3: two such numbers
  "bf16"       one such number, relative error below 1e-2

The environment variable OTPE_BACKEND decides what "auto" is.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import jax
from jax.core import Tracer

from otpe import check

Backend = Literal["auto", "plain", "pallas", "interpret"]
Precision = Literal["float32", "tf32", "bf16"]
VARIABLE = "OTPE_BACKEND"


@dataclass(frozen=True)
class Engine:
    """A backend that is not "auto" any more, and a precision."""

    backend: Backend = "plain"
    precision: Precision = "float32"


def engine(backend: Backend = "auto", precision: Precision = "float32", params: Any = None) -> Engine:
    """The engine for these wishes, on the device where the parameters are."""
    check.one_of("backend", backend, get_args(Backend))
    check.one_of("precision", precision, get_args(Precision))
    if backend == "auto":
        backend = _from_environment()
    if backend == "auto":
        backend = "pallas" if _platform(params) in ("gpu", "cuda") else "plain"
    return Engine(backend, precision)


def plain_when_differentiated(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run(what, engine, *arrays)`; for `jax.grad`, for which kernels have no answer, the same by the plain engine."""
    fast = jax.custom_jvp(run, nondiff_argnums=(0, 1))

    @fast.defjvp
    def _(what: Any, engine: Engine, arrays: Any, tangents: Any) -> Any:
        return jax.jvp(partial(run, what, Engine("plain", engine.precision)), arrays, tangents)

    return lambda what, engine, *arrays: (run if engine.backend == "plain" else fast)(what, engine, *arrays)


def _from_environment() -> Backend:
    wish = os.environ.get(VARIABLE) or "auto"
    check.one_of(f"backend (from the environment variable {VARIABLE})", wish, get_args(Backend))
    return wish  # type: ignore[return-value]


def _platform(params: Any) -> str:
    """Where the work will be done: where the parameters are; while JAX traces, its default device."""
    for leaf in jax.tree.leaves(params):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
            return next(iter(leaf.devices())).platform
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    return getattr(device, "platform", device) or jax.default_backend()
