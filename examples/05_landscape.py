"""How far is each rule from BPTT? Compares gradients during BPTT training and the path of each rule's own training.

python examples/05_landscape.py

The task is a small T-Randman. All files and a report page go to runs/example-05.
"""

from pathlib import Path

import numpy as np

import otpe
from otpe.lab.studies.landscapes import prepared_landscape

OUT = Path("runs/example-05")
RULES = ("otpe", "ostl")
TASK = {"dataset": "t-randman", "classes": 4, "units": 20, "dims": 1, "alpha": 2.0, "standardize": "fixed"}
SMALL = {"hidden": (32, 32), "batch": 32, "steps": 200, "learning_rate": 0.01, "seeds": 2, "eval_every": 25}


def main() -> None:
    # A network learns by BPTT. At every evaluation, each rule computes its gradient at the same weights.
    alignments = otpe.align(otpe.AlignConfig(**TASK, **SMALL, rules=RULES, out=OUT / "align", resume=True))
    print("cosine to BPTT's gradient, kernels: first hidden layer, second, output; and |g| / |BPTT| of the whole model")
    for rule in RULES:
        along = alignments[rule]
        cosine = np.nanmean(along.cosine[..., 0], axis=(0, 1))  # over time and networks; 0: kernels, 1: biases
        print(f"  {rule:10}" + "".join(f"{c:7.2f}" for c in cosine) + f"{np.nanmean(along.model_size):10.2f}")

    # Each rule trains its own network, from the same weights and on the same mini-batches.
    config = otpe.LandscapeConfig(
        **TASK, **SMALL, rules=("bptt", *RULES), snapshots=25, grid=15, out=OUT / "landscape", resume=True
    )
    seen, _ = prepared_landscape(config)()
    print("\nafter training: share of the way that lies in BPTT's plane, its length, and how far from BPTT it ends")
    for rule, share in seen.explained.items():
        numbers = (share[:, -1], seen.length[rule], seen.apart[rule])
        print(f"  {rule:10}" + "".join(f"{values.mean():7.2f}" for values in numbers))

    print(f"\nReport: {otpe.report(OUT, OUT / 'report.html', title='Example 5')}")


if __name__ == "__main__":
    main()
