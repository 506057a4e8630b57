"""A training run from its start to its end: blocks of steps on the device, metrics, checkpoints, the result."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

from otpe import contents
from otpe.lab import signals
from otpe.lab.progress import Bar
from otpe.lab.runs import checkpoint, folder, guards, loop, results, saved_weights, task
from otpe.lab.runs.folder import Folder
from otpe.lab.runs.loop import Log, Networks, Recipe, Scores, State
from otpe.lab.runs.results import Numbers, Result, from_json, numbers
from otpe.lab.runs.task import Splits
from otpe.lab.settings import TrainConfig

BLOCK_SECONDS = 0.5  # long enough to keep the device busy, and short enough to stop soon after a signal


class BlockTimer:
    """Chooses how many strides a block has."""

    def __init__(self, checkpoint_seconds: float) -> None:
        self.wanted = min(BLOCK_SECONDS, checkpoint_seconds) or BLOCK_SECONDS  # seconds of a block
        self.stride: float | None = None  # seconds of a stride, from the last block
        self.began = 0.0

    def begin(self, most: int) -> int:
        """Start the clock of a block, and return its number of strides, which is at most `most`."""
        self.began = time.perf_counter()
        return max(1, min(1 if self.stride is None else math.ceil(self.wanted / self.stride), most))

    def end(self, strides: int) -> float:
        """Return the seconds that the block took."""
        taken = time.perf_counter() - self.began
        self.stride = max(taken / strides, 1e-7)
        return taken


def check_tensorboard() -> None:
    if not find_spec("tensorboardX"):
        raise OSError("tensorboard needs tensorboardX, which is not installed. Use: pip install 'otpe[tensorboard]'")


class Board:
    """Writes every evaluation for TensorBoard: the mean over seeds, and each seed if there are several."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)

    def add(self, line: dict[str, Any], seeds: range) -> None:
        for name in ("loss", "valid_loss", "valid_accuracy"):
            self.writer.add_scalar(name, float(np.mean(line[name])), line["step"])
            if len(seeds) > 1:
                for seed, value in zip(seeds, line[name], strict=True):
                    self.writer.add_scalar(f"{name}/seed {seed}", value, line["step"])


