"""A run that goes on with more steps than it had: the same as if it had had them from the start."""

from typing import Any

from otpe.runs.config import TrainConfig


def check(config: TrainConfig, mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """What the folder says of the run, with the larger number of steps where that is the only difference."""
    had = theirs.get("steps")
    others = [name for name in mine if name != "steps" and theirs.get(name) != mine[name]]
    if not (config.resume and isinstance(had, int) and had < config.steps) or others:
        return theirs
    if config.schedule != "constant":
        raise ValueError(
            f"steps was {had}, now is {config.steps}, but the {config.schedule} schedule reaches its final rate at the"
            " last step, so a longer run is another run from the start. Train it in another folder. To go on from the"
            " weights of this one: start."
        )
    return {**theirs, "steps": config.steps}


def note(config: TrainConfig, had: int) -> list[str]:
    """What the user should know of a run that had fewer steps: where it differs from a longer one."""
    if had % config.eval_every == 0:
        return []
    return [
        f"the run had {had:,} steps, and was evaluated at their end. A run of {config.steps:,} steps from the start has"
        f" no evaluation there, since eval_every is {config.eval_every:,}."
    ]
