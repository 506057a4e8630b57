"""The runs that the items need: names are unique, sizes are the paper's, and our rules are beside the paper's."""

import re
from pathlib import Path

import pytest

from otpe.lab.paper import plan as plans
from otpe.lab.paper import published
from otpe.lab.paper.items import ITEMS
from otpe.lab.paper.plan import Plan, coarser
from otpe.lab.runs import check_settings
from otpe.lab.settings import PAPER_LEAK, ReproduceConfig, TrainConfig

SCALES = {each.name: each for each in (plans.FULL, plans.FINE, plans.QUICK)}
ASKED = ReproduceConfig(root=Path("digits"), precision="tf32", checkpoint_seconds=7)


@pytest.fixture(params=SCALES)
def plan(request):
    return Plan(SCALES[request.param], ASKED)


@pytest.fixture
def full():
    return Plan(plans.FULL, ASKED)


def test_a_name_means_the_same_run_in_all_items(plan):
    named = {}
    for item in ITEMS.values():
        needed = item.needs(plan)
        assert len({run.name for run in needed}) == len(needed)
        for run in needed:
            assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", run.name), "a valid folder name on every system"
            assert named.setdefault(run.name, run) == run
    configs = [run.config for run in named.values() if not run.search]
    assert len(set(map(repr, configs))) == len(configs), "no run has two names"
    assert not {*named} & {*ITEMS}


def test_every_run_has_valid_settings(plan):
    for name, item in ITEMS.items():
        for run in item.needs(plan):
            check_settings.checked(run.config)
            assert run.config.out is None
            assert (run.config.precision, run.config.checkpoint_seconds) == ("tf32", 7)
            assert (run.config.dataset == "shd") == (run.config.root == Path("digits")) == ("digits" in name)
            assert run.weight > 0


def test_a_search_comes_before_its_final_run_and_has_the_same_rule_and_network(plan):
    for item in ITEMS.values():
        before = {}
        for run in item.needs(plan):
            for name in run.search:
                tried, c = before[name], run.config
                assert (tried.rule, tried.mode, tried.hidden, tried.dataset) == (c.rule, "online", c.hidden, c.dataset)
            assert (run.config.mode == "online") == (bool(run.search) or "-rate-" in run.name)
            before[run.name] = run.config


def test_every_item_has_our_rules_beside_the_papers():
    for each in (plans.FULL, plans.FINE):
        plan = Plan(each, ASKED)
        for name, item in ITEMS.items():
            needed = item.needs(plan)
            rules = {run.config.rule for run in needed} | {rule for run in needed for rule in run.config.align}
            assert not needed or set(plans.OURS) <= rules, name
            assert not needed or {"otpe", "approx-otpe", "ostl", "ottt"} <= rules, name
            if any(run.config.mode == "online" for run in needed):
                assert {"f-otpe", "f-approx-otpe"} <= rules, name
    quick = Plan(plans.QUICK, ASKED)
    for item in ITEMS.values():
        assert not item.needs(quick) or any(
            "deep-otpe" in (run.config.rule, *run.config.align) for run in item.needs(quick)
        )


@pytest.mark.parametrize("dataset", ["r-randman", "t-randman"])
def test_offline_randman_is_as_in_the_paper(full, dataset):
    runs = full.offline(dataset)
    assert len(runs) == 7
    for run in runs:
        c = run.config
        assert (c.dataset, c.mode, c.steps, c.batch) == (dataset, "offline", 20_000, 128)
        assert (c.seeds, c.draws, c.manifolds) == (12, 3, 0), "there are four networks on each draw"
        assert (c.classes, c.dims, c.alpha, c.time_steps, c.standardize) == (10, 3, 1.0, 50, "batch")
        assert c.units in (None, 50)
        assert c.hidden == (128, 128)
        _check_network_and_optimizer(c)
        assert c.snapshots == 200
        assert set(c.align) == (set(plans.OFFLINE) - {"bptt"} if c.rule == "bptt" else set())


