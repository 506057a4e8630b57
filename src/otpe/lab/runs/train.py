"""`otpe.train`: check the settings, open the folder, and start or resume the run."""

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
from otpe.datasets.dataset import shape_of
from otpe.lab.runs import build_network, check_settings, checkpoint, custom, folder, loop, saved_weights, task
from otpe.lab.runs.custom import CustomParts
from otpe.lab.runs.dataset_defaults import with_dataset_defaults
from otpe.lab.runs.folder import Folder
from otpe.lab.runs.loop import EvaluationSetup, Networks, Recipe, State
from otpe.lab.runs.results import Result
from otpe.lab.runs.start_settings import with_start_data
from otpe.lab.runs.task import EvaluationSet, Splits
from otpe.lab.runs.training_run import Run, check_tensorboard
from otpe.lab.settings import Settings, TrainConfig
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.training.interned import interned
from otpe.training.optimizer import Optimizer


def train(
    config: TrainConfig,
    *,
    data: Splits | None = None,
    rule: str | Rule | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
    optimizer: optax.GradientTransformation | Optimizer | None = None,
    start: Any = None,
) -> Result:
    """Train as the settings say, and return the result. The folder of the run holds everything about it.

    With `resume=True` and the same folder, a run that was stopped or killed continues, with the same bits as without
    the interruption. The settings may then have more steps than before.

    Args:
      data: your own datasets. `config.dataset` is then the name that you give them.
      rule: a composition of your own, in place of the one that `config.rule` names.
      net: a network of your own, in place of the one that the settings describe.
      loss: as in `otpe.gradients`, in place of the one that `config.loss` names.
      optimizer: an `otpe.Optimizer` or any optax optimizer, in place of the one that the settings describe.
      start: initial weights in place of random ones: a run folder or a file of `otpe.save`, as in
        `config.start`; a result of `otpe.train`; or parameters, such as `net.init(key)` makes.

    Raises:
      ValueError, TypeError, OSError: bad input. The message says how to fix it. Nothing was trained.
      FloatingPointError: weights or loss are not finite any more.
      KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP came; the state was saved before.
    """
    check_settings.check_kind(config, TrainConfig)
    config, rules = custom.with_rule(task.with_own_name(config, data), rule)
    config, function = custom.with_loss(config, loss)
    config, optimizer = custom.with_optimizer(config, optimizer)
    if isinstance(start, str | Path):
        config, start = replace(config, start=Path(start)), None
    own = CustomParts(data=data, rules=rules, net=net, loss=function, optimizer=optimizer, start=start)
    return prepared(config, own, may_grow=True)()


def prepared(
    config: TrainConfig, own: CustomParts = custom.NONE, *, may_grow: bool = False, kind: str = "train"
) -> Run:
    """Check everything, make or open the folder, and return the run. Raises for any bad input.

    `may_grow`: a stored run may be made longer, with more steps than it had. `kind`: the verb that works in the folder.
    """
    check_settings.check_kind(config, TrainConfig)
    own = custom.with_stored_net(config, own)
    if own.data is None:
        config = with_start_data(config)
    config = with_dataset_defaults(config, own)
    chosen = check_settings.checked(config, own)
    config = check_settings.plain(config)
    if config.tensorboard:
        check_tensorboard()
    splits = task.loaded(config, own, lambda shape: check_size(config, chosen, shape, own))
    network = network_of(config, splits, own)
    loss = own.loss_of(config)
    check.targets(network, loss, np.zeros(1, int), 1)
    validation_set = task.evaluation_set(splits.valid, task.VALID, config.valid_samples, config.batch)
    recipe = _recipe(config, chosen, network, validation_set, own)
    networks = _networks(config, splits)
    if own.net is not None or own.loss is not None:
        _trace_a_step(recipe, splits, networks)
    weights = None if _is_begun(config) else saved_weights.starting_weights(config, own, network)
    start = partial(loop.start, recipe, networks.seed, weights)
    data_hash = task.fingerprint(splits, config.seed, config.batch)
    identity = {**folder.identity(config), "data": data_hash, **own.of_run(config)}
    growth = partial(folder.check_growth, config, identity) if may_grow else None
    shape = {"data_shape": list(shape_of(splits.train)), "data_classes": len(splits.train.names)}
    opened = folder.opened(
        config, [config.data_name, chosen.name, config.mode], identity, kind=kind, about=shape, growth=growth
    )
    with opened.closed_after_error():
        files.make_folder(opened.checkpoints)
        for place in (opened.checkpoints, opened.path / "snapshots"):
            files.remove_partial(place)
        found = opened.read_result()
        state, seconds = _begin(opened, start, identity, finished=found is not None, growth=growth)
    return Run(config, recipe, splits, networks, opened, identity, state, found, seconds)


