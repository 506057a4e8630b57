"""Events for TensorBoard, where it is asked for."""

import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe import check, contents, files
from otpe.datasets.dataset import shape_of
from otpe.lab import signals
from otpe.lab.progress import Bar
from otpe.lab.runs import build_network, check_settings, checkpoint, folder, guards, loop, results, saved_weights, task
from otpe.lab.runs import custom as owned
from otpe.lab.runs.custom import Own
from otpe.lab.runs.folder import Folder
from otpe.lab.runs.loop import Log, Networks, Recipe, Row, Scores, State, View
from otpe.lab.runs.results import Numbers, Result, from_json, numbers
from otpe.lab.runs.task import Exam, Splits
from otpe.lab.settings import Settings, TrainConfig
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.training.interned import interned
from otpe.training.optimizer import Optimizer


def check_tensorboard() -> None:
    if not find_spec("tensorboardX"):
        raise OSError("tensorboard needs tensorboardX, which is not installed. Use: pip install 'otpe[tensorboard]'")


class Board:
    """Scalars of every evaluation: the mean over seeds, and each of them where there are several."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)

    def add(self, line: dict[str, Any], seeds: range) -> None:
        for name in ("loss", "valid_loss", "valid_accuracy"):
            self.writer.add_scalar(name, float(np.mean(line[name])), line["step"])
            if len(seeds) > 1:
                for seed, value in zip(seeds, line[name], strict=True):
                    self.writer.add_scalar(f"{name}/seed {seed}", value, line["step"])

    def close(self) -> None:
        self.writer.close()


# --------------------
# How many steps to hand to the device at a time: enough to keep it busy, few enough to stop soon when asked to.


SECONDS = 0.5  # that a block should take


class Pace:
    def __init__(self, often: float) -> None:
        self.wanted = min(SECONDS, often) or SECONDS  # seconds of a block; `often`: between two checkpoints
        self.each: float | None = None  # seconds of a stride, as far as known
        self.began = 0.0

    def strides(self, left: int) -> int:
        """For the next block, which begins now."""
        self.began = time.perf_counter()
        wanted = 1 if self.each is None else math.ceil(self.wanted / self.each)
        return max(1, min(wanted, left))

    def ended(self, strides: int) -> float:
        """The block of so many strides is over. Seconds it took."""
        taken = time.perf_counter() - self.began
        self.each = max(taken / strides, 1e-7)
        return taken


# --------------------
# A run from start to end: blocks of steps on the device, metrics, checkpoints, the result.


@dataclass
class Run:
    """A run that was found in order. Calling it trains."""

    config: TrainConfig
    recipe: Recipe
    splits: Splits
    networks: Networks
    folder: Folder
    identity: dict[str, Any]
    state: State
    found: dict[str, Any] | None = None  # the result, where the run is finished
    seconds: float = 0.0  # of training until now
    home: Path | None = None  # the folder to go on with, if it is not the run's own
    verb: str = "train"  # that goes on with it
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=2)
    bar: Callable[[str, int, int], Any] = Bar

    def __call__(self) -> Result:
        try:
            found = self._train() if self.found is None else self.found
            params = self.state.best.params
            return from_json(found, self.folder.path, self.recipe.view.net, params, self.folder.metrics())
        finally:
            self.folder.close()

    def _train(self) -> dict[str, Any]:
        config, step = self.config, int(self.state.step)
        longer = [] if self.folder.had is None else folder.growth_note(config, self.folder.had)
        for note in [*longer, *self.folder.go_on(step, measured=step >= config.eval_every)]:
            self.warn(note)
        bar = self.bar(f"{self.recipe.rule.name} {config.mode}", step, config.steps)
        events = Board(self.folder.path, step) if config.tensorboard else None
        weights = saved_weights.SnapshotWriter(self.folder.path)
        with contents.reading(self.folder.path / "metrics.jsonl", "Name another folder."):
            guard = guards.RateGuard(guards.watched(self.recipe.view.net), self.warn, self.folder.metrics())
        try:
            with signals.caught() as wish:
                self.compile()
                bar.begin()
                pace, saved_at = Pace(config.checkpoint_seconds), time.monotonic()
                if config.snapshots and step == 0:
                    weights.save(0, self.state.params)
                while step < config.steps:
                    measured = self._block(pace, step)
                    step = int(self.state.step)
                    bar.advance(step)
                    for line in measured:
                        self.folder.add(line)
                        bar.show(step, float(np.mean(line["loss"])), float(np.mean(line["valid_accuracy"])))
                        guard.look(line["step"], np.array(line["rates"]), last=line["step"] == config.steps)
                        if events:
                            events.add(line, range(config.seed, config.seed + config.seeds))
                    if config.snapshots and (step % config.snapshots == 0 or step == config.steps):
                        weights.save(step, self.state.params)
                    last = step == config.steps or wish.number is not None
                    if last or time.monotonic() - saved_at >= config.checkpoint_seconds:
                        weights.settle()
                        self._save()
                        saved_at = time.monotonic()
                    if wish.number is not None and step < config.steps:
                        raise signals.StoppedError(wish.number, self._farewell(step))
                found = self._finish()
                if wish.number is not None:
                    raise signals.StoppedError(wish.number, f"stopped; {self.folder.path} is finished, with its result")
                return found
        finally:
            bar.close()
            weights.close()
            if events:
                events.close()

    def compile(self) -> None:
        """A block of no steps and a test of no samples, so that the time of the others is their own."""
        jax.block_until_ready((self._advance(self.recipe, 0), self._test(batches=0)))

    def _advance(self, recipe: Recipe, strides: int) -> tuple[State, Log, jax.Array]:
        numbers = loop.Numbers(self.config.eval_every, self.config.steps, self.config.learning_rate)
        return loop.advance(recipe, self.splits.train, self.splits.valid, self.networks, self.state, strides, numbers)

    def _block(self, pace: Pace, step: int) -> list[dict[str, Any]]:
        """As many steps as the pace says. Returns a line for every evaluation that was due among them."""
        recipe, before = self.recipe, self.state
        odd = -step % recipe.stride  # in a run that was begun on another device, with other strides
        if odd:
            recipe = replace(recipe, stride=1)
        strides = pace.strides(odd or self._room(step) // recipe.stride)
        state, log, finite = self._advance(recipe, strides)
        log, finite = jax.device_get((log, finite))  # the device is waited for here, and only here
        steps, began = strides * recipe.stride, self.seconds
        self.seconds += pace.ended(strides)
        if not finite.all():
            saved = checkpoint.newest(self.folder.checkpoints, last=self.config.steps)
            raise guards.diverged(self._one_step, before, steps, self.networks.seed, self._learning_rate, saved)
        self.state = state
        each = (self.seconds - began) / steps
        rows = [jax.tree.map(lambda x, i=i: x[i], log.rows) for i in range(log.filled)]
        return [self._line(row, began + each * (int(row.step) - step)) for row in rows]

    def _room(self, step: int) -> int:
        """Steps that a block may have at most: there is an end, weights to keep, evaluations it must have room for."""
        every = self.config.eval_every
        evaluations = 1 if self.config.checkpoint_seconds == 0 else loop.ROWS
        weights = self.config.snapshots or self.config.steps
        return min(self.config.steps, (step // every + evaluations) * every, (step // weights + 1) * weights) - step

    def _one_step(self, state: State) -> tuple[State, Any]:
        """One step alone, without an evaluation, and whether numbers are finite after it."""
        recipe, no_evaluation = replace(self.recipe, stride=1), loop.Numbers(2**30, -1, self.config.learning_rate)
        given = (self.splits.train, self.splits.valid, self.networks, state)
        state, _, finite = loop.advance(recipe, *given, 1, no_evaluation)
        return state, finite

    def _line(self, row: Row, seconds: float) -> dict[str, Any]:
        """An evaluation as it is written down."""
        return results.line(row, self._since(int(row.step)), seconds)

    def _since(self, step: int) -> int:
        """Mini-batches between the evaluation of this step and the one before."""
        return step - (step - 1) // self.config.eval_every * self.config.eval_every

    @property
    def _learning_rate(self) -> float | None:
        return None if "own_optimizer" in self.identity else self.config.learning_rate

    def _save(self) -> None:
        self.folder.settle()
        checkpoint.save(self.folder.checkpoints, self.state, self.seconds, self.identity, self.config.keep)

    def _test(self, batches: int | None = None) -> Scores:
        exam = task.exam(self.splits.test, task.TEST, self.config.test_samples, self.config.batch)
        count, given = exam.batches if batches is None else batches, (self.splits.test, self.networks)
        return loop.examine(self.recipe.view, exam, *given, self.state.best.params, count)

    def _finish(self) -> dict[str, Any]:
        """Test with the parameters that validated best, and write the result."""
        config, best, scores = self.config, self.state.best, self._test()
        accuracy = np.asarray(scores.accuracy).tolist()
        result = Numbers(
            rule=self.recipe.rule.name,
            mode=config.mode,
            dataset=config.dataset,
            seeds=config.seeds,
            seed=config.seed,
            steps=config.steps,
            test_accuracy=accuracy,
            test_loss=np.asarray(scores.loss).tolist(),
            valid_accuracy=np.asarray(best.accuracy).tolist(),
            best_step=np.asarray(best.step).tolist(),
            loss=(np.asarray(self.state.last_loss) / self._since(config.steps)).tolist(),
            learning_rate=self._learning_rate,
            seconds=round(self.seconds, 3),
            steps_per_second=round(config.steps / self.seconds, 3),
            test_accuracy_mean=float(np.mean(accuracy)),
            test_accuracy_std=float(np.std(accuracy)),
        )
        found = numbers(result)
        self.folder.write_result(found)
        return found

    def _farewell(self, step: int) -> str:
        where = self.folder.path if self.home is None else self.home
        return (
            f"stopped at step {step} of {self.config.steps}, and saved. Go on with: otpe {self.verb} --resume --out"
            f" {where} (in Python: resume=True)"
        )


# --------------------
# `otpe.train`: settings are checked, the folder is opened, and the run begins.


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
    """Train as the settings say, and return what came out; everything about the run is in its folder.

    A run that was stopped or killed goes on with `resume=True` in the same folder, bit for bit as if it never had been.
    So does a run that is to have more steps than before.

    Args:
      data: your own datasets; `config.dataset` then is what you call them.
      rule: a composition of your own, in place of the one that `config.rule` names.
      net: a network of your own, in place of the one that the settings describe.
      loss: as in `otpe.gradients`, in place of the one that `config.loss` names.
      optimizer: an `otpe.Optimizer`, in place of these settings; or any optax optimizer.
      start: what to begin with, in place of random weights: a run folder or a file of `otpe.save`, as in
        `config.start`; a result of `otpe.train`; or parameters, such as `net.init(key)` makes.

    Raises:
      ValueError, TypeError, OSError: bad input, with a sentence that says what to do; nothing was trained.
      FloatingPointError: weights or loss are not finite any more.
      KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP came; the state was saved before.
    """
    check_settings.check_kind(config, TrainConfig)
    config, rules = owned.with_rule(task.of_own(config, data), rule)
    config, function = owned.with_loss(config, loss)
    config, optimizer = owned.with_optimizer(config, optimizer)
    if isinstance(start, str | Path):
        config, start = replace(config, start=Path(start)), None
    own = Own(data=data, rules=rules, net=net, loss=function, optimizer=optimizer, start=start)
    return prepared(config, own, may_grow=True)()


def prepared(config: TrainConfig, own: Own = owned.NONE, *, may_grow: bool = False, kind: str = "train") -> Run:
    """Check everything, and make or open the folder. All bad input is told here.

    `may_grow`: may a run that is there go on with more steps than it had?
    """
    own = owned.going_on(config, own)
    chosen = check_settings.checked(config, own)
    config = check_settings.plain(config)
    if config.tensorboard:
        check_tensorboard()
    splits = _splits(config, chosen, own)
    network = network_of(config, splits, own)
    loss = own.loss_of(config)
    check.targets(network, loss, np.zeros(1, int), 1)
    exam = task.exam(splits.valid, task.VALID, config.valid_samples, config.batch)
    recipe = _recipe(config, chosen, network, exam, own)
    networks = _networks(config, splits)
    if own.net is not None or own.loss is not None:
        _try(recipe, splits, networks)
    weights = None if _is_begun(config) else saved_weights.starting_weights(config, own, network)
    start = partial(loop.start, recipe, networks.seed, weights)
    data_is = task.fingerprint(splits, config.seed, config.batch)
    mine = {**folder.identity(config), "data": data_is, **own.of_run(config)}
    grown = partial(folder.check_growth, config, mine) if may_grow else None
    shape = {"data_shape": list(shape_of(splits.train)), "data_classes": len(splits.train.names)}
    opened = folder.opened(
        config, [config.dataset, chosen.name, config.mode], mine, kind=kind, about=shape, grown=grown
    )
    try:
        files.make_folder(opened.checkpoints)
        for beside in (opened.checkpoints, opened.path / "snapshots"):
            files.remove_partial(beside)
        found = opened.read_result()
        state, seconds = _begin(opened, start, mine, finished=found is not None, grown=grown)
    except BaseException:
        opened.close()
        raise
    return Run(config, recipe, splits, networks, opened, mine, state, found, seconds)


def network_of(config: Settings, splits: Splits, own: Own) -> Network:
    """The network of these settings or the user's own, if it takes the data."""
    inputs, classes = shape_of(splits.train), len(splits.train.names)
    network = build_network.network(config, inputs, classes) if own.net is None else own.net
    check_fit(network, splits)
    return network