def test_offline_digits_are_as_in_the_paper(full):
    for hidden in ((128, 128), (512, 512), (512,) * 4):
        runs = [run for run in full.offline("every digits") if run.config.hidden == hidden]
        assert len(runs) == 7
        for run in runs:
            c = run.config
            assert (c.dataset, c.mode, c.steps, c.seeds, c.batch, c.hidden) == (
                "shd",
                "offline",
                10_000,
                4,
                128,
                hidden,
            )
            assert (c.bins, c.dt, c.pool, c.binary, c.validation) == (None, None, 1, False, "first")
            _check_network_and_optimizer(c)
    assert full.scale.sizes == ((128, 128), (512, 512), (512,) * 4)
    assert {size for size in published.OFFLINE} == {(len(hidden) + 1, hidden[0]) for hidden in full.scale.sizes}
    assert full.scale.last == 1_000


def _check_network_and_optimizer(c: TrainConfig) -> None:
    assert (c.leak, c.threshold, c.reset) == (PAPER_LEAK, 1.0, "subtract")
    assert abs(PAPER_LEAK - 0.95257) < 1e-5
    assert (c.surrogate, c.slope) == ("fast-sigmoid", None)
    assert (c.optimizer, c.learning_rate, c.schedule, c.warmup) == ("adamax", 1e-3, "constant", 0)


def test_the_slope_search_has_the_papers_axes():
    for each, widths in ((plans.FULL, {128, 512}), (plans.FINE, {128, 256, 384, 512})):
        runs = Plan(each, ASKED).slopes()
        assert {run.config.slope for run in runs} == {5, 10, 25, 50}
        assert {run.config.hidden[0] for run in runs} == widths
        assert {len(run.config.hidden) + 1 for run in runs} == {3, 5}
        assert len(runs) == 4 * len(widths) * 2 * 7


def test_fine_has_the_papers_size_online_and_the_same_offline_runs_as_full():
    fine = Plan(plans.FINE, ASKED)
    runs = [run for item in ("online-digits", "online-t-randman") for run in ITEMS[item].needs(fine)]
    assert {run.config.steps for run in runs if run.search} == {10_000, 20_000}
    for rule in plans.ONLINE:
        tried = [run for run in runs if run.config.rule == rule and "digits" in run.name and not run.search]
        assert tuple(run.config.learning_rate for run in tried) == published.RATES
    for name in ("randman_offline", "digits_offline", "sizes", "draws", "randman", "digits", "last", "snapshots"):
        assert getattr(plans.FINE, name) == getattr(plans.FULL, name)


def test_figures_are_of_the_papers_sizes(full):
    assert {run.config.hidden for run in ITEMS["offline-digits"].needs(full)} == {(512, 512)}
    assert {run.config.hidden for run in ITEMS["cosines-digits"].needs(full)} == {(512, 512)}
    assert {run.config.hidden for run in ITEMS["cosines-digits-5"].needs(full)} == {(512,) * 4}
    assert {run.config.hidden for run in ITEMS["online-digits-5"].needs(full)} == {(512,) * 4}
    assert {run.config.manifolds for run in ITEMS["landscape-t-randman"].needs(full)} == {0}
    assert len(ITEMS["table-digits-offline"].needs(full)) == 3 * 7
    assert sum(bool(run.search) for run in ITEMS["table-digits-online"].needs(full)) == 3 * 8


def test_the_plan_says_what_is_coarser_than_in_the_paper(full):
    fine = Plan(plans.FINE, ASKED)
    remarks = {name: coarser(item.needs(full), item.needs(fine)) for name, item in ITEMS.items()}
    assert remarks["online-digits"] == [
        "Coarser than with --fine: training has 1,000 mini-batches instead of 10,000; the search for learning rates has"
        " 300 mini-batches instead of 10,000, 1 network instead of 4, 32 runs instead of 112."
    ]
    assert remarks["slopes-digits"] == [
        "Coarser than with --fine: training has 2,000 mini-batches instead of 10,000, 2 networks instead of 4, 112 runs"
        " instead of 224."
    ]
    assert {name for name, each in remarks.items() if each} == {
        name for name in ITEMS if "online" in name or name in ("slopes-digits", "rates-digits")
    }
