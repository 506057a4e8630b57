"""`otpe.align`: train by BPTT, and see how other rules' gradients lie to BPTT's along the way."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from otpe.lab.report import words
from otpe.lab.report.content import Bar, Bars, Figure, Line, Lines, Section, Table
from otpe.lab.runs import check_settings, task
from otpe.lab.runs.compare import with_own
from otpe.lab.runs.custom import NONE, Own
from otpe.lab.runs.results import Result
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import Run, prepared
from otpe.lab.settings import AlignConfig, TrainConfig
from otpe.lab.studies import provenance
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule

PARTS = ("kernel", "bias")
NEURONS = ("leak", "current_leak", "adaptation_leak")  # parameters of neurons; metrics.jsonl has their cosines


class Along(NamedTuple):
    """A rule's gradient against BPTT's at K moments of a run of S networks with L layers. NaN: one of them is zero."""

    steps: np.ndarray  # [K] mini-batches until then
    cosine: np.ndarray  # [K, S, L, 2] of kernels and biases; NaN where a layer has none
    model: np.ndarray  # [K, S] over all parameters at once
    size: np.ndarray  # [K, S, L, 2] ratio of norms
    model_size: np.ndarray  # [K, S]


def align(
    config: AlignConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
) -> dict[str, Along]:
    """Train by BPTT as the settings say, and return the alignment of every rule along the way.

    `data`, `rules`, `net` and `loss` as in `otpe.compare`.
    """
    check_settings.check_kind(config, AlignConfig)
    config, own = with_own(task.of_own(config, data), data, rules, net, loss)
    result = prepared_align(config, own)()
    written(config, result)
    return along(result.metrics, config.rules)


def prepared_align(config: AlignConfig, own: Own = NONE) -> Run:
    """A run by BPTT that compares the rules' gradients with its own at every evaluation."""
    shared = {field.name: getattr(config, field.name) for field in fields(TrainConfig) if hasattr(config, field.name)}
    if not config.rules:
        raise ValueError("rules is empty, expected at least one to compare with BPTT, such as ('otpe', 'ostl').")
    return prepared(TrainConfig(**{**shared, "rule": "bptt", "mode": "offline", "align": tuple(config.rules)}), own)


def written(config: AlignConfig, result: Result) -> Section:
    """What a report says about it, put into the run's folder."""
    found = along(result.metrics, config.rules)
    networks = "one network" if config.seeds == 1 else f"mean ± σ over {config.seeds} networks"
    told = Section(
        name="align",
        title=f"Gradient cosines, {config.dataset}",
        lead="Cosine between each rule's gradient and BPTT's, at BPTT's weights and on the mini-batch it learns from"
        f" next, along {config.steps:,} mini-batches of training by BPTT; {networks}.",
        figures=figures(found, f"{config.dataset}."),
        tables=[table(found)],
        remarks=missing(found),
    )
    told = provenance.signed(told, "align", config, result.seconds, result.folder)
    provenance.write_section(result.folder, told)
    return told


def along(metrics: Sequence[dict[str, Any]], rules: Sequence[str] | None = None) -> dict[str, Along]:
    """From the lines of metrics.jsonl; all rules that are there, or these."""
    lines = [line for line in metrics if "alignment" in line]
    if not lines:
        raise ValueError("no line of these metrics has an alignment. Train with align, such as align=('otpe', 'ostl').")
    steps = np.array([line["step"] for line in lines])
    chosen = lines[0]["alignment"] if rules is None else rules
    return {name: _along(steps, [line["alignment"][name] for line in lines]) for name in chosen}


def _along(steps: np.ndarray, found: Sequence[dict[str, Any]]) -> Along:
    def layers(what: str) -> np.ndarray:
        seeds = [None] * len(found[0][what]["model"])
        each = [[[_part(layer, part, seeds) for part in PARTS] for layer in line[what]["layers"]] for line in found]
        return np.moveaxis(np.array(each, float), -1, 1)  # null becomes NaN

    def model(what: str) -> np.ndarray:
        return np.array([line[what]["model"] for line in found], float)

    return Along(steps, layers("cosine"), model("cosine"), layers("size"), model("size"))


