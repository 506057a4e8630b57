"""`otpe.train`: settings are checked, the folder is opened, and the run begins."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe import check, files
from otpe.datasets.contract import shape_of
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.runs import board, checkpoint, folder, growth, loop, settings, size, starts, task
from otpe.runs import own as owned
from otpe.runs.config import Settings, TrainConfig
from otpe.runs.folder import Folder
from otpe.runs.loop import Networks, Recipe, State, View
from otpe.runs.optimizers import optimizer as named_optimizer
from otpe.runs.own import Own
from otpe.runs.result import Result
from otpe.runs.run import Run
from otpe.runs.task import Exam, Splits
from otpe.training.optimizer import ByValue


def train(
    config: TrainConfig,
    *,
    data: Splits | None = None,
    rule: str | Rule | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
    optimizer: optax.GradientTransformation | None = None,
    start: Any = None,
) -> Result:
    """Train as the settings say, and return what came out; everything about the run is in its folder.

    A run that was stopped or killed goes on with `resume=True` in the same folder, bit for bit as if it never had been.
    So does a run that is to have more steps than before.

    Args:
      data: your own datasets; `config.dataset` then is what you call them.
      rule: a composition of your own, in place of the one that `config.rule` names.
      net: a network of your own, in place of the one that the settings describe.
      loss: as in `otpe.gradients`, in place of the one that `config.loss` names.
      optimizer: any optax optimizer, in place of the one that `config.optimizer` names.
      start: what to begin with, in place of random weights: a run folder or a file of `otpe.save`, as in
        `config.start`; a result of `otpe.train`; or parameters, such as `net.init(key)` makes.

    Raises:
      ValueError, TypeError, OSError: bad input, with a sentence that says what to do; nothing was trained.
      FloatingPointError: weights or loss are not finite any more.
      KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP came; the state was saved before.
    """
    settings.check_kind(config, TrainConfig)
    config, rules = owned.with_rule(task.of_own(config, data), rule)
    config, function = owned.with_loss(config, loss)
    if isinstance(start, str | Path):
        config, start = replace(config, start=Path(start)), None
    own = Own(data=data, rules=rules, net=net, loss=function, optimizer=optimizer, start=start)
    return prepared(config, own, may_grow=True)()


def prepared(config: TrainConfig, own: Own = owned.NONE, *, may_grow: bool = False) -> Run:
    """Check everything, and make or open the folder. All bad input is told here.

    `may_grow`: may a run that is there go on with more steps than it had?
    """
    own = owned.going_on(config, own)
    chosen = settings.checked(config, own)
    config = settings.plain(config)
    if config.tensorboard:
        board.check_installed()
    splits = _splits(config, chosen, own)
    network = network_of(config, splits, own)
    loss = own.loss_of(config)
    check.targets(network, loss, np.zeros(1, int), 1)
    exam = task.exam(splits.valid, task.VALID, config.valid_samples, config.batch)
    recipe = _recipe(config, chosen, network, exam, own)
    networks = _networks(config, splits)
    if own.net is not None or own.loss is not None:
        _try(recipe, splits, networks)
    weights = None if _is_begun(config) else starts.weights(config, own, network)
    start = partial(loop.start, recipe, networks.seed, weights)
    data_is = task.fingerprint(splits, config.seed, config.batch)
    mine = {**folder.identity(config), "data": data_is, **own.of_run(config)}
    grown = partial(growth.check, config, mine) if may_grow else None
    shape = {"data_shape": list(shape_of(splits.train)), "data_classes": len(splits.train.names)}
    opened = folder.opened(config, [config.dataset, chosen.name, config.mode], mine, about=shape, grown=grown)
    try:
        files.folder(opened.checkpoints)
        for beside in (opened.checkpoints, opened.path / "snapshots"):
            files.clean(beside)
        found = opened.read_result()
        state, seconds = _begin(opened, start, mine, finished=found is not None, grown=grown)
    except BaseException:
        opened.close()
        raise
    return Run(config, recipe, splits, networks, opened, mine, state, found, seconds)


def network_of(config: Settings, splits: Splits, own: Own) -> Network:
    """The network of these settings or the user's own, if it takes the data."""
    inputs, classes = shape_of(splits.train), len(splits.train.names)
    network = settings.network(config, inputs, classes) if own.net is None else own.net
    check_fit(network, splits)
    return network


def _splits(config: TrainConfig, rule: Rule, own: Own = owned.NONE) -> Splits:
    """The data, if it fits together, and if the run fits into memory, which is asked before the data is made too."""
    if own.data is None:
        check_size(config, rule, size.expected(config), own)
    splits = task.named(config) if own.data is None else task.given(own.data)
    task.check_shapes(splits, config.batch)
    check_size(config, rule, size.found(splits), own)
    return task.as_taken(config, splits, own)


def check_size(
    config: TrainConfig,
    rule: Rule,
    shape: size.Shape,
    own: Own = owned.NONE,
) -> None:
    """Refuse what cannot fit into memory. A finished run is only read, perhaps on a smaller machine."""
    if config.resume and config.out is not None and os.path.exists(Path(config.out) / "result.json"):
        return
    net = settings.network(config, shape.axes, shape.classes) if own.net is None else own.net
    check.network(net)
    optimizer = named_optimizer(config)[0] if own.optimizer is None else own.optimizer
    check.optimizer(optimizer)
    size.check(config, rule, net, ByValue(optimizer), shape)


def _networks(config: TrainConfig, splits: Splits) -> Networks:
    number = jnp.arange(config.seeds, dtype=jnp.uint32)
    if config.draws == 1:
        return Networks(config.seed + number)
    if not all(hasattr(dataset, "on") for dataset in splits):
        raise ValueError(f"draws is {config.draws}, but this data has no draws of manifolds. Leave draws out.")
    return Networks(config.seed + number, number // (config.seeds // config.draws))


def _is_begun(config: TrainConfig) -> bool:
    """Does the run go on from a checkpoint, so that what it began with is not asked for any more?"""
    return config.resume and config.out is not None and checkpoint.newest(Path(config.out) / "checkpoints") is not None


def _begin(
    opened: Folder, start: Callable[[], State], mine: dict[str, Any], finished: bool, grown: folder.Grown | None
) -> tuple[State, float]:
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
    theirs = {**folder.plain(TrainConfig()), **found.identity}
    folder.check_same(str(path), theirs if grown is None else grown(theirs), mine)
    return found.state, found.seconds


def _recipe(config: TrainConfig, rule: Rule, net: Network, exam: Exam, own: Own = owned.NONE) -> Recipe:
    optimizer, schedule = named_optimizer(config) if own.optimizer is None else (own.optimizer, None)
    check.optimizer(optimizer)
    return Recipe(
        view=View(net, rule.readout, config.precision, config.backend, own.loss_of(config)),
        rule=rule,
        mode=config.mode,
        optimizer=ByValue(optimizer),
        schedule=schedule,
        batch=config.batch,
        every=config.every,
        stride=loop.longest_stride(math.gcd(config.eval_every, config.steps, config.snapshots)),
        traces=config.traces,
        exam=exam,
        align=settings.aligned(config, own),
    )


def _try(recipe: Recipe, splits: Splits, networks: Networks) -> None:
    """What is the user's own is tried on shapes alone: what is wrong with it is told before there is a folder."""

    def step(data: Any, networks: Networks) -> Any:
        state = loop.start(recipe, networks.seed, None)
        return loop.advance(recipe, data.train, data.valid, networks, state, 0, loop.Numbers(1, 1, 1.0))

    jax.eval_shape(step, splits, networks)


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
