"""Steps that wait for their label, in memory that never grows: the last `delay` of them."""

from typing import NamedTuple

import numpy as np

from otpe.stream.programs import NO_LABEL


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