def network_of(config: Settings, splits: Splits, own: CustomParts) -> Network:
    """Return the network of these settings or the user's own. Raises ValueError if it does not take the data."""
    inputs, classes = shape_of(splits.train), len(splits.train.names)
    network = build_network.network(config, inputs, classes) if own.net is None else own.net
    check_fit(network, splits)
    return network


def check_size(config: TrainConfig, rule: Rule, shape: task.Shape, own: CustomParts = custom.NONE) -> None:
    """Raise ValueError if the run cannot fit into memory. A finished run is only read, so it is not checked."""
    if config.resume and config.out is not None and os.path.exists(Path(config.out) / "result.json"):
        return
    net = build_network.network(config, shape.axes, shape.classes) if own.net is None else own.net
    check.network(net)
    optimizer = Optimizer.of(config).with_rate_in_state() if own.optimizer is None else own.optimizer
    check.optimizer(optimizer)
    task.check_memory(config, rule, net, optimizer, shape)


def _networks(config: TrainConfig, splits: Splits) -> Networks:
    number = jnp.arange(config.seeds, dtype=jnp.uint32)
    if config.draws == 1:
        return Networks(config.seed + number)
    if not all(hasattr(dataset, "on") for dataset in splits):
        raise ValueError(f"draws is {config.draws}, but this data has no draws of manifolds. Leave draws out.")
    return Networks(config.seed + number, number // (config.seeds // config.draws))


def _is_begun(config: TrainConfig) -> bool:
    """Return whether the run resumes from a checkpoint, so that it needs no initial weights."""
    return config.resume and config.out is not None and checkpoint.newest(Path(config.out) / "checkpoints") is not None


def _begin(
    opened: Folder, start: Callable[[], State], identity: dict[str, Any], finished: bool, growth: folder.Growth | None
) -> tuple[State, float]:
    """Return the state and the seconds of training from the newest checkpoint, or the initial state and 0."""
    path = checkpoint.newest(opened.checkpoints, last=identity["steps"])
    if finished and (path is None or path.name != checkpoint.name(identity["steps"])):
        raise FileNotFoundError(
            f"{opened.path} holds a finished run whose last checkpoint is gone. Its numbers are in result.json; for its"
            " weights put the checkpoint back, or train again in another folder."
        )
    if path is None:
        return start(), 0.0
    found = checkpoint.load(path, jax.eval_shape(start))
    stored = {**folder.plain(TrainConfig()), **found.identity}
    folder.check_same(str(path), stored if growth is None else growth(stored), identity)
    return found.state, found.seconds


def _recipe(
    config: TrainConfig, rule: Rule, net: Network, validation_set: EvaluationSet, own: CustomParts = custom.NONE
) -> Recipe:
    if own.optimizer is None:
        optimizer, schedule = Optimizer.of(config).with_rate_in_state(), Optimizer.of(config).rate_schedule()
    else:
        optimizer, schedule = interned(own.optimizer, task.parameter_shapes(net)), None
    return Recipe(
        setup=EvaluationSetup(net, rule.readout, config.precision, config.backend, own.loss_of(config)),
        rule=rule,
        mode=config.mode,
        optimizer=optimizer,
        schedule=schedule,
        batch=config.batch,
        every=config.every,
        stride=loop.longest_stride(math.gcd(config.eval_every, config.steps, config.snapshots)),
        traces=config.traces,
        validation_set=validation_set,
        align=check_settings.aligned(config, own),
    )


def _trace_a_step(recipe: Recipe, splits: Splits, networks: Networks) -> None:
    """Trace one step on shapes alone, so that errors in a user's own network or loss come before a folder is made."""

    def step(data: Any, networks: Networks) -> Any:
        state = loop.start(recipe, networks.seed, None)
        return loop.advance(recipe, data.train, data.valid, networks, state, 0, loop.Numbers(1, 1, 1.0))

    jax.eval_shape(step, splits, networks)


def check_fit(net: Network, splits: Splits) -> None:
    """Raise ValueError if the network does not take the data. Shapes must be equal: [N] is not [C, H, W]."""
    check.network(net)
    takes, gives, classes = tuple(net.layers[0].in_shape), shape_of(splits.train), len(splits.train.names)
    if takes != gives:
        flatten = "Use otpe.datasets.flat on the data" if takes == (math.prod(gives),) else "Build the network for it"
        raise ValueError(f"net takes inputs of the shape {list(takes)}, but the data has {list(gives)}. {flatten}.")
    if net.classes < classes:
        raise ValueError(
            f"net has {net.classes} outputs, but the data has {classes} classes. Build it with {classes} outputs."
        )
