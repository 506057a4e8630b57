"""Do the settings of a stream make sense, and which learner do they ask for?"""

from dataclasses import fields
from pathlib import Path
from typing import Any

from otpe import check
from otpe.lab.runs import build_network, check_settings, saved_weights
from otpe.lab.runs import custom as owned
from otpe.lab.settings import StreamConfig, TrainConfig
from otpe.networks import Network
from otpe.rulebook import rule as named_rule
from otpe.stream.learner import StreamLearner
from otpe.stream.sources import EVENTS, source_kind
from otpe.training.optimizer import Optimizer

SLOPE = 10.0  # of the fast sigmoid. The paper's 25 learns worse where every step makes an update
WORDS = {
    "randman": "t-randman and r-randman",
    "recordings": "recordings",
    "text": "files of events",
    "standard input": "standard input",
}
MOST, WINDOW = 2**31 - 1, 1_000_000  # of any number; of the window, which every checkpoint holds
USED_BY = {
    **dict.fromkeys(("manifolds", "dims", "alpha", "time_steps"), ("randman",)),
    **dict.fromkeys(("bins", "shuffle", "epochs"), ("recordings",)),
    **dict.fromkeys(("form", "labels", "max_gap", "gap"), EVENTS),
    **dict.fromkeys(("dt", "binary", "pool", "on_bad"), ("recordings", *EVENTS)),
    "changes": ("randman", "recordings"),
}
NETWORK = tuple(name for name in build_network.NETWORK if not name.startswith("conv"))
LOSS = ("loss", "rate", "rate_weight")


def checked(config: StreamConfig) -> None:
    """Do the settings make sense, and do they go together? Those of the network are asked when it is made."""
    check_settings.check_choices(config)
    which = source_kind(config)
    for field in fields(config):
        value, users = getattr(config, field.name), USED_BY.get(field.name, WORDS)
        if value != field.default and which not in users:
            listed = " and ".join(WORDS[user] for user in users)
            raise ValueError(f"{field.name} is {value!r}, which is of no use for {WORDS[which]}: it is for {listed}.")
    for name in ("units", "classes", "steps", "block"):
        value = getattr(config, name)
        if value is not None:
            check.count(name, value, MOST if name != "steps" else 2**63 - 1)
        elif name in ("units", "classes") and which != "randman":
            raise ValueError(
                f"{name} is not given, and {config.source} does not tell. Say how many there are: --{name}."
            )
    for name in ("checkpoint_seconds", "metrics_seconds"):
        check.number(name, getattr(config, name), "seconds, or 0 for every block", lambda x: x >= 0)
    check.count("window", config.window, WINDOW)
    check.whole("seed", config.seed, 2**32)
    check.whole("epochs", config.epochs, 2**31)
    named_rule(config.rule)
    shared = _as_train(config)
    Optimizer(config.optimizer, config.learning_rate)
    check_settings.check_loss(shared)


def learner(config: StreamConfig, width: int, classes: int) -> StreamLearner:
    """Before its first step."""
    net, params = _network(config, width, classes)
    return StreamLearner(
        net,
        config.rule,
        Optimizer(config.optimizer, config.learning_rate),
        config.seed,
        params=params,
        loss=owned.NONE.loss_of(config),
        every=config.every,
        delay=config.delay,
        score_leak=1.0 if config.score_leak is None and source_kind(config) not in EVENTS else config.score_leak,
        decay=config.decay,
        limit=config.limit,
    )


def _network(config: StreamConfig, width: int, classes: int) -> tuple[Network, Any]:
    """The network, and weights where there are any."""
    if config.start is None:
        return build_network.network(_as_train(config), width, classes), None
    for name in NETWORK:
        if getattr(config, name) != getattr(StreamConfig, name):
            raise ValueError(
                f"{name} is {getattr(config, name)!r}, but the network is that of start, {config.start}. Leave {name}"
                " out, or start."
            )
    net, params = saved_weights.read_start(Path(config.start))
    inputs = net.layers[0].in_shape
    if inputs != (width,) or net.classes < classes:
        raise ValueError(
            f"start is {str(config.start)!r}, whose network takes {list(inputs)} inputs and has {net.classes} outputs,"
            f" but the stream has {width} and {classes} classes."
        )
    return net, params[0]


def _as_train(config: StreamConfig) -> TrainConfig:
    """What both verbs have, for what both ask of it."""
    shared = {name: getattr(config, name) for name in (*NETWORK, *LOSS, "optimizer", "learning_rate")}
    if config.slope is None and config.surrogate == "fast-sigmoid":
        shared["slope"] = SLOPE
    return TrainConfig(**shared)
