"""`otpe.align`: compare the rules' gradients with BPTT's while a network is trained by BPTT."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from otpe import neurons
from otpe.lab.report import sections, words
from otpe.lab.report.content import Figure, Section, Table
from otpe.lab.report.palette import shown
from otpe.lab.report.panels import Bar, Bars, Lines
from otpe.lab.runs import check_settings, task
from otpe.lab.runs.compare import with_custom_parts
from otpe.lab.runs.custom import NONE, CustomParts
from otpe.lab.runs.results import Result
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import Run, prepared
from otpe.lab.settings import AlignConfig, TrainConfig
from otpe.lab.studies import study
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule

PARTS = ("kernel", "bias")
NEURONS = {name for kind in neurons.NAMED.values() for name in getattr(kind, "LEAKS", ())}  # parameters of neurons


class Along(NamedTuple):
    """A rule's gradient compared with BPTT's at K evaluations of a run of S networks with L layers.

    A cosine is NaN if one of the two gradients is zero. Numbers of layers are also NaN for a layer without such a part.
    """

    steps: np.ndarray  # [K] mini-batches before the evaluation
    cosine: np.ndarray  # [K, S, L, 2] of kernels and biases
    model: np.ndarray  # [K, S] cosine over all parameters at once
    size: np.ndarray  # [K, S, L, 2] ratio of norms, of kernels and biases
    model_size: np.ndarray  # [K, S] ratio of norms over all parameters at once


Alignments = Mapping[str, Along]  # by rule


def align(
    config: AlignConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
) -> dict[str, Along]:
    """Train by BPTT, and return the alignment of every rule at every evaluation.

    `data`, `rules`, `net` and `loss` are as in `otpe.compare`.
    """
    check_settings.check_kind(config, AlignConfig)
    config, own = with_custom_parts(task.with_own_name(config, data), data, rules, net, loss)
    result = prepared_align(config, own)()
    write_section(config, result)
    return along(result.metrics, config.rules)


def prepared_align(config: AlignConfig, own: CustomParts = NONE) -> Run:
    """Return a run by BPTT that compares the gradients of the rules with BPTT's at every evaluation."""
    if not config.rules:
        raise ValueError("rules is empty, expected at least one to compare with BPTT, such as ('otpe', 'ostl').")
    run = study.settings_as(TrainConfig, config, rule="bptt", mode="offline", align=tuple(config.rules))
    return prepared(run, own, kind="align")


def along(metrics: Sequence[dict[str, Any]], rules: Sequence[str] | None = None) -> dict[str, Along]:
    """Return the alignment of these rules, or of all, from the lines of metrics.jsonl."""
    lines = [line for line in metrics if "alignment" in line]
    if not lines:
        raise ValueError("no line of these metrics has an alignment. Train with align, such as align=('otpe', 'ostl').")
    steps = np.array([line["step"] for line in lines])
    chosen = lines[0]["alignment"] if rules is None else rules
    return {name: _along(steps, [line["alignment"][name] for line in lines]) for name in chosen}


def _along(steps: np.ndarray, records: Sequence[dict[str, Any]]) -> Along:
    def layers(what: str) -> np.ndarray:
        missing = [None] * len(records[0][what]["model"])
        each = [[[_part(layer, part, missing) for part in PARTS] for layer in line[what]["layers"]] for line in records]
        return np.moveaxis(np.array(each, float), -1, 1)  # null becomes NaN

    def model(what: str) -> np.ndarray:
        return np.array([line[what]["model"] for line in records], float)

    return Along(steps, layers("cosine"), model("cosine"), layers("size"), model("size"))


def _part(layer: dict[str, list[float | None]], part: str, missing: list[None]) -> Sequence[float | None]:
    """Return the numbers of a layer's kernel or bias. The single parameter of a user's map counts as its kernel."""
    others = [name for name in layer if name not in (*PARTS, *NEURONS)]
    if part == "kernel" and part not in layer and len(others) == 1:
        return layer[others[0]]
    return layer.get(part, missing)


# --------------------
# The section of a report. It shows the output layer first, as the paper does.


