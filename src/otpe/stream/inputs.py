"""Checks of the input of a learner: type, shape and numbers. Nothing has changed when they raise an error."""

from typing import Any, NamedTuple

import numpy as np

from otpe.losses import DEFAULT, Loss
from otpe.networks import Network
from otpe.stream.programs import NO_LABEL

MORE_CLASSES = "Build it with more if classes may come that are not known yet."
_lowest, _highest = np.minimum.reduce, np.maximum.reduce


def step(net: Network, x: Any) -> np.ndarray:
    """Return a copy of the spikes of one time step [n_in] as float32."""
    shape = net.layers[0].in_shape
    if type(x) is np.ndarray and x.dtype == np.float32 and x.shape == shape:  # the usual case, in half the time
        copy = x.copy()
        if _lowest(copy, axis=None) >= 0 and _highest(copy, axis=None) < np.inf:
            return copy
    found = _numbers(x, "x")
    if found.shape != shape:
        raise ValueError(
            f"x has the shape {list(found.shape)}, expected {list(shape)}: one time step of the network's inputs."
        )
    return _spikes(found, "x")


def steps(net: Network, xs: Any) -> np.ndarray:
    """Return a copy of the spikes of many time steps [T, n_in] as float32."""
    found, shape = _numbers(xs, "xs"), net.layers[0].in_shape
    if found.ndim != 1 + len(shape) or found.shape[1:] != shape or not len(found):
        raise ValueError(
            f"xs has the shape {list(found.shape)}, expected [time, {', '.join(map(str, shape))}], with at least one"
            " time step."
        )
    return _spikes(found, "xs")


def label(net: Network, given: Any, loss: Loss = DEFAULT) -> np.ndarray:
    """Return one label as int32, or a target [classes] of real numbers if the loss accepts them."""
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
            f"label is {int(found)}, expected 0 to {net.classes - 1}: the network has {net.classes} outputs."
            f" {MORE_CLASSES}"
        )
    return found.astype(np.int32)


def labels(net: Network, given: Any, count: int, loss: Loss = DEFAULT) -> np.ndarray:
    """Return labels [count] as int32 from one label for all steps or one for each. −1 means no label.

    Or return targets [count, classes] of real numbers if the loss accepts them.
    """
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
            f" has {net.classes} outputs. {MORE_CLASSES}"
        )
    return np.ascontiguousarray(np.broadcast_to(found, (count,)), np.int32)


def unusable(x: np.ndarray) -> float | None:
    """Return the first number that cannot be a count of spikes: below 0, infinite or NaN. None if there is none."""
    if x.min(initial=0.0) >= 0 and np.isfinite(x.max(initial=0.0)):  # a NaN fails both
        return None
    return float(x[~(np.isfinite(x) & (x >= 0))][0])


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
    if found.dtype.kind not in "biuf":
        raise TypeError(f"{what} is of type {found.dtype}, expected real numbers: spikes, or how many there were.")
    return found


def _spikes(found: np.ndarray, what: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        copy = np.array(found, np.float32)  # the caller may change the original later
    bad = unusable(copy)
    if bad is not None:
        raise ValueError(f"{what} holds {bad}, expected spikes or how many there were: finite numbers, none below 0.")
    return copy


class Waiting(NamedTuple):
    """The last steps, at most `delay`, which wait for their labels. The oldest is first."""

    xs: np.ndarray  # [D, n_in]
    labels: np.ndarray  # [D] NO_LABEL as long as there is none
    begins: np.ndarray  # [D] does a sequence begin with the step?

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Waiting":
        return cls(np.zeros((0, *shape), np.float32), np.zeros(0, np.int32), np.zeros(0, bool))

    def append(self, new: "Waiting", delay: int) -> tuple["Waiting", "Waiting"]:
        """Append new steps. Return the steps that at least `delay` others have followed, and those that still wait."""
        both = [np.concatenate(pair) for pair in zip(self, new, strict=True)]
        due = max(len(both[0]) - delay, 0)
        return Waiting(*(a[:due] for a in both)), Waiting(*(a[due:].copy() for a in both))

    def with_labels(self, labels: np.ndarray, ago: int) -> "Waiting":
        """Return the same steps with these labels. The last label is that of the step `ago` steps before the newest."""
        end = len(self.labels) - ago
        changed = self.labels.copy()
        changed[end - len(labels) : end] = labels
        return self._replace(labels=changed)

    @property
    def labelled(self) -> int:
        return int((self.labels != NO_LABEL).sum())
