"""How many steps to hand to the device at a time: enough to keep it busy, few enough to stop soon when asked to."""

import math
import time

SECONDS = 0.5  # that a block should take


class Pace:
    def __init__(self, often: float) -> None:
        self.wanted = min(SECONDS, often) or SECONDS  # seconds of a block; `often`: between two checkpoints
        self.each: float | None = None  # seconds of a stride, as far as known
        self.began = 0.0

    def strides(self, left: int) -> int:
        """For the next block, which begins now."""
        self.began = time.perf_counter()
        wanted = 1 if self.each is None else math.ceil(self.wanted / self.each)
        return max(1, min(wanted, left))

    def ended(self, strides: int) -> float:
        """The block of so many strides is over. Seconds it took."""
        taken = time.perf_counter() - self.began
        self.each = max(taken / strides, 1e-7)
        return taken
