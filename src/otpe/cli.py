"""The `otpe` command: one verb per job. Thin: a verb is a dataclass of settings, and a function that takes them.

That function checks all input, raises ValueError, TypeError or OSError with a sentence, and returns the job itself,
which returns an exit status. So bad input is told before anything is computed, and a bug still shows its traceback.
Nothing here imports jax; modules are named, and imported when their verb is called.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import otpe
from otpe import compile_cache
from otpe.lab.signals import CtrlC

INTERRUPTED = 130  # the exit status of a program that Ctrl-C ended


class Verb(NamedTuple):
    summary: str
    config: str  # module:name of the dataclass
    prepare: str  # module:name of the function: settings -> job
    defaults: str | None = None  # module:name of a function: arguments -> settings that stand for those not given


VERBS = {
    "train": Verb(
        "train a network by one rule, offline or online",
        config="otpe.lab.settings:TrainConfig",
        prepare="otpe.lab.verbs:prepare_train",
        defaults="otpe.lab.verbs:stored_train",
    ),
    "compare": Verb(
        "train by several rules on the same mini-batches, and compare them",
        config="otpe.lab.settings:CompareConfig",
        prepare="otpe.lab.verbs:prepare_compare",
        defaults="otpe.lab.verbs:stored_compare",
    ),
    "align": Verb(
        "train by BPTT, and compare other rules' gradients with its own on the way",
        config="otpe.lab.settings:AlignConfig",
        prepare="otpe.lab.verbs:prepare_align",
        defaults="otpe.lab.verbs:stored_align",
    ),
    "landscape": Verb(
        "the loss around a training run, and where each rule went",
        config="otpe.lab.settings:LandscapeConfig",
        prepare="otpe.lab.verbs:prepare_landscape",
        defaults="otpe.lab.verbs:stored_landscape",
    ),
    "sweep": Verb(
        "train at every point of a grid over any settings, and draw maps of the accuracy",
        config="otpe.lab.settings:SweepConfig",
        prepare="otpe.lab.verbs:prepare_sweep",
        defaults="otpe.lab.verbs:stored_sweep",
    ),
    "reproduce": Verb(
        "every table and figure of the paper, into one report",
        config="otpe.lab.settings:ReproduceConfig",
        prepare="otpe.lab.verbs:prepare_reproduce",
    ),
    "report": Verb(
        "put runs and studies into one page, beside the paper's numbers",
        config="otpe.lab.settings:ReportConfig",
        prepare="otpe.lab.report.page:prepare",
    ),
    "stream": Verb(
        "learn from a stream while it comes: events on standard input, files, worlds that change",
        config="otpe.lab.settings:StreamConfig",
        prepare="otpe.stream.session:prepare",
        defaults="otpe.stream.session:stored",
    ),
    "bench": Verb(
        "time, memory and state of every rule, and how they grow",
        config="otpe.lab.settings:BenchConfig",
        prepare="otpe.lab.bench.bench:prepare",
    ),
    "data": Verb(
        "fetch, verify, summarise and draw a dataset",
        config="otpe.lab.settings:DataConfig",
        prepare="otpe.lab.explore.explore:prepare",
    ),
}


def main(args: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process, and return its exit status.

    With those of the process, Ctrl-C ends the process itself, with all its threads.
    """
    pressed = CtrlC(ends_process=args is None)
    try:
        status = _interrupted(pressed, sys.argv[1:] if args is None else args)
    finally:
        if args is not None:
            pressed.stop_listening()
    if args is None and pressed.pressed:
        pressed.leave(status)
    return status


