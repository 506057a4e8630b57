"""The size of the memory, and an error for work that certainly needs more.

The check counts only arrays that must exist at the same time, which is a lower bound. It never refuses work that could
run, but work that passes may still run out of memory.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from math import inf, prod
from pathlib import Path
from typing import Any

import jax

GIB = 2**30
LIMITS = ("memory.max", "memory.limit_in_bytes")  # the limit's file in version 2 and version 1 of control groups


def check_fits(what: str, needed: int, settings: Mapping[str, Any], available: float | None = None) -> None:
    """Raise ValueError if `needed` bytes are more than the available memory.

    The size of `what` depends on `settings`. The message asks to reduce the setting with the largest value. `available`
    is in bytes; the default is the memory of the device that computes.
    """
    available = device() if available is None else available
    if needed <= available:
        return
    (first, value), *others = sorted(settings.items(), key=_largest, reverse=True)
    listed = " and ".join(f"{name} {value}" for name, value in others if _largest((name, value)) > 1)
    raise ValueError(
        f"{first} is {value}{listed and f', with {listed}'}: {what} would take {needed / GIB:,.1f} GiB of memory or"
        f" more, and there are {available / GIB:,.1f} GiB. Make {first} smaller."
    )


def device() -> float:
    """Bytes of memory of the device that computes, or the machine's memory if the device does not report its own."""
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    chosen = default if isinstance(default, jax.Device) else jax.devices(default)[0]
    limit = None if chosen.platform == "cpu" else (chosen.memory_stats() or {}).get("bytes_limit")
    return host() if limit is None else float(limit)


@cache
def host() -> float:
    """Bytes that this process may use: the memory or control-group limit, whichever is smaller, plus swap space."""
    try:
        installed = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return inf
    return min([installed, *_limits()]) + _swap()


def _limits() -> Iterator[int]:
    """The memory limits of the control groups of this process and of their parents."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, group = line.split(":", 2)
            if kind not in ("", "memory"):
                continue
            root = Path("/sys/fs/cgroup") / kind
            innermost = root / group.strip("/")
            for folder in (innermost, *innermost.parents):
                for name in LIMITS:
                    with suppress(OSError, ValueError):  # the file may contain the word max instead of a number
                        yield int((folder / name).read_text())
                if folder == root:
                    break


def _swap() -> int:
    """Bytes of swap space, as far as the system reports it."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("SwapTotal:"):
                return 1024 * int(line.split()[1])
    return 0


def size(tree: Any) -> int:
    """Bytes of all arrays of a tree. Shapes without data, such as from `jax.eval_shape`, are enough."""
    return sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _largest(setting: tuple[str, Any]) -> int:
    """The value of a setting, or the largest one if it has several."""
    _, value = setting
    return max(value, default=0) if isinstance(value, tuple | list) else value
