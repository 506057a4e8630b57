"""The numbers in the paper and in the output of its authors' published runs, and their comparison with ours.

Summe, Schaefer, Joshi: Estimating Post-Synaptic Effects for Online Training of Feed-Forward SNNs, arXiv:2311.16151.
"""

import math
from typing import NamedTuple

import numpy as np

from otpe.lab.report import words
from otpe.lab.report.content import Against

NETWORKS = 4  # the paper's seeds


class Spread(NamedTuple):
    mean: float
    std: float


# Table 2: test accuracy on SHD, by layers (hidden and output) and width.
OFFLINE = {
    (3, 128): {
        "ottt": Spread(0.643, 0.010), "ostl": Spread(0.667, 0.010), "bptt": Spread(0.739, 0.025),
        "otpe": Spread(0.725, 0.007), "approx-otpe": Spread(0.670, 0.010),
    },
    (3, 512): {
        "ottt": Spread(0.705, 0.015), "ostl": Spread(0.705, 0.015), "bptt": Spread(0.781, 0.010),
        "otpe": Spread(0.752, 0.005), "approx-otpe": Spread(0.712, 0.011),
    },
    (5, 512): {
        "ottt": Spread(0.635, 0.021), "ostl": Spread(0.639, 0.010), "bptt": Spread(0.777, 0.006),
        "otpe": Spread(0.764, 0.012), "approx-otpe": Spread(0.743, 0.009),
    },
}  # fmt: skip
ONLINE = {
    (3, 128): {
        "ottt": Spread(0.667, 0.011), "ostl": Spread(0.685, 0.019), "otpe": Spread(0.736, 0.014),
        "approx-otpe": Spread(0.698, 0.012), "f-otpe": Spread(0.733, 0.009), "f-approx-otpe": Spread(0.712, 0.017),
    },
    (3, 512): {
        "ottt": Spread(0.712, 0.008), "ostl": Spread(0.706, 0.007), "otpe": Spread(0.754, 0.005),
        "approx-otpe": Spread(0.718, 0.011), "f-otpe": Spread(0.753, 0.003), "f-approx-otpe": Spread(0.715, 0.012),
    },
    (5, 512): {
        "ottt": Spread(0.662, 0.007), "ostl": Spread(0.672, 0.010), "otpe": Spread(0.767, 0.007),
        "approx-otpe": Spread(0.767, 0.008), "f-otpe": Spread(0.741, 0.010), "f-approx-otpe": Spread(0.726, 0.013),
    },
}  # fmt: skip

# Validation accuracy, mean over the last 1,000 mini-batches, printed by the authors' runs.
R_RANDMAN = {"ottt": 0.8324, "approx-otpe": 0.8237, "ostl": 0.8369, "otpe": 0.8268, "bptt": 0.8253}
DIGITS = {"ottt": 0.853, "approx-otpe": 0.894, "ostl": 0.872, "otpe": 0.938, "bptt": 0.946}
DIGITS_LOSS = {"ottt": 2.314, "approx-otpe": 2.261, "ostl": 2.301, "otpe": 2.198, "bptt": 2.196}  # training, at the end

# T-Randman: the paper gives no accuracies as numbers, only differences from BPTT (in its section on learning).
T_RANDMAN_FROM_BPTT = {"otpe": 0.007, "ostl": -0.038, "ottt": -0.086}

# Cosine to BPTT's gradient on SHD: kernels from the output layer to the first hidden layer, and the whole model.
COSINES_3 = {
    "ottt": (0.994, 0.551, 0.169), "approx-otpe": (0.994, 0.943, 0.819),
    "ostl": (1.000, 0.489, 0.142), "otpe": (1.000, 0.994, 0.862),
}  # fmt: skip
COSINES_5 = {  # at the end of training
    "ottt": (0.992, 0.548, 0.238, 0.133, 0.099), "approx-otpe": (0.992, 0.928, 0.878, 0.803, 0.590),
    "ostl": (1.000, 0.497, 0.203, 0.114, 0.083), "otpe": (1.000, 0.992, 0.842, 0.736, 0.561),
}  # fmt: skip
COSINES_MODEL = {"ottt": 0.945, "approx-otpe": 0.972, "ostl": 0.952, "otpe": 0.991}

RATES = (1e-3, 8.5e-4, 7e-4, 5.5e-4, 4e-4, 2.5e-4, 1e-4, 8.5e-5, 7e-5, 5.5e-5, 4e-5, 2.5e-5, 1e-5, 8.5e-6)
SLOPES, WIDTHS, LAYERS = (5, 10, 25, 50), (128, 256, 384, 512), (3, 5)


def comparison(what: str, rule: str, paper: float | Spread, ours: np.ndarray, *, percent: bool = False) -> Against:
    """Return a number of the paper beside ours: one value for each network. Missing values are left out."""
    mean, std = paper if isinstance(paper, Spread) else (paper, math.nan)
    return Against(
        what=what, rule=rule, paper=mean, paper_spread=std, ours=float(words.mean(ours)),
        spread=float(words.std(ours)), percent=percent, n=int(np.isfinite(ours).sum()),
        paper_n=NETWORKS if isinstance(paper, Spread) else None,
    )  # fmt: skip