def _part(layer: dict[str, list[float | None]], part: str, missing: list[None]) -> Sequence[float | None]:
    """The numbers of a layer's kernel or bias. The only parameter of a map of one's own counts as its kernel."""
    others = [name for name in layer if name not in (*PARTS, *NEURONS)]
    if part == "kernel" and part not in layer and len(others) == 1:
        return layer[others[0]]
    return layer.get(part, missing)


def layer_names(depth: int) -> list[str]:
    """From the first hidden layer to the output, as the paper calls them."""
    return [*(f"H{i + 1}" for i in range(depth - 1)), "O"]


def figures(found: dict[str, Along], where: str) -> list[Figure]:
    """Per layer, over the whole model, and along training; `where` is said in the captions."""
    depth = next(iter(found.values())).cosine.shape[2]
    names = layer_names(depth)[::-1]
    return [
        Figure(
            name="layers",
            caption=f"Cosine to BPTT's gradient per layer, output first; mean ± σ over networks and training. {where}",
            panels=[
                Bars(title="kernels", y="cosine", groups=names, bars=_bars(found, "cosine", 0), y_range=(-0.2, 1.05)),
                Bars(title="biases", y="cosine", groups=names, bars=_bars(found, "cosine", 1), y_range=(-0.2, 1.05)),
                Bars(title="kernels, ratio of norms", y="|g| / |BPTT|", groups=names, bars=_bars(found, "size", 0)),
            ],
        ),
        Figure(
            name="model",
            caption=f"Cosine to BPTT's gradient over all parameters at once; mean ± σ over networks. {where}",
            panels=[
                Lines(title="whole model", x="mini-batches", y="cosine", lines=_lines(found, lambda a: a.model)),
                Lines(
                    title="ratio of norms", x="mini-batches", y="|g| / |BPTT|",
                    lines=_lines(found, lambda a: a.model_size),
                ),
            ],
        ),
        Figure(
            name="over-training",
            caption=f"Cosine of the kernels along training, per layer; mean ± σ over networks. {where}",
            panels=[
                Lines(
                    title=name, x="mini-batches", y="cosine",
                    lines=_lines(found, lambda a, i=depth - 1 - i: a.cosine[:, :, i, 0]),
                )
                for i, name in enumerate(names)
            ],
        ),
    ]  # fmt: skip


def table(found: dict[str, Along]) -> Table:
    """Kernel cosines, and those of the whole model."""
    depth = next(iter(found.values())).cosine.shape[2]
    rows = []
    for rule, a in found.items():
        cells = [words.mean_text(a.cosine[:, :, i, 0]) for i in reversed(range(depth))]
        rows.append([rule, *cells, words.mean_text(a.model), words.mean_text(a.model_size)])
    return Table(
        name="cosines",
        caption="Cosine to BPTT's gradient: kernels per layer, all parameters; mean ± σ over networks and training.",
        columns=["rule", *layer_names(depth)[::-1], "model", "ratio of norms"],
        rows=rows,
    )


def missing(found: dict[str, Along]) -> list[str]:
    """What means leave out, in words."""
    said, depth = [], next(iter(found.values())).cosine.shape[2]
    for rule, a in found.items():
        absent = np.isnan(a.cosine[..., 0]).sum((0, 1))
        if absent.any():
            layers = ", ".join(f"{name} {n:,}" for name, n in zip(layer_names(depth), absent, strict=True) if n)
            said.append(f"{rule}: of {a.model.size:,} kernel cosines of each layer some are not known ({layers}).")
    return [f"A gradient of zeros has no direction, and means leave it out. {' '.join(said)}"] if said else []


def _bars(found: dict[str, Along], what: str, part: int) -> list[Bar]:
    bars = []
    for rule, a in found.items():
        values = getattr(a, what)[:, :, ::-1, part].reshape(-1, a.cosine.shape[2])
        bars.append(Bar(name=rule, values=words.mean(values, 0).tolist(), spread=words.std(values, 0).tolist()))
    return bars


def _lines(found: dict[str, Along], of: Any) -> list[Line]:
    lines = []
    for rule, a in found.items():
        steps, values = words.thinned(a.steps, of(a))
        middle, around = words.mean(values, 1), words.std(values, 1)
        lines.append(Line(name=rule, x=steps.tolist(), y=middle.tolist(), spread=around.tolist()))
    return lines
