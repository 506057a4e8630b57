"""How the work is executed: the kernels, and the precision of matrix products.

backend
  "auto"       "pallas" on a CUDA GPU, "plain" elsewhere
  "plain"      ordinary JAX, on any device
  "pallas"     one fused kernel per layer and direction, which loops over all time steps. Matrix products of spikes are
               computed as sums of 16-bit products, see `layers/products.py`
  "interpret"  the same kernels as ordinary JAX, on any device; slow, for tests

precision of matrix products on a GPU (a CPU always uses float32; parameters of other types keep their own precision)
  "float32"    no larger error than a native float32 product: each weight is split into three 16-bit numbers, and spikes
               are exact in 16 bits
  "tf32"       no larger error than TF32, relative error below 1e-3: two 16-bit numbers per weight
  "bf16"       relative error below 1e-2: one 16-bit number per weight

The environment variable OTPE_BACKEND sets the backend that "auto" selects.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import jax
from jax.core import Tracer

from otpe import check
from otpe.choices import Backend, Precision

VARIABLE = "OTPE_BACKEND"


@dataclass(frozen=True)
class Engine:
    """A backend (never "auto") and a precision."""

    backend: Backend = "plain"
    precision: Precision = "float32"


def engine(backend: Backend = "auto", precision: Precision = "float32", params: Any = None) -> Engine:
    """Return the engine. "auto" selects by the device that holds `params`. Raises ValueError for an unknown name."""
    check.one_of("backend", backend, get_args(Backend))
    check.one_of("precision", precision, get_args(Precision))
    if backend == "auto":
        backend = _from_environment()
    if backend == "auto":
        backend = "pallas" if _platform(params) in ("gpu", "cuda") else "plain"
    return Engine(backend, precision)


def plain_when_differentiated(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `run(settings, engine, *arrays)` so that `jax.grad` differentiates it with the plain engine.

    JAX cannot differentiate the kernels. The result takes the same arguments as `run`.
    """
    with_kernels = jax.custom_jvp(run, nondiff_argnums=(0, 1))

    @with_kernels.defjvp
    def _(settings: Any, engine: Engine, arrays: Any, tangents: Any) -> Any:
        return jax.jvp(partial(run, settings, Engine("plain", engine.precision)), arrays, tangents)

    return lambda settings, engine, *arrays: (run if engine.backend == "plain" else with_kernels)(
        settings, engine, *arrays
    )


def _from_environment() -> Backend:
    backend = os.environ.get(VARIABLE) or "auto"
    check.one_of(f"backend (from the environment variable {VARIABLE})", backend, get_args(Backend))
    return backend  # type: ignore[return-value]


def _platform(params: Any) -> str:
    """The platform that does the work: that of the parameters, or JAX's default device while JAX traces."""
    for leaf in jax.tree.leaves(params):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
            return next(iter(leaf.devices())).platform
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    return getattr(device, "platform", device) or jax.default_backend()
