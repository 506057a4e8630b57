"""What comes from a stream, looked at before anything is changed: type, shape, and numbers that make sense."""

from typing import Any, NamedTuple

import numpy as np

from otpe.losses import DEFAULT, Loss
from otpe.networks import Network
from otpe.stream.programs import NO_LABEL

_lowest, _highest = np.minimum.reduce, np.maximum.reduce


def step(net: Network, x: Any) -> np.ndarray:
    """Spikes of one time step [n_in], as 32-bit numbers of their own."""
    want = net.layers[0].in_shape
    if type(x) is np.ndarray and x.dtype == np.float32 and x.shape == want:  # the usual case, in half the time
        made = x.copy()
        if _lowest(made, axis=None) >= 0 and _highest(made, axis=None) < np.inf:
            return made
    found = _numbers(x, "x")
    if found.shape != want:
        raise ValueError(
            f"x has the shape {list(found.shape)}, expected {list(want)}: one time step of the network's inputs."
        )
    return _checked(found, "x")


def steps(net: Network, xs: Any) -> np.ndarray:
    """Spikes of many time steps [T, n_in]."""
    found = _numbers(xs, "xs")
    want = net.layers[0].in_shape
    if found.ndim != 1 + len(want) or found.shape[1:] != want or not len(found):
        raise ValueError(
            f"xs has the shape {list(found.shape)}, expected [time, {', '.join(map(str, want))}], with at least one"
            " time step."
        )
    return _checked(found, "xs")


def label(net: Network, given: Any, loss: Loss = DEFAULT) -> np.ndarray:
    """One label as a 32-bit number, or a row of real numbers [classes] for a loss that takes them."""
    if type(given) is int and 0 <= given < net.classes:
        return np.array(given, np.int32)
    found = np.asarray(given)
    if loss.takes_reals and np.issubdtype(found.dtype, np.floating):
        return _targets(found, (net.classes,))
    if found.ndim or not np.issubdtype(found.dtype, np.integer):
        raise TypeError(
            f"label is {given!r}, expected a whole number from 0 to {net.classes - 1}; without one: observe_one(x)."
        )
    if not 0 <= int(found) < net.classes:
        raise ValueError(
            f"label is {int(found)}, expected 0 to {net.classes - 1}: the network has {net.classes} outputs. Build it"
            " with more if classes may come that are not known yet."
        )
    return found.astype(np.int32)


def labels(net: Network, given: Any, count: int, loss: Loss = DEFAULT) -> np.ndarray:
    """One for all steps or one for each, −1 for none; or rows of real numbers for a loss that takes them."""
    found = np.asarray(given)
    if loss.takes_reals and np.issubdtype(found.dtype, np.floating):
        return _targets(found, (count, net.classes))
    if not np.issubdtype(found.dtype, np.integer):
        raise TypeError(f"labels are of type {found.dtype}, expected whole numbers, −1 for a step without one.")
    if found.shape not in ((), (count,)):
        raise ValueError(
            f"labels have the shape {list(found.shape)}, expected one for all, or [{count}]: one per time step."
        )
    if found.size and not (found.min() >= NO_LABEL and found.max() < net.classes):
        raise ValueError(
            f"labels run from {found.min()} to {found.max()}, expected −1 (none) or 0 to {net.classes - 1}: the network"
            f" has {net.classes} outputs. Build it with more if classes may come that are not known yet."
        )
    return np.ascontiguousarray(np.broadcast_to(found, (count,)), np.int32)


def _targets(found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if found.shape not in (shape, shape[1:]) or not found.ndim or not np.isfinite(found).all():
        raise ValueError(
            f"targets have the shape {list(found.shape)}, expected {list(shape)}: finite numbers, one per output."
        )
    return np.ascontiguousarray(np.broadcast_to(found, shape), np.float32)


def _numbers(given: Any, what: str) -> np.ndarray:
    try:
        found = np.asarray(given)
    except ValueError:
        raise ValueError(f"{what} is a list whose rows differ in length, expected an array.") from None
    if (
        found.dtype != bool
        and not np.issubdtype(found.dtype, np.integer)
        and not np.issubdtype(found.dtype, np.floating)
    ):
        raise TypeError(f"{what} is of type {found.dtype}, expected real numbers: spikes, or how many there were.")
    return found


def _checked(found: np.ndarray, what: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        made = np.array(found, np.float32)  # its own: what the caller does with his is no matter
    low = made.min(initial=0.0)
    if not (low >= 0 and np.isfinite(made.max(initial=0.0))):  # a NaN fails both
        bad = float(made[~(np.isfinite(made) & (made >= 0))][0])
        raise ValueError(f"{what} holds {bad}, expected spikes or how many there were: finite numbers, none below 0.")
    return made


# --------------------
# Steps that wait for their label, in memory that never grows: the last `delay` of them.


class Waiting(NamedTuple):
    """Steps in the order of time, the oldest first."""

    xs: np.ndarray  # [D, n_in]
    labels: np.ndarray  # [D] NO_LABEL as long as there is none
    begins: np.ndarray  # [D] whether a sequence begins with it

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Waiting":
        return cls(np.zeros((0, *shape), np.float32), np.zeros(0, np.int32), np.zeros(0, bool))

    def join(self, more: "Waiting", delay: int) -> tuple["Waiting", "Waiting"]:
        """With more at the end: those that have waited for as many steps as `delay`, and those that go on waiting."""
        both = [np.concatenate(pair) for pair in zip(self, more, strict=True)]
        over = max(len(both[0]) - delay, 0)
        return Waiting(*(a[:over] for a in both)), Waiting(*(a[over:].copy() for a in both))

    def labelled(self, labels: np.ndarray, ago: int) -> "Waiting":
        """With these labels, the last of which is that of the step `ago` steps before the newest."""
        end = len(self.labels) - ago
        known = self.labels.copy()
        known[end - len(labels) : end] = labels
        return self._replace(labels=known)

    @property
    def known(self) -> int:
        return int((self.labels != NO_LABEL).sum())