@dataclass
class Run:
    """A run whose settings are checked and whose folder is open. Call it to train."""

    config: TrainConfig
    recipe: Recipe
    splits: Splits
    networks: Networks
    folder: Folder
    identity: dict[str, Any]
    state: State
    found: dict[str, Any] | None = None  # the result, if the run is finished
    seconds: float = 0.0  # of training until now
    home: Path | None = None  # the folder to resume if not the run's: that of the comparison which contains the run
    verb: str = "train"  # the command that resumes it
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=2)
    bar: Callable[[str, int, int], Any] = Bar

    def __call__(self) -> Result:
        try:
            found = self._train() if self.found is None else self.found
            params = self.state.best.params
            return from_json(found, self.folder.path, self.recipe.setup.net, params, self.folder.metrics())
        finally:
            self.folder.close()

    def _train(self) -> dict[str, Any]:
        config, step = self.config, int(self.state.step)
        longer = [] if self.folder.old_steps is None else folder.growth_note(config, self.folder.old_steps)
        for note in [*longer, *self.folder.resume(step, measured=step >= config.eval_every)]:
            self.warn(note)
        bar = self.bar(f"{self.recipe.rule.name} {config.mode}", step, config.steps)
        board = Board(self.folder.path, step) if config.tensorboard else None
        weights = saved_weights.SnapshotWriter(self.folder.path)
        with contents.reading(self.folder.path / "metrics.jsonl", "Name another folder."):
            guard = guards.RateGuard(guards.watched(self.recipe.setup.net), self.warn, self.folder.metrics())
        try:
            with signals.caught() as stop_request:
                self.compile()
                bar.begin()
                timer, saved_at = BlockTimer(config.checkpoint_seconds), time.monotonic()
                if config.snapshots and step == 0:
                    weights.save(0, self.state.params)
                while step < config.steps:
                    lines = self._block(timer, step)
                    step = int(self.state.step)
                    bar.advance(step)
                    for line in lines:
                        self.folder.add(line)
                        bar.show(step, float(np.mean(line["loss"])), float(np.mean(line["valid_accuracy"])))
                        guard.look(line["step"], np.array(line["rates"]), last=line["step"] == config.steps)
                        if board:
                            board.add(line, range(config.seed, config.seed + config.seeds))
                    if config.snapshots and (step % config.snapshots == 0 or step == config.steps):
                        weights.save(step, self.state.params)
                    last = step == config.steps or stop_request.number is not None
                    if last or time.monotonic() - saved_at >= config.checkpoint_seconds:
                        weights.flush()
                        self._save()
                        saved_at = time.monotonic()
                    if stop_request.number is not None and step < config.steps:
                        raise signals.StoppedError(stop_request.number, self._how_to_resume(step))
                found = self._finish()
                if stop_request.number is not None:
                    raise signals.StoppedError(
                        stop_request.number, f"stopped; {self.folder.path} is finished, with its result"
                    )
                return found
        finally:
            bar.close()
            weights.close()
            if board:
                board.writer.close()

    def compile(self) -> None:
        """Run a block of no steps and a test of no samples, so that compilation does not count as training time."""
        jax.block_until_ready((self._advance(self.recipe, 0), self._test(batches=0)))

    def _advance(self, recipe: Recipe, strides: int) -> tuple[State, Log, jax.Array]:
        numbers = loop.Numbers(self.config.eval_every, self.config.steps, self.config.learning_rate)
        return loop.advance(recipe, self.splits.train, self.splits.valid, self.networks, self.state, strides, numbers)

    def _block(self, timer: BlockTimer, step: int) -> list[dict[str, Any]]:
        """Train for a block of steps. Returns a line of metrics for every evaluation in it."""
        recipe, before = self.recipe, self.state
        odd = -step % recipe.stride  # steps to the next whole stride; a checkpoint of another device may be within one
        if odd:
            recipe = replace(recipe, stride=1)
        strides = timer.begin(odd or self._room(step) // recipe.stride)
        state, log, finite = self._advance(recipe, strides)
        log, finite = jax.device_get((log, finite))  # the only place where the host waits for the device
        steps, began = strides * recipe.stride, self.seconds
        self.seconds += timer.end(strides)
        if not finite.all():
            saved = checkpoint.newest(self.folder.checkpoints, last=self.config.steps)
            raise guards.diverged(self._one_step, before, steps, self.networks.seed, self._learning_rate, saved)
        self.state = state
        each = (self.seconds - began) / steps
        rows = [jax.tree.map(lambda x, i=i: x[i], log.rows) for i in range(log.filled)]
        return [results.line(row, self._since(int(row.step)), began + each * (int(row.step) - step)) for row in rows]

    def _room(self, step: int) -> int:
        """Return the steps until a block must end: at the last step, at a snapshot, or when the log is full."""
        every = self.config.eval_every
        evaluations = 1 if self.config.checkpoint_seconds == 0 else loop.ROWS
        weights = self.config.snapshots or self.config.steps
        return min(self.config.steps, (step // every + evaluations) * every, (step // weights + 1) * weights) - step

    def _one_step(self, state: State) -> tuple[State, Any]:
        """Return the state after a single step without an evaluation, and whether its numbers are finite."""
        recipe, no_evaluation = replace(self.recipe, stride=1), loop.Numbers(2**30, -1, self.config.learning_rate)
        given = (self.splits.train, self.splits.valid, self.networks, state)
        state, _, finite = loop.advance(recipe, *given, 1, no_evaluation)
        return state, finite

    def _since(self, step: int) -> int:
        """Mini-batches between the evaluation of this step and the one before."""
        return step - (step - 1) // self.config.eval_every * self.config.eval_every

    @property
    def _learning_rate(self) -> float | None:
        return None if "own_optimizer" in self.identity else self.config.learning_rate

    def _save(self) -> None:
        self.folder.flush()
        checkpoint.save(self.folder.checkpoints, self.state, self.seconds, self.identity, self.config.keep)

    def _test(self, batches: int | None = None) -> Scores:
        evaluation_set = task.evaluation_set(self.splits.test, task.TEST, self.config.test_samples, self.config.batch)
        count, given = evaluation_set.batches if batches is None else batches, (self.splits.test, self.networks)
        return loop.score(self.recipe.setup, evaluation_set, *given, self.state.best.params, count)

    def _finish(self) -> dict[str, Any]:
        """Test with the parameters that validated best, write the result, and return it."""
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
            test_accuracy_sem=_standard_error(accuracy),
            **task.facts(config, self.splits)._asdict(),
        )
        found = numbers(result)
        self.folder.write_result(found)
        return found

    def _how_to_resume(self, step: int) -> str:
        return (
            f"stopped at step {step} of {self.config.steps}, and saved. Go on with: otpe {self.verb} --resume --out"
            f" {self.home or self.folder.path} (in Python: resume=True)"
        )


def _standard_error(values: list[float]) -> float | None:
    """Return the standard error of the mean, None for a single value."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