def _splits(config: TrainConfig, rule: Rule, own: Own = owned.NONE) -> Splits:
    """The data, if it fits together, and if the run fits into memory, which is asked before the data is made too."""
    if own.data is None:
        check_size(config, rule, task.expected_shape(config), own)
    splits = task.named(config) if own.data is None else task.given(own.data)
    task.check_shapes(splits, config.batch)
    check_size(config, rule, task.found_shape(splits), own)
    return task.as_taken(config, splits, own)


def check_size(
    config: TrainConfig,
    rule: Rule,
    shape: task.Shape,
    own: Own = owned.NONE,
) -> None:
    """Refuse what cannot fit into memory. A finished run is only read, perhaps on a smaller machine."""
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
    if own.optimizer is None:
        optimizer, schedule = Optimizer.of(config).with_rate_in_state(), Optimizer.of(config).rate_schedule()
    else:
        optimizer, schedule = interned(own.optimizer, task.parameter_shapes(net)), None
    return Recipe(
        view=View(net, rule.readout, config.precision, config.backend, own.loss_of(config)),
        rule=rule,
        mode=config.mode,
        optimizer=optimizer,
        schedule=schedule,
        batch=config.batch,
        every=config.every,
        stride=loop.longest_stride(math.gcd(config.eval_every, config.steps, config.snapshots)),
        traces=config.traces,
        exam=exam,
        align=check_settings.aligned(config, own),
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
