"""Which recordings of a training file are held out for validation, where there is no file for it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from otpe import check

KINDS = ("first", "stratified", "none")


@dataclass(frozen=True)
class Holdout:
    """ "first": the first ones of the file, as the paper does. "stratified": the same share of every class, by seed."""

    kind: Literal["first", "stratified", "none"] = "first"
    fraction: float = 0.1
    seed: int = 0

    def checked(self) -> "Holdout":
        check.one_of("validation", self.kind, KINDS)
        share = "a share between 0 and 1, such as 0.1"
        fraction = check.number("fraction", self.fraction, share, lambda f: 0 < f < 1)
        return Holdout(self.kind, fraction, check.whole("seed", self.seed, 2**32))

    def held(self, labels: np.ndarray) -> np.ndarray:
        """True for each recording that is held out."""
        held = np.zeros(labels.size, bool)
        if self.kind == "first":
            held[: int(self.fraction * labels.size)] = True
        if self.kind == "stratified":
            # RandomState is the generator whose stream numpy promises never to change.
            shuffled = np.random.RandomState(self.seed).permutation(labels.size)
            for label in np.unique(labels):
                members = shuffled[labels[shuffled] == label]
                held[members[: round(self.fraction * members.size)]] = True
        return held


def holdout(given: str | Holdout) -> Holdout:
    return (given if isinstance(given, Holdout) else Holdout(given)).checked()  # pyright: ignore[reportArgumentType]
