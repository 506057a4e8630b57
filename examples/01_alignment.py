"""How close does each rule come to BPTT? Cosine and size of its gradient, layer by layer, on live random networks.

python examples/01_alignment.py
"""

import numpy as np
from tqdm import tqdm

import otpe
from otpe.testing import assert_live, scenario

SIZES = (50, 64, 64, 64, 64, 10)
SEEDS = 8
RULES = [name for name in otpe.rules() if name not in ("bptt", "rtrl")]


def main() -> None:
    cosine = np.zeros((SEEDS, len(RULES), len(SIZES)))  # one value per layer, then one for the whole model
    size = np.zeros_like(cosine)
    with tqdm(total=SEEDS * len(RULES), desc="gradients", unit="rule", disable=None) as bar:
        for seed in range(SEEDS):
            case = scenario(SIZES, steps=50, batch=32, leak=0.9526, surrogate=otpe.fast_sigmoid(25.0), seed=seed)
            assert_live(case)
            for i, name in enumerate(RULES):
                result = otpe.alignment(*case, rules=(name,))[name]
                cosine[seed, i] = [*(layer.kernel for layer in result.layers), result.model]
                size[seed, i] = [*(layer.kernel for layer in result.size), result.model_size]
                bar.update()

    rates = [f"{float(s.mean()):.2f}" for s in case.net.record(case.params, case.spikes)]
    print(f"\nGradients against BPTT on {SEEDS} random networks {'-'.join(map(str, SIZES))}, T 50, batch 32.")
    print(f"Every layer spikes; rates in the last network: {' '.join(rates)}.")
    print("The F- rules are held against BPTT on their own loss, that of the leaky readout.")
    table("cosine of the kernel gradient (1 is BPTT's direction)", cosine.mean(0), "{:8.2f}")
    table("its size, |rule| / |BPTT|", np.exp(np.log(size).mean(0)), "{:8.3g}")
    print("\nNext: docs/concepts/choosing-a-rule.md says what this means for you.")


def table(title: str, rows: np.ndarray, number: str) -> None:
    hidden = [f"hidden {i + 1}" for i in range(len(SIZES) - 2)]
    print(f"\n{title}\n{'':20}" + "".join(f"{name:>10}" for name in (*hidden, "output", "model")))
    for name, row in zip(RULES, rows, strict=True):
        print(f"{name:20}" + "".join(number.format(value).rjust(10) for value in row))


if __name__ == "__main__":
    main()
