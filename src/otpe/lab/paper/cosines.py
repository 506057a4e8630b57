"""How rules' gradients lie to BPTT's, along BPTT's training: per layer and over the whole model."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from otpe.lab.paper import published
from otpe.lab.paper.finished import Finished
from otpe.lab.report import words
from otpe.lab.report.content import Against, Table
from otpe.lab.report.palette import shown
from otpe.lab.studies import align
from otpe.lab.studies.align import Along

KERNEL = "kernel cosine"
Kernels = Mapping[str, Sequence[float]]  # by rule: from the output to the first layer


def section(
    run: Finished | None, rules: Sequence[str], where: str, against: Any = None, paper: Kernels | None = None
) -> dict[str, Any]:
    """`run`: BPTT's. `against`: from what is found to the comparison with the paper."""
    if not run:
        return {"lead": "There is no run by BPTT to compare with."}
    found = align.along(run.metrics)
    found = {rule: found[rule] for rule in rules if rule in found}
    deepest = {rule: float(words.mean(a.cosine[:, :, 0, 0])) for rule, a in found.items()}
    best = max(deepest, key=lambda rule: np.nan_to_num(deepest[rule], nan=-2.0))
    beside = [] if against is None else against(found)
    return {
        "lead": f"Cosine between each rule's gradient and BPTT's on {where}, at BPTT's weights and on the mini-batch it"
        " learns from next. In the first hidden layer, where rules differ most, the highest mean is"
        f" {deepest[best]:.2f} ({shown(best)}).",
        "figures": align.figures(found, where + "."),
        "tables": [align.table(found), *([] if paper is None else [moments(found)])],
        "against": beside,
        "remarks": [*([] if paper is None else closest(found, paper, beside)), *align.missing(found)],
    }


def fifths(found: Mapping[str, Along]) -> Iterator[tuple[str, dict[str, Along]]]:
    """Of training, one after the other, as they are called."""
    steps = next(iter(found.values())).steps
    for i in range(5):
        low, high = (round(steps[-1] * share / 5) for share in (i, i + 1))
        yield f"{low:,} to {high:,}", {rule: between(a, low, high) for rule, a in found.items()}


def between(a: Along, low: float, high: float) -> Along:
    """What was measured after mini-batch `low`, up to `high`."""
    which = (a.steps > low) & (a.steps <= high)
    return Along(*(part[which] for part in a))


def moments(found: Mapping[str, Along]) -> Table:
    """Kernel cosines as training goes on."""
    rows = [
        [rule, when, *(f"{words.mean(values):.3f}" for values in np.moveaxis(align.kernels(a), 2, 0))]
        for when, parts in fifths(found)
        for rule, a in parts.items()
    ]
    rows.sort(key=lambda row: list(found).index(row[0]))
    return Table(
        name="moments",
        caption="Kernel cosines in fifths of training; mean over networks and evaluations.",
        columns=["rule", "mini-batches", *align.layer_names(found)],
        rows=rows,
    )


def closest(found: Mapping[str, Along], paper: Kernels, beside: Sequence[Against]) -> list[str]:
    """How far from the paper: as compared, over all of training, and when ours come closest."""
    apart = {when: _farthest(_kernels(part, paper)) for when, part in fifths(found)}
    best = min(apart, key=lambda when: np.nan_to_num(apart[when], nan=math.inf))
    compared, whole = _farthest(beside), _farthest(_kernels(found, paper))
    if not math.isfinite(compared + whole + apart[best]):
        return []
    return [
        f"All kernel cosines beside the paper's lie within {compared:.3f} of them. Cosines move while a network learns,"
        f" so it matters when they are taken: over all of training ours lie within {whole:.3f}, and within"
        f" {apart[best]:.3f} in the fifth that comes closest, mini-batches {best}."
    ]


def _farthest(rows: Sequence[Against]) -> float:
    """Of the kernels."""
    return max((abs(row.ours - row.paper) for row in rows if row.what.startswith(KERNEL)), default=math.nan)


def beside_three(found: Mapping[str, Along]) -> list[Against]:
    kernels = _kernels(found, published.COSINES_3)
    models = [
        Against(
            what="cosine, whole model", rule=rule, paper=number, ours=float(words.mean(found[rule].model)),
            spread=float(words.std(found[rule].model)),
        )
        for rule, number in published.COSINES_MODEL.items()
        if rule in found
    ]  # fmt: skip
    return kernels + models


def beside_five(found: Mapping[str, Along], last: int) -> list[Against]:
    """The authors' numbers are those at the end of training."""
    ends = {rule: between(a, a.steps[-1] - last, a.steps[-1]) for rule, a in found.items()}
    return _kernels(ends, published.COSINES_5, f"{KERNEL} at the end")


def _kernels(found: Mapping[str, Along], paper: Kernels, what: str = KERNEL) -> list[Against]:
    rows = []
    for rule, given in paper.items():
        if rule not in found or found[rule].cosine.shape[2] != len(given):
            continue
        names = align.layer_names({rule: found[rule]})
        for name, number, values in zip(names, given, np.moveaxis(align.kernels(found[rule]), 2, 0), strict=True):
            ours, around = float(words.mean(values)), float(words.std(values))
            rows.append(Against(what=f"{what}, {name}", rule=rule, paper=number, ours=ours, spread=around))
    return rows