def _interrupted(pressed: CtrlC, args: Sequence[str]) -> int:
    """Ctrl-C at any time ends it with one line."""
    try:
        pressed.listen()
        status = _main(pressed, args)
        pressed.over = True
    except KeyboardInterrupt as stop:
        return _stopped(stop)
    except Exception as error:
        if pressed.raised:
            return _stopped(KeyboardInterrupt())
        if not _no_memory(error):
            raise
        why = str(error).partition("\n")[0].rstrip(".")
        print(f"otpe: there is too little memory{why and f': {why}'}. Make what is asked for smaller.", file=sys.stderr)
        return 1
    return _stopped(KeyboardInterrupt()) if pressed.pressed and status == 0 else status


def _main(pressed: CtrlC, args: Sequence[str]) -> int:
    _open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name that this terminal cannot show is no reason to fail
    verb, *rest = [*args] or ["--help"]
    if pressed.ends_process and compile_cache.FLAG not in rest:
        compile_cache.enable()
    rest = [word for word in rest if word != compile_cache.FLAG]
    if verb in ("-h", "--help"):
        print(usage())
        return 0
    if verb == "--version":
        print(f"otpe {otpe.__version__}")
        return 0
    try:
        job = prepare(verb, rest, pressed)
    except BrokenPipeError:  # as in `otpe train --help | head`: the reader has seen enough
        return _nobody_reads()
    except (ValueError, TypeError, OSError) as error:
        if pressed.raised:  # it broke off an import
            raise
        print(f"otpe: {_text(error)}", file=sys.stderr)
        return 2
    from otpe import contents

    try:
        status = job()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return _nobody_reads()
    except (OSError, contents.ContentError) as error:  # a full disk or a damaged file, say: no bug
        print(f"otpe: {_text(error).rstrip('.')}. What was written until then is kept.", file=sys.stderr)
        return 1
    except FloatingPointError as error:  # weights that have become infinite, say
        print(f"otpe: {error}.", file=sys.stderr)
        return 1


def prepare(verb: str, args: list[str], pressed: CtrlC) -> Callable[[], int]:
    if verb not in VERBS:
        from otpe import check

        check.one_of("verb", verb, VERBS)
    if not find_spec("tyro"):
        raise OSError("the command line needs tyro, which is not installed. Use: pip install 'otpe[cli]'")
    pressed.waiting = True
    import tyro

    found, defaults = VERBS[verb], None
    kind, stored = _load(found.config), _load(found.defaults) if found.defaults and "--resume" in args else None
    pressed.check()
    if stored is not None:
        defaults = stored(args)
    known = {} if defaults is None else {"default": defaults}
    config = tyro.cli(kind, prog=f"otpe {verb}", args=args, config=(tyro.conf.FlagCreatePairsOff,), **known)
    pressed.waiting = True
    make = _load(found.prepare)
    pressed.check()
    return make(config)


def usage() -> str:
    verbs = "\n".join(f"  {name:10} {verb.summary}" for name, verb in VERBS.items())
    return f"""usage: otpe VERB [OPTIONS]

Online training of spiking neural networks.

{verbs}

`otpe VERB --help` lists the options of a verb, `otpe --version` the version.
Compiled programs are kept for the next command. {compile_cache.FLAG}, or OTPE_COMPILATION_CACHE=off, turns this off."""


def _no_memory(error: Exception) -> bool:
    """Of Python, numpy or a device."""
    return isinstance(error, MemoryError) or (
        type(error).__name__ == "JaxRuntimeError" and "RESOURCE_EXHAUSTED" in str(error)
    )


def _text(error: Exception) -> str:
    """What went wrong; of an error of the system, with the file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def _nobody_reads() -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _open_streams() -> None:
    """Those that are closed lead nowhere. Else the next file would be opened under their number, and be written to."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _stopped(stop: KeyboardInterrupt) -> int:
    with suppress(OSError):  # a terminal that has gone away
        print(f"\notpe: {stop if stop.args else 'stopped.'}", file=sys.stderr, flush=True)
    return getattr(stop, "status", INTERRUPTED)


def _load(where: str) -> Any:
    module, name = where.split(":")
    return getattr(import_module(module), name)


if __name__ == "__main__":
    raise SystemExit(main())
