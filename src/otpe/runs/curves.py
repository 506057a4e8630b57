"""The picture of a comparison: validation accuracy over mini-batches."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from otpe.runs.result import Result

# Colours that are told apart by all eyes (Okabe and Ito); a rule has the same one in every picture.
COLOURS = {
    "bptt": "#000000", "rtrl": "#999999", "otpe": "#D55E00", "approx-otpe": "#E69F00", "ostl": "#0072B2",
    "ottt": "#56B4E9", "f-otpe": "#CC79A7", "f-approx-otpe": "#F0E442", "deep-otpe": "#009E73",
}  # fmt: skip


def draw(path: Path, results: list[Result], title: str) -> Path:
    """One panel per mode, one line per rule: the mean over seeds, and a band of one σ around it."""
    modes = list(dict.fromkeys(result.mode for result in results))
    figure, axes = plt.subplots(1, len(modes), figsize=(5.2 * len(modes), 3.8), sharey=True, squeeze=False)
    for panel, mode in zip(axes[0], modes, strict=True):
        for result in (result for result in results if result.mode == mode):
            steps = [line["step"] for line in result.metrics]
            accuracy = np.array([line["valid_accuracy"] for line in result.metrics])
            mean, sigma = accuracy.mean(1), accuracy.std(1)
            (line,) = panel.plot(steps, mean, label=result.rule, color=COLOURS.get(result.rule), linewidth=1.6)
            panel.fill_between(steps, mean - sigma, mean + sigma, color=line.get_color(), alpha=0.15, linewidth=0)
        panel.set(title=mode, xlabel="mini-batches")
        panel.grid(alpha=0.25)
        panel.legend(loc="lower right", fontsize=8)
    axes[0, 0].set(ylabel="validation accuracy", ylim=(0, 1))
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
