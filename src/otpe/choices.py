"""What settings and functions have in common: choices, and the leak of the paper. This module does not import jax."""

from typing import Literal

Precision = Literal["float32", "tf32", "bf16"]
Backend = Literal["auto", "plain", "pallas", "interpret"]
PAPER_LEAK = 0.9525741268224334  # sigmoid(3), the leak behind the paper's results
