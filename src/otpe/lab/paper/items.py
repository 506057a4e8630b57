"""The loss around BPTT's training, and where every rule went."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otpe import files
from otpe.lab.bench import bench
from otpe.lab.paper import accuracy_tables, cosines, published
from otpe.lab.paper.finished import Finished
from otpe.lab.paper.plan import Plan, Planned
from otpe.lab.runs import build_network, saved_weights
from otpe.lab.runs.task import Splits
from otpe.lab.settings import TrainConfig
from otpe.lab.studies import landscapes

LANDSCAPE_SAMPLES = 1024


def landscape_section(
    runs: Mapping[str, Finished | None], config: TrainConfig, splits: Splits, grid: int, out: Path, name: str
) -> dict[str, Any]:
    """From the weights that the runs kept; all arrays go to landscape.npz."""
    if not runs.get(landscapes.REFERENCE):
        return {"lead": "There is no run by BPTT, whose plane it is."}
    net = build_network.network(config, splits.train.units, len(splits.train.names))
    batch = landscapes.validation(config, splits, LANDSCAPE_SAMPLES)
    try:
        kept = {rule: saved_weights.read_snapshot(run.path, net) for rule, run in runs.items() if run}
        seen = landscapes.measure(net, kept, batch, grid=grid, precision=config.precision, backend=config.backend)
    except (landscapes.NoPlaneError, FileNotFoundError) as error:
        return {"lead": f"There is no plane to look at: {error}"}
    files.write_atomically(out / "landscape.npz", landscapes.npz(seen))
    told = landscapes.section(seen, title=f"Loss landscape of {name}")
    return {part: getattr(told, part) for part in ("lead", "figures", "tables", "remarks")}


# --------------------
# The items: one per figure and table of the paper.


NAMES = accuracy_tables.NAMES


@dataclass(frozen=True)
class Material:
    """All that an item is made from."""

    plan: Plan
    runs: Mapping[str, Finished]  # by name; those that diverged are not there
    folder: Path  # of the item
    data: str  # what the spoken digits are
    splits: Callable[[TrainConfig], Splits]

    def by_rule(self, planned: Iterable[Planned]) -> dict[str, list[Finished]]:
        """The finished ones of these runs; an empty list for a rule that has none."""
        found: dict[str, list[Finished]] = {}
        for run in planned:
            each = found.setdefault(run.config.rule, [])
            if run.name in self.runs:
                each.append(self.runs[run.name])
        return found

    def one_by_rule(self, planned: Iterable[Planned]) -> dict[str, Finished | None]:
        return {rule: each[0] if each else None for rule, each in self.by_rule(planned).items()}


@dataclass(frozen=True)
class Item:
    title: str
    where: str  # in the paper
    needs: Callable[[Plan], list[Planned]]
    tell: Callable[[Material], dict[str, Any]]  # the parts of its section
    digits: bool = False  # needs recordings


def _offline_randman(dataset: str, where: str) -> Item:
    def tell(m: Material) -> dict[str, Any]:
        return accuracy_tables.offline_randman(
            m.one_by_rule(m.plan.randman_offline(dataset)), m.plan.scale.last, dataset
        )

    title = f"Offline training on {NAMES[dataset]}"
    return Item(title, where, lambda plan: list(plan.randman_offline(dataset)), tell)


def _cosines_randman(dataset: str, where: str) -> Item:
    def needs(plan: Plan) -> list[Planned]:
        return [run for run in plan.randman_offline(dataset) if run.config.rule == "bptt"]

    def tell(m: Material) -> dict[str, Any]:
        run = m.one_by_rule(needs(m.plan))["bptt"]
        return cosines.section(run, _aligned(needs(m.plan)), NAMES[dataset])

    return Item(f"Gradient cosines on {NAMES[dataset]}", where, needs, tell)


def _landscape(dataset: str, where: str) -> Item:
    def needs(plan: Plan) -> list[Planned]:
        return list(plan.randman_offline(dataset))

    def tell(m: Material) -> dict[str, Any]:
        planned = needs(m.plan)
        config, runs = planned[0].config, m.one_by_rule(planned)
        return landscape_section(runs, config, m.splits(config), m.plan.scale.grid, m.folder, NAMES[dataset])

    return Item(f"Loss landscape of {NAMES[dataset]}", where, needs, tell)


def _online_randman(dataset: str, where: str) -> Item:
    def tell(m: Material) -> dict[str, Any]:
        return _tell_online(m, list(m.plan.randman_online(dataset)), NAMES[dataset])

    title = f"Online training on {NAMES[dataset]}"
    return Item(title, where, lambda plan: list(plan.randman_online(dataset)), tell)


def _tell_online(m: Material, planned: list[Planned], data: str) -> dict[str, Any]:
    final, tried = [run for run in planned if run.search], [run for run in planned if not run.search]
    return accuracy_tables.online_section(m.one_by_rule(final), m.by_rule(tried), m.plan.scale.last, data)


def _middle(plan: Plan) -> tuple[int, ...]:
    """The size that figures are of: 3 layers of 512 in the paper."""
    return max((hidden for hidden in plan.scale.sizes if len(hidden) == 2), key=lambda hidden: hidden[0])


def _deepest(plan: Plan) -> tuple[int, ...]:
    return max(plan.scale.sizes, key=len)


def _offline_digits() -> Item:
    def needs(plan: Plan) -> list[Planned]:
        return list(plan.digits_offline(_middle(plan)))

    def tell(m: Material) -> dict[str, Any]:
        return accuracy_tables.offline_digits(m.one_by_rule(needs(m.plan)), m.plan.scale.last, m.data)

    return Item("Offline training on spoken digits", "Figures 2 c and 9 c", needs, tell, digits=True)


def _cosines_digits(size: Callable[[Plan], tuple[int, ...]], title: str, where: str, five: bool) -> Item:
    def needs(plan: Plan) -> list[Planned]:
        return [run for run in plan.digits_offline(size(plan)) if run.config.rule == "bptt"]

    def tell(m: Material) -> dict[str, Any]:
        def against(found: Any) -> Any:
            return cosines.beside_five(found, m.plan.scale.last) if five else cosines.beside_three(found)

        paper = None if m.plan.scale.name == "quick" else published.COSINES_5 if five else published.COSINES_3
        return cosines.section(m.one_by_rule(needs(m.plan))["bptt"], _aligned(needs(m.plan)), m.data, against, paper)

    return Item(title, where, needs, tell, digits=True)


def _aligned(planned: list[Planned]) -> tuple[str, ...]:
    return planned[0].config.align


def _online_digits(size: Callable[[Plan], tuple[int, ...]], title: str, where: str) -> Item:
    def needs(plan: Plan) -> list[Planned]:
        return list(plan.digits_online(size(plan)))

    return Item(title, where, needs, lambda m: _tell_online(m, needs(m.plan), m.data), digits=True)


def _table(mode: str) -> Item:
    def runs(plan: Plan, hidden: tuple[int, ...]) -> list[Planned]:
        return list(plan.digits_offline(hidden) if mode == "offline" else plan.digits_online(hidden))

    def needs(plan: Plan) -> list[Planned]:
        return [run for hidden in plan.scale.sizes for run in runs(plan, hidden)]

    def tell(m: Material) -> dict[str, Any]:
        final = {
            hidden: [run for run in runs(m.plan, hidden) if run.search or mode == "offline"]
            for hidden in m.plan.scale.sizes
        }
        return accuracy_tables.digits_table(
            {hidden: m.one_by_rule(each) for hidden, each in final.items()}, mode, m.data
        )

    return Item(f"Test accuracy on spoken digits, {mode}", f"Table 2, {mode}", needs, tell, digits=True)


def _rates() -> Item:
    def needs(plan: Plan) -> list[Planned]:
        return [run for hidden in plan.scale.sizes for run in plan.digits_rates(hidden)]

    def tell(m: Material) -> dict[str, Any]:
        search = {hidden: m.by_rule(m.plan.digits_rates(hidden)) for hidden in m.plan.scale.sizes}
        return accuracy_tables.digits_rates(search, m.plan.scale.last, m.data)

    return Item("Search for learning rates", "Figure 8", needs, tell, digits=True)


def _slopes() -> Item:
    def needs(plan: Plan) -> list[Planned]:
        return list(plan.digits_slopes())

    def tell(m: Material) -> dict[str, Any]:
        found: dict[str, dict[tuple[int, int, int], Finished]] = {}
        for run in needs(m.plan):
            each, c = found.setdefault(run.config.rule, {}), run.config
            if run.name in m.runs:
                each[len(c.hidden) + 1, c.hidden[0], round(c.slope or 0)] = m.runs[run.name]
        return accuracy_tables.digits_slopes(found, m.data)

    return Item("Search over slope, width and layers", "Figure 7", needs, tell, digits=True)


def _complexity() -> Item:
    def tell(m: Material) -> dict[str, Any]:
        found = bench.study(quick=m.plan.scale.name == "quick", out=m.folder)
        return {name: getattr(found, name) for name in ("lead", "figures", "tables", "remarks", "settings", "seconds")}

    return Item("Time and space of every rule", "Table 1", lambda _: [], tell)


ITEMS = {
    "complexity": _complexity(),
    "offline-r-randman": _offline_randman("r-randman", "Figures 2 a and 9 a"),
    "offline-t-randman": _offline_randman("t-randman", "Figures 2 b and 9 b"),
    "offline-digits": _offline_digits(),
    "cosines-r-randman": _cosines_randman("r-randman", "Figures 3 a and 4 a"),
    "cosines-t-randman": _cosines_randman("t-randman", "Figures 3 b and 4 b"),
    "cosines-digits": _cosines_digits(
        _middle, "Gradient cosines on spoken digits", "Figures 3 c, 4 c and 10", five=False
    ),
    "cosines-digits-5": _cosines_digits(_deepest, "Gradient cosines in 5 layers", "Figure 13", five=True),
    "landscape-r-randman": _landscape("r-randman", "Figure 5 a"),
    "landscape-t-randman": _landscape("t-randman", "Figure 5 b"),
    "online-r-randman": _online_randman("r-randman", "Figures 6 a and 11 a"),
    "online-t-randman": _online_randman("t-randman", "Figures 6 b and 11 b"),
    "online-digits": _online_digits(_middle, "Online training on spoken digits", "Figures 6 c and 11 c"),
    "online-digits-5": _online_digits(_deepest, "Online training of 5 layers", "Figure 12"),
    "table-digits-offline": _table("offline"),
    "table-digits-online": _table("online"),
    "slopes-digits": _slopes(),
    "rates-digits": _rates(),
}
