"""What all checks share. An `assert` statement would be removed by `python -O`, so they call these functions."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def require(condition: Any, message: str) -> None:
    """Raise AssertionError with this message unless the condition holds."""
    if not condition:
        raise AssertionError(f"{message}.")


def require_value(thing: Any, name: str) -> None:
    """Raise AssertionError if an object differs from its copy. JAX compiles only once for equal objects."""
    other = copy.deepcopy(thing)
    equal = other == thing and hash(other) == hash(thing)
    advice = "make it a frozen dataclass, so that equal ones compare equal"
    require(equal, f"{name} differs from a copy of itself: {advice}")


def same(given: Any, expected: Any, what: str) -> None:
    """Raise AssertionError unless two pytrees are equal up to rounding. `what` names both in the message."""
    tolerance = 1e-10 if jax.tree.leaves(expected)[0].dtype == jnp.float64 else 1e-4
    error = relative_error(given, expected)
    require(error <= tolerance, f"{what}, differ by a relative {error:.1e}, expected at most {tolerance:.0e}")


def relative_error(given: Any, wanted: Any) -> float:
    """Return the largest |given − wanted| / |wanted|, in the 2-norm, over the leaves of two pytrees.

    A leaf with `wanted` = 0 counts with its absolute error. The result is NaN if any number is NaN.
    """
    pairs = zip(jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True)
    return float(np.max([_relative_error(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]))


def _relative_error(given: np.ndarray, wanted: np.ndarray) -> float:
    if given.shape != wanted.shape:
        raise ValueError(f"shapes differ: {given.shape} against {wanted.shape}.")
    size = np.linalg.norm(wanted)
    difference = np.linalg.norm(given - wanted)
    return float(difference / size) if size > 0 else float(difference)
