"""How rules' gradients lie to BPTT's, along BPTT's training: per layer and over the whole model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from otpe.charts.kinds import Against
from otpe.charts.look import shown
from otpe.paper import numbers
from otpe.paper.finished import Finished
from otpe.studies import align, spread
from otpe.studies.align import Along


def section(runs: Sequence[Finished], rules: Sequence[str], where: str, against: Any = None) -> dict[str, Any]:
    """`runs`: BPTT's, one per draw of the manifolds. `against`: from what is found to the comparison with the paper."""
    if not runs:
        return {"lead": "There is no run by BPTT to compare with."}
    found = together([align.along(run.metrics) for run in runs])
    found = {rule: found[rule] for rule in rules if rule in found}
    deepest = {rule: float(spread.mean(a.cosine[:, :, 0, 0])) for rule, a in found.items()}
    best = max(deepest, key=lambda rule: np.nan_to_num(deepest[rule], nan=-2.0))
    return {
        "lead": f"Cosine between each rule's gradient and BPTT's on {where}, at BPTT's weights and on the mini-batch it"
        " learns from next. In the first hidden layer, where rules differ most, the highest mean is"
        f" {deepest[best]:.2f} ({shown(best)}).",
        "figures": align.figures(found, where + "."),
        "tables": [align.table(found)],
        "against": [] if against is None else against(found),
    }


def together(found: Sequence[Mapping[str, Along]]) -> dict[str, Along]:
    """Networks of several runs side by side."""
    all_of = {}
    for rule, first in found[0].items():
        parts = zip(*(each[rule][1:] for each in found), strict=True)
        all_of[rule] = Along(first.steps, *(np.concatenate(part, axis=1) for part in parts))
    return all_of


def beside_three(found: Mapping[str, Along]) -> list[Against]:
    kernels = _kernels(found, numbers.COSINES_3)
    models = [
        Against(
            what="cosine, whole model", rule=rule, paper=number, ours=float(spread.mean(found[rule].model)),
            spread=float(spread.std(found[rule].model)),
        )
        for rule, number in numbers.COSINES_MODEL.items()
        if rule in found
    ]  # fmt: skip
    return kernels + models


def beside_five(found: Mapping[str, Along], last: int) -> list[Against]:
    """The authors' numbers are those at the end of training."""
    ends = {
        rule: Along(a.steps, *(part[a.steps > a.steps[-1] - last] for part in a[1:]))._replace(steps=a.steps[-1:])
        for rule, a in found.items()
    }
    return _kernels(ends, numbers.COSINES_5)


def _kernels(found: Mapping[str, Along], paper: Mapping[str, Sequence[float]]) -> list[Against]:
    rows = []
    for rule, given in paper.items():
        if rule not in found or found[rule].cosine.shape[2] != len(given):
            continue
        names = align.layer_names(len(given))[::-1]
        for name, number, values in zip(
            names, given, np.moveaxis(found[rule].cosine[:, :, ::-1, 0], 2, 0), strict=True
        ):
            ours, around = float(spread.mean(values)), float(spread.std(values))
            rows.append(Against(what=f"kernel cosine, {name}", rule=rule, paper=number, ours=ours, spread=around))
    return rows
