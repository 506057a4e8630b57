"""Sections with the cosines between the rules' gradients and BPTT's, along BPTT's training."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from otpe.lab.paper import published
from otpe.lab.paper.evidence import KERNEL, MODEL, sample
from otpe.lab.paper.plan import FinishedRun
from otpe.lab.paper.published import comparison
from otpe.lab.report import words
from otpe.lab.report.content import Against, Sample, Table
from otpe.lab.report.palette import shown
from otpe.lab.studies import align
from otpe.lab.studies.align import Alignments, Along

Kernels = Mapping[str, Sequence[float]]  # the paper's kernel cosines by rule, from the output to the first layer


def section(
    run: FinishedRun | None,
    rules: Sequence[str],
    data: str,
    compare: Callable[[Alignments], list[Against]] = lambda found: [],
    paper: Kernels | None = None,
) -> dict[str, Any]:
    """Return the section of BPTT's run. `compare` puts its cosines beside the paper's."""
    if not run:
        return {"lead": "There is no run by BPTT to compare with."}
    found = align.along(run.metrics)
    found = {rule: found[rule] for rule in rules if rule in found}
    deepest = {rule: float(words.mean(each.cosine[:, :, 0, 0])) for rule, each in found.items()}
    best = max(deepest, key=lambda rule: np.nan_to_num(deepest[rule], nan=-2.0))
    against = compare(found)
    return {
        "lead": f"Cosine between each rule's gradient and BPTT's on {data}, at BPTT's weights and on the next"
        " mini-batch. In the first hidden layer, where rules differ most, the highest mean is"
        f" {deepest[best]:.2f} ({shown(best)}).",
        "figures": align.figures(found, f"{data}."),
        "tables": [align.table(found), *([] if paper is None else [fifths_table(found)])],
        "against": against,
        "samples": samples(found),
        "remarks": [*([] if paper is None else closest(found, paper, against)), *align.missing(found)],
    }


def between(found: Alignments, low: float, high: float) -> dict[str, Along]:
    """The evaluations after mini-batch `low`, up to `high`."""
    parts = {rule: (each.steps > low) & (each.steps <= high) for rule, each in found.items()}
    return {rule: Along(*(values[parts[rule]] for values in each)) for rule, each in found.items()}


def fifths(found: Alignments) -> dict[str, dict[str, Along]]:
    """The alignments in each fifth of training. The keys are such as "0 to 2,000"."""
    ends = [round(_steps(found) * share / 5) for share in range(6)]
    return {f"{low:,} to {high:,}": between(found, low, high) for low, high in pairwise(ends)}


def _steps(found: Alignments) -> int:
    return next(iter(found.values())).steps[-1]


def fifths_table(found: Alignments) -> Table:
    """The kernel cosines in each fifth of training."""
    parts = fifths(found)
    return Table(
        name="moments",
        caption="Kernel cosines in fifths of training; mean over networks and evaluations.",
        columns=["rule", "mini-batches", *align.layer_names(found)],
        rows=[
            [rule, when, *(f"{mean:.3f}" for mean in words.mean(align.kernels(part[rule]), 0))]
            for rule in found
            for when, part in parts.items()
        ],
    )


def closest(found: Alignments, paper: Kernels, against: Sequence[Against]) -> list[str]:
    """A remark on the largest difference from the paper, in the comparison, all of training and its best fifth."""
    differences = {when: _largest(kernels(part, paper)) for when, part in fifths(found).items()}
    best = min(differences, key=lambda when: np.nan_to_num(differences[when], nan=math.inf))
    compared, whole = _largest(against), _largest(kernels(found, paper))
    if not math.isfinite(compared + whole + differences[best]):
        return []
    return [
        f"All kernel cosines differ from the paper's by at most {compared:.3f}. Cosines change while a network learns,"
        f" so the comparison depends on when they are taken: over all of training they differ by at most {whole:.3f},"
        f" and by at most {differences[best]:.3f} in the closest fifth, mini-batches {best}."
    ]


def _largest(rows: Sequence[Against]) -> float:
    return max((abs(row.ours - row.paper) for row in rows if row.what.startswith(KERNEL)), default=math.nan)


def beside_three(found: Alignments) -> list[Against]:
    """Networks of three layers: kernels and the whole model, over all of training."""
    return kernels(found, published.COSINES_3) + [
        comparison(MODEL, rule, number, words.mean(found[rule].model, 0))
        for rule, number in published.COSINES_MODEL.items()
        if rule in found
    ]


def beside_five(found: Alignments, last: int) -> list[Against]:
    """Networks of five layers: kernels at the end of training, as the authors have them."""
    end = _steps(found)
    return kernels(between(found, end - last, end), published.COSINES_5, f"{KERNEL} at the end")


def kernels(found: Alignments, paper: Kernels, what: str = KERNEL) -> list[Against]:
    """The paper's kernel cosines beside ours, in networks with the same number of layers."""
    return [
        comparison(f"{what}, {name}", rule, number, values)
        for rule, numbers in paper.items()
        if rule in found and found[rule].cosine.shape[2] == len(numbers)
        for name, number, values in zip(align.layer_names(found), numbers, by_network(found[rule]), strict=True)
    ]


def by_network(found: Along) -> np.ndarray:
    """Return the kernel cosines [L, S] of each network, means over training, output layer first."""
    return words.mean(found.cosine[..., 0], 0).T[::-1]


def samples(found: Alignments) -> list[Sample]:
    """Return the cosines of each network, means over training, for the claims of the paper."""
    return [
        sample(what, rule, values)
        for rule, each in found.items()
        for what, values in zip(
            [*(f"{KERNEL}, {name}" for name in align.layer_names(found)), MODEL],
            [*by_network(each), words.mean(each.model, 0)],
            strict=True,
        )
    ]
