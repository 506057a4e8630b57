"""`otpe.train`: settings are checked, the folder is opened, and the run begins."""

import math
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax

from otpe import check, files
from otpe.datasets.contract import shape_of
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.runs import board, checkpoint, folder, loop, settings, size, task
from otpe.runs.config import TrainConfig
from otpe.runs.folder import Folder
from otpe.runs.loop import Networks, Recipe, State, View
from otpe.runs.optimizers import optimizer as named_optimizer
from otpe.runs.result import Result
from otpe.runs.run import Run
from otpe.runs.task import Exam, Splits
from otpe.training.optimizer import ByValue


def train(
    config: TrainConfig,
    *,
    data: Splits | None = None,
    rule: Rule | None = None,
    net: Network | None = None,
    optimizer: optax.GradientTransformation | None = None,
) -> Result:
    """Train as the settings say, and return what came out; everything about the run is in its folder.

    A run that was stopped or killed goes on with `resume=True` in the same folder, bit for bit as if it never had been.

    Args:
      data: your own datasets; `config.dataset` then is what you call them.
      rule: a composition of your own, in place of the one that `config.rule` names.
      net: a network of your own, in place of dense layers.
      optimizer: any optax optimizer, in place of the one that `config.optimizer` names.

    Raises:
      ValueError, TypeError, OSError: bad input, with a sentence that says what to do; nothing was trained.
      FloatingPointError: weights or loss are not finite any more.
      KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP came; the state was saved before.
    """
    settings.check_kind(config, TrainConfig)
    return prepared(task.of_own(config, data), data=data, rule=rule, net=net, optimizer=optimizer)()


def prepared(
    config: TrainConfig,
    *,
    data: Splits | None = None,
    rule: Rule | None = None,
    net: Network | None = None,
    optimizer: optax.GradientTransformation | None = None,
) -> Run:
    """Check everything, and make or open the folder. All bad input is told here."""
    chosen = settings.checked(config, rule, own_data=data is not None)
    config = settings.plain(config)
    if config.tensorboard:
        board.check_installed()
    splits = _splits(config, chosen, data, net, optimizer)
    network = settings.network(config, splits.train.units, len(splits.train.names)) if net is None else net
    check_fit(network, splits)
    exam = task.exam(splits.valid, task.VALID, config.valid_samples, config.batch)
    recipe = _recipe(config, chosen, network, optimizer, exam)
    networks = _networks(config, splits)
    start = partial(loop.start, recipe, networks.seed)
    own = {"rule": rule, "net": net, "optimizer": optimizer}
    given = {f"own_{name}": _describe(value) for name, value in own.items() if value is not None}
    data_is = task.fingerprint(splits, config.seed, config.batch)
    mine = {**folder.identity(config), "data": data_is, **given}
    opened = folder.opened(config, [config.dataset, chosen.name, config.mode], mine)
    try:
        files.folder(opened.checkpoints)
        for beside in (opened.checkpoints, opened.path / "snapshots"):
            files.clean(beside)
        found = opened.read_result()
        state, seconds = _begin(opened, start, mine, finished=found is not None)
    except BaseException:
        opened.close()
        raise
    return Run(config, recipe, splits, networks, opened, mine, state, found, seconds)


def _splits(
    config: TrainConfig,
    rule: Rule,
    data: Splits | None,
    net: Network | None,
    optimizer: optax.GradientTransformation | None,
) -> Splits:
    """The data, if it fits together, and if the run fits into memory, which is asked before the data is made too."""
    if data is None:
        check_size(config, rule, size.expected(config), net, optimizer)
    splits = task.named(config) if data is None else task.given(data)
    task.check_shapes(splits, config.batch)
    check_size(config, rule, size.found(splits), net, optimizer)
    return task.flattened(splits) if net is None else splits


def check_size(
    config: TrainConfig,
    rule: Rule,
    shape: size.Shape,
    net: Network | None = None,
    optimizer: optax.GradientTransformation | None = None,
) -> None:
    """Refuse what cannot fit into memory. A finished run is only read, perhaps on a smaller machine."""
    if config.resume and config.out is not None and os.path.exists(Path(config.out) / "result.json"):
        return
    net = settings.network(config, shape.units, shape.classes) if net is None else net
    check.network(net)
    optimizer = named_optimizer(config)[0] if optimizer is None else optimizer
    check.optimizer(optimizer)
    size.check(config, rule, net, ByValue(optimizer), shape)


def _networks(config: TrainConfig, splits: Splits) -> Networks:
    number = jnp.arange(config.seeds, dtype=jnp.uint32)
    if config.draws == 1:
        return Networks(config.seed + number)
    if not all(hasattr(dataset, "on") for dataset in splits):
        raise ValueError(f"draws is {config.draws}, but this data has no draws of manifolds. Leave draws out.")
    return Networks(config.seed + number, number // (config.seeds // config.draws))


def _begin(opened: Folder, start: Callable[[], State], mine: dict[str, Any], finished: bool) -> tuple[State, float]:
    """Where the run is: at its newest checkpoint, or at the start."""
    path = checkpoint.newest(opened.checkpoints, last=mine["steps"])
    if finished and (path is None or path.name != checkpoint.name(mine["steps"])):
        raise FileNotFoundError(
            f"{opened.path} holds a finished run whose last checkpoint is gone. Its numbers are in result.json; for its"
            " weights put the checkpoint back, or train again in another folder."
        )
    if path is None:
        return start(), 0.0
    found = checkpoint.load(path, jax.eval_shape(start))
    folder.check_same(str(path), {**folder.plain(TrainConfig()), **found.identity}, mine)
    return found.state, found.seconds


def _recipe(
    config: TrainConfig, rule: Rule, net: Network, optimizer: optax.GradientTransformation | None, exam: Exam
) -> Recipe:
    schedule = None
    if optimizer is None:
        optimizer, schedule = named_optimizer(config)
    check.optimizer(optimizer)
    return Recipe(
        view=View(net, rule.readout, config.precision, config.backend),
        rule=rule,
        mode=config.mode,
        optimizer=ByValue(optimizer),
        schedule=schedule,
        batch=config.batch,
        every=config.every,
        stride=loop.longest_stride(math.gcd(config.eval_every, config.steps, config.snapshots)),
        traces=config.traces,
        exam=exam,
        align=settings.aligned(config),
    )


def check_fit(net: Network, splits: Splits) -> None:
    """Does the network take what the data gives? Units in one row and channels of pixels are never taken as equal."""
    check.network(net)
    takes, gives, classes = tuple(net.layers[0].in_shape), shape_of(splits.train), len(splits.train.names)
    if takes != gives:
        flatten = "Use otpe.datasets.flat on the data" if takes == (math.prod(gives),) else "Build the network for it"
        raise ValueError(f"net takes inputs of the shape {list(takes)}, but the data has {list(gives)}. {flatten}.")
    if net.classes < classes:
        raise ValueError(
            f"net has {net.classes} outputs, but the data has {classes} classes. Build it with {classes} outputs."
        )


def _describe(value: Any) -> str:
    """What can be said of something that came without a name, the same every time."""
    if hasattr(value, "init") and hasattr(value, "update"):
        return "an optax optimizer"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # of a function, say, which is at another place every time
