"""How large everything is."""

from dataclasses import dataclass, field, replace
from typing import Any

from otpe.lab.paper import published

OURS = ("deep-otpe", "approx-deep-otpe")
OFFLINE = ("bptt", "otpe", "approx-otpe", "ostl", "ottt", *OURS)
ONLINE = ("otpe", "approx-otpe", "f-otpe", "f-approx-otpe", "ostl", "ottt", *OURS)


@dataclass(frozen=True, kw_only=True)
class Training:
    """Runs of one kind."""

    rules: tuple[str, ...]
    steps: int
    seeds: int
    eval_every: int
    rates: tuple[float, ...] = (1e-3,)  # more than one are searched
    more: dict[str, Any] = field(default_factory=dict)  # settings of TrainConfig


@dataclass(frozen=True, kw_only=True)
class Scale:
    name: str
    draws: int  # of the manifolds, offline
    randman: dict[str, Any]  # settings of TrainConfig for everything on Randman
    digits: dict[str, Any]  # and on spoken digits
    sizes: tuple[tuple[int, ...], ...]  # hidden layers in the table
    randman_offline: Training
    randman_online: Training
    randman_search: Training
    digits_offline: Training
    digits_online: Training
    digits_search: Training
    slopes: tuple[int, ...]
    widths: tuple[int, ...]
    layers: tuple[int, ...]
    slope_search: Training
    snapshots: int
    grid: int
    last: int  # mini-batches at the end over which accuracies are averaged


FULL = Scale(
    name="full",
    draws=3,
    randman={"hidden": (128, 128)},
    digits={},
    sizes=((128, 128), (512, 512), (512, 512, 512, 512)),
    randman_offline=Training(rules=OFFLINE, steps=20_000, seeds=12, eval_every=100),
    randman_online=Training(rules=ONLINE, steps=3_000, seeds=4, eval_every=50),
    randman_search=Training(rules=ONLINE, steps=500, seeds=2, eval_every=50, rates=(1e-3, 4e-4, 1e-4)),
    digits_offline=Training(rules=OFFLINE, steps=10_000, seeds=4, eval_every=20),
    digits_online=Training(rules=ONLINE, steps=1_000, seeds=4, eval_every=50),
    digits_search=Training(rules=ONLINE, steps=300, seeds=1, eval_every=50, rates=(1e-3, 4e-4, 1e-4, 2.5e-5)),
    slopes=published.SLOPES,
    widths=(128, 512),
    layers=published.LAYERS,
    slope_search=Training(rules=OFFLINE, steps=2_000, seeds=2, eval_every=100),
    snapshots=200,
    grid=41,
    last=1_000,
)
FINE = replace(
    FULL,
    name="fine",
    randman_online=replace(FULL.randman_online, steps=20_000, eval_every=100),
    randman_search=replace(FULL.randman_search, steps=3_000, seeds=4, rates=published.RATES),
    digits_online=replace(FULL.digits_online, steps=10_000),
    digits_search=replace(FULL.digits_search, steps=10_000, seeds=4, rates=published.RATES),
    widths=published.WIDTHS,
    slope_search=replace(FULL.slope_search, steps=10_000, seeds=4),
)
# Few rules, and as many networks in searches as elsewhere: what takes time here is compiling.
SOME, SOME_ONLINE = ("bptt", "otpe", "ostl", "deep-otpe"), ("otpe", "ostl", "deep-otpe")
QUICK = Scale(
    name="quick",
    draws=1,
    randman={
        "classes": 5, "units": 40, "dims": 2, "alpha": 2.0, "hidden": (32, 32), "batch": 32, "time_steps": 30,
        "valid_samples": 256, "test_samples": 512,
    },
    digits={"pool": 10, "bins": 20, "batch": 64},
    sizes=((32, 32), (32, 32, 32, 32)),
    randman_offline=Training(rules=SOME, steps=300, seeds=2, eval_every=25, rates=(5e-3,)),
    randman_online=Training(rules=SOME_ONLINE, steps=60, seeds=2, eval_every=10),
    randman_search=Training(rules=SOME_ONLINE, steps=20, seeds=2, eval_every=10, rates=(3e-3, 1e-3)),
    digits_offline=Training(rules=SOME, steps=500, seeds=2, eval_every=25, rates=(5e-3,)),
    digits_online=Training(rules=SOME_ONLINE, steps=30, seeds=2, eval_every=10),
    digits_search=Training(rules=SOME_ONLINE, steps=10, seeds=2, eval_every=10, rates=(3e-3, 1e-3)),
    slopes=(5, 25),
    widths=(32,),
    layers=(3,),
    slope_search=Training(rules=("bptt", "otpe", "deep-otpe"), steps=200, seeds=2, eval_every=25, rates=(5e-3,)),
    snapshots=50,
    grid=15,
    last=75,
)  # fmt: skip
