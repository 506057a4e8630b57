"""Draw the figure of the derivation: which paths from a weight to the loss each rule keeps.

python docs/make_figures.py        # writes docs/figures/paths.svg
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

STEPS, LAYERS = 5, 2
NAMES = ("hidden layer", "output layer")
RULES = {
    "BPTT": "every path",
    "OSTL": "the layer's own memory is exact,\nthe output layer only sees the present",
    "OTPE": "the layer's own memory is exact,\nthat of the output layer is a leak λ per step",
}
EXACT, ESTIMATE, DROPPED = "#0072B2", "#D55E00", "#BBBBBB"


def main() -> None:
    figure, panels = plt.subplots(1, 3, figsize=(10, 2.6), layout="constrained", sharey=True)
    for axes, (rule, text) in zip(panels, RULES.items(), strict=True):
        draw(axes, rule)
        axes.set_title(f"{rule}: {text}", fontsize=9, loc="left")
    panels[0].set_yticks(range(LAYERS), NAMES, fontsize=9)
    out = Path(__file__).parent / "figures" / "paths.svg"
    plt.rcParams["svg.hashsalt"] = "paths"
    figure.savefig(out, metadata={"Date": None})
    print(out)


def draw(axes, rule: str) -> None:
    """One panel: time to the right, layers upwards, and the paths of the weights into the hidden layer."""
    last = STEPS - 1
    for layer in range(LAYERS):
        for t in range(STEPS):
            if t < last:  # the membrane, from one step to the next
                arrow(axes, (t, layer), (t + 1, layer), memory(rule, layer))
            if layer < LAYERS - 1:  # a spike, to the layer above at the same step
                arrow(axes, (t, layer), (t, layer + 1), EXACT if rule != "OSTL" or t == last else DROPPED)
            axes.plot(t, layer, "o", markersize=11, color="white", markeredgecolor="#444444", zorder=3)
    axes.annotate("loss at t", (last, LAYERS - 1), (0, 14), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(STEPS), [*(f"t−{k}" for k in range(last, 0, -1)), "t"], fontsize=9)
    axes.set(xlim=(-0.4, last + 0.4), ylim=(-0.4, LAYERS - 0.35))
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def memory(rule: str, layer: int) -> str:
    """The colour of the arrow along the membranes of a layer."""
    if rule == "BPTT" or layer == 0:
        return EXACT
    return DROPPED if rule == "OSTL" else ESTIMATE


def arrow(axes, start, end, color: str) -> None:
    style = "--" if color == ESTIMATE else "-"
    axes.annotate(
        "", end, start, zorder=1 if color == DROPPED else 2,
        arrowprops={"arrowstyle": "-|>", "color": color, "linestyle": style, "lw": 0.8 if color == DROPPED else 1.6,
                    "shrinkA": 7, "shrinkB": 7},
    )  # fmt: skip


if __name__ == "__main__":
    main()
