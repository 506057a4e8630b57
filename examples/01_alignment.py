"""How close does each rule come to BPTT? Cosine and size of its gradient, layer by layer, on random networks.

    python examples/01_alignment.py --figure alignment.png

A cosine of 1 means that a rule's gradient has the direction of BPTT's. Rules that keep less memory lose direction in
the lower layers first. In these networks every layer spikes, so no gradient is zero.
"""

import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

import otpe
from otpe.testing import assert_live, scenario

SIZES = (50, 64, 64, 64, 64, 10)
HIDDEN = [f"hidden {i + 1}" for i in range(len(SIZES) - 2)]
PARTS = (*HIDDEN, "output", "model")
RULES = [name for name in otpe.rules() if name not in ("bptt", "rtrl")]


def main() -> None:
    args = arguments()
    cosine = np.zeros((args.networks, len(RULES), len(PARTS)))
    size = np.zeros_like(cosine)
    with tqdm(total=args.networks * len(RULES), desc="gradients", unit="rule", disable=None) as bar:
        for seed in range(args.networks):
            case = scenario(SIZES, steps=50, batch=32, leak=0.9526, surrogate=otpe.fast_sigmoid(25.0), seed=seed)
            assert_live(case)
            for i, name in enumerate(RULES):
                result = otpe.alignment(*case, rules=(name,))[name]
                cosine[seed, i] = [*(layer.kernel for layer in result.layers), result.model]
                size[seed, i] = [*(layer.kernel for layer in result.size), result.model_size]
                bar.update()

    rates = [f"{float(s.mean()):.2f}" for s in case.net.record(case.params, case.spikes)]
    print(f"Gradients against BPTT on {args.networks} random networks {'-'.join(map(str, SIZES))}, T 50, batch 32.")
    print(f"Every layer spikes. Rates in the last network: {' '.join(rates)}.")
    print("F- rules are compared with BPTT on their own loss, which sees a leaky readout.")
    table("cosine of the kernel gradient (1 is BPTT's direction)", cosine.mean(0), "{:8.2f}")
    table("its size, |rule| / |BPTT|", np.exp(np.log(size).mean(0)), "{:8.3g}")
    if args.figure:
        draw(cosine.mean(0), args.figure)


def table(title: str, rows: np.ndarray, number: str) -> None:
    print(f"\n{title}\n{'':20}" + "".join(f"{name:>10}" for name in PARTS))
    for name, row in zip(RULES, rows, strict=True):
        print(f"{name:20}" + "".join(number.format(value).rjust(10) for value in row))


def draw(cosine: np.ndarray, file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(cosine, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(PARTS)), PARTS)
    axes.set_yticks(range(len(RULES)), RULES)
    for (row, column), value in np.ndenumerate(cosine):
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color="black" if value > 0.5 else "white")
    figure.colorbar(image, label="cosine to BPTT's gradient")
    figure.savefig(file, dpi=110)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=8, help="number of random networks")
    parser.add_argument("--figure", type=Path, help="draw the cosines into this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
