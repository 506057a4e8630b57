"""The runs that items need. Each has one name, however many items need it, so it is trained once."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from otpe.lab.paper.scale import Scale, Training
from otpe.lab.settings import ReproduceConfig, TrainConfig

ONE = {"mini-batches": "mini-batch", "networks": "network", "runs": "run"}


class Planned(NamedTuple):
    name: str
    config: TrainConfig
    search: tuple[str, ...] = ()  # runs of which the one that validated best tells the learning rate

    @property
    def weight(self) -> float:
        """How long it takes, roughly, beside other runs."""
        c = self.config
        sizes = [700 if c.dataset == "shd" else 50, *c.hidden]
        one = 0.03 + sum(n * m for n, m in pairwise(sizes)) / 3e6
        return 8 + c.steps * c.seeds**0.6 * one * (0.012 if c.mode == "offline" else 0.2)


def layers(hidden: tuple[int, ...]) -> tuple[int, int]:
    """As the paper counts: layers with weights, and their width."""
    return len(hidden) + 1, hidden[0]


def size_name(hidden: tuple[int, ...]) -> str:
    return "{}x{}".format(*layers(hidden))


class Plan(NamedTuple):
    scale: Scale
    asked: ReproduceConfig

    def randman_offline(self, dataset: str) -> Iterator[Planned]:
        kind = self.scale.randman_offline
        for rule in kind.rules:
            along = {"align": _others(kind.rules)} if rule == "bptt" else {}
            kept = {"draws": self.scale.draws, "snapshots": self.scale.snapshots}
            more = {**self.scale.randman, "dataset": dataset, **along, **kept}
            yield Planned(f"{dataset}-offline-{rule}", self._config(kind, rule, "offline", more))

    def randman_online(self, dataset: str) -> Iterator[Planned]:
        more = {**self.scale.randman, "dataset": dataset}
        yield from self._searched(dataset, self.scale.randman_search, self.scale.randman_online, more)

    def digits_offline(self, hidden: tuple[int, ...]) -> Iterator[Planned]:
        kind = self.scale.digits_offline
        for rule in kind.rules:
            along = {"align": _others(kind.rules)} if rule == "bptt" else {}
            config = self._config(kind, rule, "offline", {**self._digits(hidden), **along})
            yield Planned(f"digits-{size_name(hidden)}-offline-{rule}", config)

    def digits_online(self, hidden: tuple[int, ...]) -> Iterator[Planned]:
        scale, name = self.scale, f"digits-{size_name(hidden)}"
        yield from self._searched(name, scale.digits_search, scale.digits_online, self._digits(hidden))

    def digits_rates(self, hidden: tuple[int, ...]) -> Iterator[Planned]:
        yield from self._search(f"digits-{size_name(hidden)}", self.scale.digits_search, self._digits(hidden))

    def digits_slopes(self) -> Iterator[Planned]:
        kind = self.scale.slope_search
        for depth in self.scale.layers:
            for width in self.scale.widths:
                for slope in self.scale.slopes:
                    for rule in kind.rules:
                        hidden = (width,) * (depth - 1)
                        config = self._config(kind, rule, "offline", {**self._digits(hidden), "slope": float(slope)})
                        yield Planned(f"digits-{size_name(hidden)}-slope-{slope}-{rule}", config)

    def _search(self, name: str, kind: Training, more: dict[str, Any]) -> Iterator[Planned]:
        for rule in kind.rules:
            for rate in kind.rates:
                config = self._config(kind, rule, "online", {**more, "learning_rate": rate})
                yield Planned(f"{name}-rate-{rate:g}-{rule}", config)

    def _searched(self, name: str, search: Training, final: Training, more: dict[str, Any]) -> Iterator[Planned]:
        tried = list(self._search(name, search, more))
        yield from tried
        for rule in final.rules:
            candidates = tuple(run.name for run in tried if run.config.rule == rule)
            yield Planned(f"{name}-online-{rule}", self._config(final, rule, "online", more), candidates)

    def _digits(self, hidden: tuple[int, ...]) -> dict[str, Any]:
        return {"dataset": "shd", "root": self.asked.root, **self.scale.digits, "hidden": hidden}

    def _config(self, kind: Training, rule: str, mode: Any, more: dict[str, Any]) -> TrainConfig:
        given = {
            "rule": rule, "mode": mode, "steps": kind.steps, "seeds": kind.seeds, "eval_every": kind.eval_every,
            "learning_rate": kind.rates[0], "precision": self.asked.precision, "keep": 1,
            "checkpoint_seconds": self.asked.checkpoint_seconds,
        }  # fmt: skip
        return TrainConfig(**{**given, **more})


def coarser(runs: Sequence[Planned], fine: Sequence[Planned]) -> list[str]:
    """What there is less of than with --fine, in a sentence."""
    said = []
    for what, searching in (("training", False), ("the search for learning rates", True)):
        mine, theirs = [
            _amounts([run.config for run in each if (run.config.mode == "online" and not run.search) == searching])
            for each in (runs, fine)
        ]
        less = [
            f"{n:,} {name if n != 1 else ONE[name]} instead of {theirs[name]:,}"
            for name, n in mine.items()
            if n < theirs.get(name, 0)
        ]
        said += [f"{what} has {', '.join(less)}"] if less else []
    return [f"Coarser than with --fine: {'; '.join(said)}."] if said else []


def _amounts(configs: Sequence[TrainConfig]) -> dict[str, int]:
    if not configs:
        return {}
    steps, seeds = max(c.steps for c in configs), max(c.seeds for c in configs)
    return dict(zip(ONE, (steps, seeds, len(configs)), strict=True))


def _others(rules: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(rule for rule in rules if rule != "bptt")