def write_section(config: AlignConfig, result: Result) -> Section:
    """Write the section of this run to its folder, and return it."""
    found = along(result.metrics, config.rules)
    first = ", ".join(f"{shown(rule)} {float(words.mean(each.cosine[:, :, 0, 0])):.2f}" for rule, each in found.items())
    section = Section(
        name="align",
        title=f"Gradient cosines, {config.data_name}",
        lead=f"Mean cosine to BPTT's gradient in the first hidden layer: {first}. At BPTT's weights and on the next"
        f" mini-batch, along {config.steps:,} mini-batches of training by BPTT; {networks(found)}.",
        figures=figures(found, f"{config.data_name}."),
        tables=[table(found)],
        remarks=missing(found),
    )
    return study.write_section(section, "align", config, result.seconds, result.folder)


def flat(values: np.ndarray) -> np.ndarray:
    """Numbers per layer [K, S, L] as a row for each evaluation and network [K · S, L], output layer first."""
    return values[:, :, ::-1].reshape(-1, values.shape[2])


def kernels(found: Along) -> np.ndarray:
    """The kernel cosines [K · S, L] of all evaluations and networks, output layer first."""
    return flat(found.cosine[..., 0])


def layer_names(found: Alignments) -> list[str]:
    """The paper's names of the layers, output layer first."""
    depth = next(iter(found.values())).cosine.shape[2]
    return ["O", *(f"H{i}" for i in range(depth - 1, 0, -1))]


def networks(found: Alignments) -> str:
    """Return text such as "mean ± σ of 12 networks"."""
    return sections.networks(next((each.model.shape[1] for each in found.values()), 0))


def figures(found: Alignments, data: str) -> list[Figure]:
    """Figures per layer, over the whole model, and along training. Each caption ends with the name of the data."""
    names, ratio, whose = layer_names(found), "|g| / |BPTT|", networks(found)

    def bars(title: str, y: str, values: Callable[[Along], np.ndarray], limits: Any = None) -> Bars:
        drawn = {rule: study.mean_and_spread(flat(values(each)).T) for rule, each in found.items()}
        bars = [Bar(name=rule, values=mean, spread=spread) for rule, (mean, spread) in drawn.items()]
        return Bars(title=title, y=y, groups=names, bars=bars, y_range=limits)

    def lines(title: str, y: str, values: Callable[[Along], np.ndarray]) -> Lines:
        lines = [study.mean_line(rule, *words.thinned(each.steps, values(each))) for rule, each in found.items()]
        return Lines(title=title, x="mini-batches", y=y, lines=lines)

    return [
        Figure(
            name="layers",
            caption=f"Cosine to BPTT's gradient per layer, output first; {whose}, and over training. {data}",
            panels=[
                bars("kernels", "cosine", lambda a: a.cosine[..., 0], (-0.2, 1.05)),
                bars("biases", "cosine", lambda a: a.cosine[..., 1], (-0.2, 1.05)),
                bars("kernels, ratio of norms", ratio, lambda a: a.size[..., 0]),
            ],
        ),
        Figure(
            name="model",
            caption=f"Cosine to BPTT's gradient over all parameters at once; {whose}. {data}",
            panels=[
                lines("whole model", "cosine", lambda a: a.model),
                lines("ratio of norms", ratio, lambda a: a.model_size),
            ],
        ),
        Figure(
            name="over-training",
            caption=f"Cosine of the kernels along training, per layer; {whose}. {data}",
            panels=[lines(name, "cosine", lambda a, i=i: a.cosine[:, :, -1 - i, 0]) for i, name in enumerate(names)],
        ),
    ]


def table(found: Alignments) -> Table:
    """The cosines of the kernels and of the whole model."""
    rows = [
        [rule, *map(words.mean_text, [*kernels(each).T, each.model, each.model_size])] for rule, each in found.items()
    ]
    return Table(
        name="cosines",
        caption=f"Cosine to BPTT's gradient: kernels per layer, all parameters; {networks(found)}, and over training.",
        columns=["rule", *layer_names(found), "model", "ratio of norms"],
        rows=rows,
    )


def missing(found: Alignments) -> list[str]:
    """A remark on the cosines that are NaN, or nothing."""
    remarks = []
    for rule, each in found.items():
        counts = np.isnan(each.cosine[..., 0]).sum((0, 1))
        if counts.any():
            names = layer_names(found)[::-1]
            layers = ", ".join(f"{name} {n:,}" for name, n in zip(names, counts, strict=True) if n)
            remarks.append(f"{rule}: some of the {each.model.size:,} kernel cosines per layer are unknown ({layers}).")
    return [f"A zero gradient has no direction. Means leave it out. {' '.join(remarks)}"] if remarks else []
