"""A run from start to end: blocks of steps on the device, evaluations, checkpoints, the result."""

import math
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe import check, files
from otpe.network import Network
from otpe.rulebook import Rule
from otpe.runs import board, checkpoint, folder, guards, loop, settings, signals, task
from otpe.runs.config import TrainConfig
from otpe.runs.folder import Folder
from otpe.runs.loop import Recipe, Scores, State, View
from otpe.runs.optimizers import optimizer as named_optimizer
from otpe.runs.pace import Pace
from otpe.runs.progress import Bar
from otpe.runs.result import Numbers, Result, from_json, numbers
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
      KeyboardInterrupt: Ctrl-C or SIGTERM came; the state was saved before.
    """
    settings.check_kind(config, TrainConfig)
    return prepared(task.of_own(config, data), data=data, rule=rule, net=net, optimizer=optimizer)()


@dataclass
class Run:
    """A run that was found in order. Calling it trains."""

    config: TrainConfig
    recipe: Recipe
    splits: Splits
    seeds: jax.Array
    folder: Folder
    identity: dict[str, Any]
    state: State
    found: dict[str, Any] | None = None  # the result, where the run is finished
    seconds: float = 0.0  # of training until now
    home: Path | None = None  # the folder to go on with, if it is not the run's own
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=2)

    def __call__(self) -> Result:
        try:
            found = self._train() if self.found is None else self.found
            params = self.state.best.params
            return from_json(found, self.folder.path, self.recipe.view.net, params, self.folder.metrics())
        finally:
            self.folder.close()

    def _train(self) -> dict[str, Any]:
        config, step = self.config, int(self.state.step)
        bar = Bar(f"{self.recipe.rule.name} {config.mode}", step, config.steps)
        events = board.Board(self.folder.path, step) if config.tensorboard else None
        guard = guards.RateGuard(guards.layer_names(self.recipe.view.net.depth), self.warn, self.folder.metrics())
        try:
            with signals.caught() as wish:
                self._compile()
                bar.begin()
                pace, saved_at = Pace(), time.monotonic()
                while step < config.steps:
                    line = self._block(pace, step)
                    step = int(line["step"])
                    bar.advance(step)
                    if "valid_accuracy" in line:
                        self.folder.add(line)
                        bar.show(step, float(np.mean(line["loss"])), float(np.mean(line["valid_accuracy"])))
                        guard.look(step, np.array(line["rates"]), last=step == config.steps)
                        if events:
                            events.add(line, range(config.seed, config.seed + config.seeds))
                    last = step == config.steps or wish.number is not None
                    if last or time.monotonic() - saved_at >= config.checkpoint_seconds:
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
            if events:
                events.close()

    def _compile(self) -> None:
        """A block of no steps and an evaluation for nothing, so that the time of the others is their own."""
        loop.advance(self.recipe, self.splits.train, self.seeds, self.state, 0)
        jax.block_until_ready(loop.validate(self.recipe.view, self._exam("valid"), self.splits.valid, self.state))

    def _block(self, pace: Pace, step: int) -> dict[str, Any]:
        """As many steps as the pace says, up to the next evaluation, which is part of the block that reaches it.

        Returns what there is to be written down: the step; the scores, if there are any.
        """
        config, before, scores = self.config, self.state, None
        evaluated = step // config.eval_every * config.eval_every
        until = min(config.steps, evaluated + config.eval_every)
        odd = (until - step) % self.recipe.stride  # in a run that was begun on another device, with other strides
        recipe = replace(self.recipe, stride=1) if odd else self.recipe
        strides = pace.strides(odd or (until - step) // recipe.stride)
        state, finite = loop.advance(recipe, self.splits.train, self.seeds, before, strides)
        step, loss = step + strides * recipe.stride, state.loss
        if step == until:
            state, scores = loop.validate(self.recipe.view, self._exam("valid"), self.splits.valid, state)
        finite, loss, scores = jax.device_get((finite, loss, scores))  # the device is waited for here, and only here
        self.seconds += pace.ended(strides)
        if not finite.all():
            saved = checkpoint.newest(self.folder.checkpoints)
            raise guards.diverged(recipe, self.splits.train, self.seeds, before, strides, self._learning_rate, saved)
        self.state = state
        if scores is None:
            return {"step": step}
        return {
            "step": step,
            "loss": (loss / self._since(step)).tolist(),
            "valid_loss": scores.loss.tolist(),
            "valid_accuracy": scores.accuracy.tolist(),
            "rates": scores.rates.tolist(),
            "seconds": round(self.seconds, 3),
        }

    def _since(self, step: int) -> int:
        """Mini-batches between the evaluation of this step and the one before."""
        return step - (step - 1) // self.config.eval_every * self.config.eval_every

    @property
    def _learning_rate(self) -> float | None:
        return None if "own_optimizer" in self.identity else self.config.learning_rate

    def _save(self) -> None:
        self.folder.settle()
        checkpoint.save(self.folder.checkpoints, self.state, self.seconds, self.identity, self.config.keep)

    def _finish(self) -> dict[str, Any]:
        """Test with the parameters that validated best, and write the result."""
        config, best = self.config, self.state.best
        scores: Scores = loop.examine(self.recipe.view, self._exam("test"), self.splits.test, best.params)
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

    def _exam(self, split: str) -> Exam:
        seed, samples = {
            "valid": (task.VALID, self.config.valid_samples),
            "test": (task.TEST, self.config.test_samples),
        }[split]
        return task.exam(getattr(self.splits, split), seed, samples, self.config.batch)

    def _farewell(self, step: int) -> str:
        verb, where = ("train", self.folder.path) if self.home is None else ("compare", self.home)
        return (
            f"stopped at step {step} of {self.config.steps}, and saved. Go on with: otpe {verb} --resume --out {where}"
            " (in Python: resume=True)"
        )


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
    splits = task.named(config) if data is None else task.given(data)
    task.check_shapes(splits, config.batch)
    network = settings.network(config, splits.train.units, len(splits.train.names)) if net is None else net
    _check_fit(network, splits)
    recipe = _recipe(config, chosen, network, optimizer)
    seeds = jnp.arange(config.seed, config.seed + config.seeds, dtype=jnp.uint32)
    start = partial(loop.start, recipe, seeds)
    own = {"rule": rule, "net": net, "optimizer": optimizer}
    given = {f"own_{name}": _describe(value) for name, value in own.items() if value is not None}
    data_is = task.fingerprint(splits, config.seed, config.batch)
    mine = {**folder.identity(config), "data": data_is, **given}
    opened = folder.opened(config, [config.dataset, chosen.name, config.mode], mine)
    try:
        files.folder(opened.checkpoints)
        files.clean(opened.checkpoints)
        found = opened.read_result()
        state, seconds = _begin(opened, start, mine, finished=found is not None)
    except BaseException:
        opened.close()
        raise
    return Run(config, recipe, splits, seeds, opened, mine, state, found, seconds)


def _begin(opened: Folder, start: Callable[[], State], mine: dict[str, Any], finished: bool) -> tuple[State, float]:
    """Where the run is: at its newest checkpoint, or at the start."""
    path = checkpoint.newest(opened.checkpoints)
    if finished and (path is None or path.name != checkpoint.name(mine["steps"])):
        raise FileNotFoundError(
            f"{opened.path} holds a finished run whose last checkpoint is gone. Its numbers are in result.json; for its"
            " weights put the checkpoint back, or train again in another folder."
        )
    if path is None:
        opened.back_to(0)
        return start(), 0.0
    found = checkpoint.load(path, jax.eval_shape(start))
    folder.check_same(str(path), {**folder.plain(TrainConfig()), **found.identity}, mine)
    opened.back_to(int(found.state.step))
    return found.state, found.seconds


def _recipe(config: TrainConfig, rule: Rule, net: Network, optimizer: optax.GradientTransformation | None) -> Recipe:
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
        stride=loop.longest_stride(math.gcd(config.eval_every, config.steps)),
        traces=config.traces,
    )


def _check_fit(net: Network, splits: Splits) -> None:
    check.network(net)
    inputs, classes = splits.train.units, len(splits.train.names)
    if math.prod(net.layers[0].in_shape) != inputs or net.classes < classes:
        raise ValueError(
            f"net takes {list(net.layers[0].in_shape)} inputs and has {net.classes} outputs, but the data has {inputs}"
            f" units and {classes} classes. Build it with otpe.dense([{inputs}, ..., {classes}])."
        )


def _describe(value: Any) -> str:
    """What can be said of something that came without a name, the same every time."""
    if hasattr(value, "init") and hasattr(value, "update"):
        return "an optax optimizer"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # of a function, say, which is at another place every time
