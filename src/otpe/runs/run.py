"""A run from start to end: blocks of steps on the device, metrics, checkpoints, the result."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from otpe import contents
from otpe.runs import board, checkpoint, growth, guards, lines, loop, signals, snapshots, task
from otpe.runs.config import TrainConfig
from otpe.runs.folder import Folder
from otpe.runs.loop import Log, Networks, Recipe, Row, Scores, State
from otpe.runs.pace import Pace
from otpe.runs.progress import Bar
from otpe.runs.result import Numbers, Result, from_json, numbers
from otpe.runs.task import Splits


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
        longer = [] if self.folder.had is None else growth.note(config, self.folder.had)
        for note in [*longer, *self.folder.go_on(step, measured=step >= config.eval_every)]:
            self.warn(note)
        bar = self.bar(f"{self.recipe.rule.name} {config.mode}", step, config.steps)
        events = board.Board(self.folder.path, step) if config.tensorboard else None
        weights = snapshots.Writer(self.folder.path)
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
        return lines.line(row, self._since(int(row.step)), seconds)

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
