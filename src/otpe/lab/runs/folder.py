"""A run that goes on with more steps than it had: the same as if it had had them from the start."""

import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

import jax
from filelock import BaseFileLock, FileLock, Timeout

import otpe
from otpe import contents, files
from otpe.lab.nested_settings import field_types
from otpe.lab.records import FORMAT, KINDS, SINGLE, checked_metrics, kind_of, read_config, read_json, read_metrics
from otpe.lab.runs import checkpoint, commit, results
from otpe.lab.settings import FREE, TrainConfig


def check_growth(config: TrainConfig, mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
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


def growth_note(config: TrainConfig, had: int) -> list[str]:
    """What the user should know of a run that had fewer steps: where it differs from a longer one."""
    if had % config.eval_every == 0:
        return []
    return [
        f"the run had {had:,} steps, and was evaluated at their end. A run of {config.steps:,} steps from the start has"
        f" no evaluation there, since eval_every is {config.eval_every:,}."
    ]


# --------------------
# The run folder: what was asked for, what was measured, what came out.
#
# config.json          every setting, versions, commit; written first, once
# metrics.jsonl        a line per evaluation
# checkpoints/         the state, the last few
# result.json          written last: a run that has it is finished
#
# One process at a time works in a folder: it holds a lock, which the system takes back even from a killed one.


RUNS = Path("runs")
SECONDS = 0.5  # between two writes of metrics
MOVES = ("device", "platform", "commit")  # what else tells on which machine, and by which source, a run went on


class Resumable(Protocol):
    """Settings of what works in a folder, and can go on there."""

    @property
    def out(self) -> Path | None: ...
    @property
    def resume(self) -> bool: ...


Config = TypeVar("Config", bound=Resumable)
Grown = Callable[[dict[str, Any]], dict[str, Any]]  # what is there, as it would be with the steps asked for now


@dataclass
class Folder:
    path: Path
    lock: BaseFileLock
    waiting: list[str] = field(default_factory=list)  # lines of metrics that are not written yet
    written: float = 0.0  # when lines were, last
    had: int | None = None  # steps of the run before it was made longer

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def read_result(self) -> dict[str, Any] | None:
        path = self.path / "result.json"
        return results.read(path) if path.exists() else None

    def write_result(self, result: dict[str, Any]) -> None:
        files.write_atomically(self.path / "result.json", json.dumps(result, indent=1) + "\n")

    def add(self, line: dict[str, Any]) -> None:
        """One more line of metrics. Where many come in a second, they are written together."""
        self.waiting.append(json.dumps(line) + "\n")
        if time.monotonic() - self.written > SECONDS:
            self._write()

    def settle(self) -> None:
        """What was added is on the disk: a checkpoint that is written now may rely on it."""
        self._write(to_disk=True)

    def metrics(self) -> list[dict[str, Any]]:
        return read_metrics(self.path)

    def go_on(self, step: int, measured: bool) -> list[str]:
        """The run goes on from this step, and measures again what comes after it. Returns what its user should know.

        `measured`: whether there must be lines of metrics until this step.
        """
        path, (lines, damage) = self.path / "metrics.jsonl", checked_metrics(self.path)
        text = "".join(json.dumps(line) + "\n" for line in lines if line["step"] <= step)
        if path.is_file() and path.read_bytes() != text.encode():
            files.write_atomically(path, text)
        tell = measured or (damage and path.is_file())
        notes = [f"{damage} The run goes on after step {step} all the same."] if damage and tell else []
        return notes + self._note_machine(step)

    def _note_machine(self, step: int) -> list[str]:
        """Other versions or another device than before are written down beside the earlier ones."""
        about, now = read_config(self.path), provenance()
        before = [about, *about.get("resumed", [])][-1]
        changed = [
            f"{name} is {now['versions'].get(name)}, was {version}"
            for name, version in before.get("versions", {}).items()
            if now["versions"].get(name) != version
        ]
        changed += [f"{name} is {now[name]}, was {before.get(name)}" for name in MOVES if now[name] != before.get(name)]
        if not changed:
            return []
        resumed = [*about.get("resumed", []), {"step": step, **now}]
        files.write_atomically(self.path / "config.json", json.dumps(about | {"resumed": resumed}, indent=1) + "\n")
        return [f"other versions from step {step} on: {'; '.join(changed)}. Numbers may differ in their last digits."]

    def close(self) -> None:
        try:
            if self.waiting:
                self._write()
        finally:
            self.lock.release()

    def _write(self, to_disk: bool = False) -> None:
        path, lines = self.path / "metrics.jsonl", "".join(self.waiting)
        self.waiting, self.written = [], time.monotonic()
        try:
            with files.append(path) as file:
                file.write(lines)
                file.flush()
                if to_disk:
                    os.fsync(file.fileno())
        except files.NotPlainError:
            raise
        except OSError as error:
            raise OSError(f"{path} cannot be written: {error.strerror}. Make room, and go on with resume") from None


def identity(config: Resumable, free: Sequence[str] = FREE) -> dict[str, Any]:
    """What makes a run this run and no other, as plain JSON."""
    return {name: value for name, value in plain(config).items() if name not in free}


def plain(config: Any) -> dict[str, Any]:
    """The settings as JSON has them."""
    return json.loads(json.dumps(asdict(config), default=str))


def opened(
    config: Resumable,
    names: Sequence[str],
    mine: dict[str, Any],
    *,
    kind: str = "train",
    about: Mapping[str, Any] = MappingProxyType({}),
    grown: Grown | None = None,
) -> Folder:
    """The folder of this run, locked: a new one with these names, or the one it was begun in, to be resumed.

    `about`: what else config.json is to say. `grown`: lets a run go on that had fewer steps.
    """
    stem = files.short_name(re.sub(r"[^\w.-]+", "-", "-".join(names)).lstrip(".-"))
    if config.out is None and config.resume:
        raise ValueError(
            f"resume is given without out: which run is to go on? Name its folder, such as {RUNS / stem}-001."
        )
    path = files.claim_folder(RUNS, stem) if config.out is None else Path(config.out)
    files.make_folder(path)
    check_strangers(path, "run")
    lock = locked(path)
    try:
        _check(path, config, mine, kind, grown)
        files.remove_partial(path)
        had = None
        if not (path / "config.json").exists():
            said = {"format": FORMAT, "kind": kind, **plain(config), **mine, **about, **provenance()}
            files.write_atomically(path / "config.json", json.dumps(said, indent=1) + "\n")
        elif grown is not None:
            had = _made_longer(path, mine["steps"])
    except BaseException:
        lock.release()
        raise
    return Folder(path, lock, had=had)


def _made_longer(path: Path, steps: int) -> int | None:
    """The run has so many steps from now on: its settings say so, and an earlier result is none. Returns what it had.

    The settings are written first, so that whatever ends the process in between, the next one finishes this.
    """
    found, had = read_config(path), None
    if found["steps"] != steps:
        had = found["steps"]
        found |= {"steps": steps, "made_longer": [*found.get("made_longer", []), {"from": had, "to": steps}]}
        files.write_atomically(path / "config.json", json.dumps(found, indent=1) + "\n")
    if (path / "result.json").is_file() and read_json(path / "result.json").get("steps", steps) != steps:
        (path / "result.json").unlink()
    return had


def provenance() -> dict[str, Any]:
    packages = ("jax", "jaxlib", "optax", "numpy", "safetensors")
    device = jax.devices()[0]
    return {
        "versions": {"otpe": otpe.__version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
        "commit": commit.of(Path(otpe.__file__).parent),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": f"{device.platform}: {device.device_kind}",
    }


def _check(path: Path, config: Resumable, mine: dict[str, Any], kind: str, grown: Grown | None) -> None:
    """Raise FileExistsError if the folder holds another run, or this run and `resume` is not set."""
    if not (path / "config.json").exists():
        return
    theirs = kind_of(read_config(path)) or kind
    if theirs != kind and not {theirs, kind} <= {*SINGLE}:
        raise FileExistsError(
            f"out is {str(path)!r}, which holds {KINDS[theirs]}, not {KINDS[kind]}. Name another folder."
        )
    known = read_settings(type(config), path)
    check_same(str(path), known if grown is None else grown(known), mine)
    if not config.resume:
        finished = any((path / name).exists() for name in ("result.json", "compare.json", "section.json"))
        newest = checkpoint.newest(path / "checkpoints")
        at = "which is finished" if finished else f"saved at {newest.stem}" if newest else "which is not finished"
        raise FileExistsError(
            f"out is {str(path)!r}, which holds this very run already, {at}. Say resume to"
            f" {'see its result' if finished else 'go on with it'}, or name another folder."
        )


def check_strangers(path: Path, what: str) -> None:
    """A folder that holds other things is refused before even a lock is put there."""
    others = sorted(p.name for p in path.iterdir() if not p.name.startswith("."))
    if others and not (path / "config.json").exists():
        raise FileExistsError(
            f"out is {str(path)!r}, which holds other things ({', '.join(others[:3])}), but no {what}. Name another"
            " folder."
        )


def check_same(where: str, theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """Refuse a run with other settings, and say which."""
    own = (name for name in theirs if name.startswith("own_") and name not in mine)  # a network, say
    differing = [name for name in (*mine, *own) if theirs.get(name) != mine.get(name)]
    if differing:
        listed = "; ".join(
            f"{name} was {contents.shown(theirs.get(name))}, now is {contents.shown(mine.get(name))}"
            for name in differing[:4]
        )
        more = f"; and {len(differing) - 4} more" if len(differing) > 4 else ""
        raise FileExistsError(
            f"{where} belongs to a run with other settings: {listed}{more}. Use the same ones, or another folder."
        )


def read_settings(kind: type[Resumable], path: Path) -> dict[str, Any]:
    """config.json of a run of this kind, and the defaults of settings that are newer than the run."""
    found, where = read_config(path), path / "config.json"
    with contents.reading(where, "Name another folder."):
        contents.typed(found, {name: hint for name, hint in field_types(kind).items() if name in found})
    return {**plain(kind()), **found}


def stored(kind: type[Config], path: Path) -> Config:
    """The settings of the run in this folder."""
    if not os.path.exists(path / "config.json"):
        raise FileNotFoundError(f"{path} holds no run: there is no config.json in it. Name the folder of one.")
    found = read_settings(kind, path)
    known: dict[str, Any] = {field.name: found[field.name] for field in fields(cast(Any, kind))}
    known = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    paths = {name: Path(known[name]) for name in ("root", "start") if known.get(name) is not None}
    return kind(**{**known, **paths, "out": path, "resume": False})


def locked(path: Path) -> BaseFileLock:
    """Lock a folder for this process and return the lock. The system releases it when the process ends or is killed."""
    name = path / ".lock"
    with files.append(name) as file:  # raises for a link, a pipe, a folder and a file with a second name
        if os.fstat(file.fileno()).st_size:  # filelock before 3.30 empties the file
            raise files.NotPlainError(f"{name} is not empty, but a lock of otpe is. Move it away.")
    lock = FileLock(name, timeout=0, thread_local=False)  # threads prepare runs, and another thread releases the lock
    try:
        lock.acquire()
    except Timeout:
        raise FileExistsError(
            f"out is {str(path)!r}, where another process is at work. Wait for it, or stop it."
        ) from None
    return lock
