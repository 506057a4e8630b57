"""How much memory there is, and a refusal of what certainly needs more.

What is counted is a lower bound: arrays that must be there at the same time. So nothing is refused that could run, and
what is not refused may still not fit.
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
LIMITS = ("memory.max", "memory.limit_in_bytes")  # of version 2 of control groups, and of version 1


def refuse_more(what: str, needed: int, given: Mapping[str, Any], there: float | None = None) -> None:
    """ValueError where that many bytes are more than there are.

    `what` is made from the settings that are `given`, of which the largest is to be made smaller. `there`: bytes, by
    default those of the device that computes.
    """
    there = device() if there is None else there
    if needed <= there:
        return
    (first, value), *others = sorted(given.items(), key=_largest, reverse=True)
    listed = " and ".join(f"{name} {value}" for name, value in others if _largest((name, value)) > 1)
    raise ValueError(
        f"{first} is {value}{listed and f', with {listed}'}: {what} would take {needed / GIB:,.1f} GiB of memory or"
        f" more, and there are {there / GIB:,.1f} GiB. Make {first} smaller."
    )


def device() -> float:
    """Bytes of the device that computes, where it tells, else of the machine."""
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    chosen = default if isinstance(default, jax.Device) else jax.devices(default)[0]
    limit = None if chosen.platform == "cpu" else (chosen.memory_stats() or {}).get("bytes_limit")
    return host() if limit is None else float(limit)


@cache
def host() -> float:
    """Bytes that this process may use: of the machine with its swap space, or of its control group."""
    try:
        installed = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return inf
    return min([installed, *_limits()]) + _swap()


def _limits() -> Iterator[int]:
    """Of the control groups of this process, and of those above them."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, group = line.split(":", 2)
            if kind not in ("", "memory"):
                continue
            root = Path("/sys/fs/cgroup") / kind
            place = root / group.strip("/")
            for folder in (place, *place.parents):
                for name in LIMITS:
                    with suppress(OSError, ValueError):  # a limit may be the word max
                        yield int((folder / name).read_text())
                if folder == root:
                    break


def _swap() -> int:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("SwapTotal:"):
                return 1024 * int(line.split()[1])
    return 0


def size(tree: Any) -> int:
    """Bytes of all arrays, which need not be made yet."""
    return sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _largest(setting: tuple[str, Any]) -> int:
    _, value = setting
    return max(value, default=0) if isinstance(value, tuple | list) else value
