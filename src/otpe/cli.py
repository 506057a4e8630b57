"""The `otpe` command: one verb per job. Thin: a verb is a dataclass of settings, and a function that takes them.

That function checks all input, raises ValueError, TypeError or OSError with a sentence, and returns the job itself,
which returns an exit status. So bad input is told before anything is computed, and a bug still shows its traceback.
Nothing here imports jax; modules are named, and imported when their verb is called.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import otpe

INTERRUPTED = 130  # the exit status of a program that Ctrl-C ended


class Verb(NamedTuple):
    summary: str
    config: str  # module:name of the dataclass
    prepare: str  # module:name of the function: settings -> job
    defaults: str | None = None  # module:name of a function: arguments -> settings that stand for those not given


VERBS = {
    "train": Verb(
        "train a network by one rule, offline or online",
        config="otpe.runs.config:TrainConfig",
        prepare="otpe.runs.verbs:prepare_train",
        defaults="otpe.runs.verbs:stored_train",
    ),
    "compare": Verb(
        "train by several rules on the same mini-batches, and compare them",
        config="otpe.runs.config:CompareConfig",
        prepare="otpe.runs.verbs:prepare_compare",
        defaults="otpe.runs.verbs:stored_compare",
    ),
    "align": Verb(
        "train by BPTT, and compare other rules' gradients with its own on the way",
        config="otpe.studies.config:AlignConfig",
        prepare="otpe.studies.verbs:prepare_align",
        defaults="otpe.studies.verbs:stored_align",
    ),
    "landscape": Verb(
        "the loss around a training run, and where each rule went",
        config="otpe.studies.config:LandscapeConfig",
        prepare="otpe.studies.verbs:prepare_landscape",
        defaults="otpe.studies.verbs:stored_landscape",
    ),
    "sweep": Verb(
        "train at every point of a grid over any settings, and draw maps of the accuracy",
        config="otpe.studies.config:SweepConfig",
        prepare="otpe.studies.verbs:prepare_sweep",
        defaults="otpe.studies.verbs:stored_sweep",
    ),
    "reproduce": Verb(
        "every table and figure of the paper, into one report",
        config="otpe.paper.config:ReproduceConfig",
        prepare="otpe.paper.verbs:prepare",
    ),
    "report": Verb(
        "put runs and studies into one page, beside the paper's numbers",
        config="otpe.reporting.config:ReportConfig",
        prepare="otpe.reporting.run:prepare",
    ),
    "stream": Verb(
        "learn from a stream while it comes: events on standard input, files, worlds that change",
        config="otpe.stream.command.config:StreamConfig",
        prepare="otpe.stream.command.verbs:prepare",
        defaults="otpe.stream.command.verbs:stored",
    ),
    "bench": Verb(
        "time, memory and state of every rule, and how they grow",
        config="otpe.bench.config:BenchConfig",
        prepare="otpe.bench.run:prepare",
    ),
    "data": Verb(
        "fetch, verify, summarise and draw a dataset",
        config="otpe.explore.config:DataConfig",
        prepare="otpe.explore.run:prepare",
    ),
}


def main(args: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process, and return its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name that this terminal cannot show is no reason to fail
    verb, *rest = [*(sys.argv[1:] if args is None else args)] or ["--help"]
    if verb in ("-h", "--help"):
        print(usage())
        return 0
    if verb == "--version":
        print(f"otpe {otpe.__version__}")
        return 0
    try:
        job = prepare(verb, rest)
    except BrokenPipeError:  # as in `otpe train --help | head`: the reader has seen enough
        return _nobody_reads()
    except (ValueError, TypeError, OSError) as error:
        print(f"otpe: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        return _stopped(stop)
    try:
        return job()
    except BrokenPipeError:
        return _nobody_reads()
    except OSError as error:  # a full disk, say: no bug
        print(f"otpe: {str(error).rstrip('.')}. What was written until then is kept.", file=sys.stderr)
        return 1
    except FloatingPointError as error:  # weights that have become infinite, say
        print(f"otpe: {error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        return _stopped(stop)


def prepare(verb: str, args: list[str]) -> Callable[[], int]:
    if verb not in VERBS:
        from otpe import check

        check.one_of("verb", verb, VERBS)
    if not find_spec("tyro"):
        raise OSError("the command line needs tyro, which is not installed. Use: pip install 'otpe[cli]'")
    import tyro

    found, defaults = VERBS[verb], None
    if found.defaults and "--resume" in args:
        defaults = _load(found.defaults)(args)
    known = {} if defaults is None else {"default": defaults}
    options = (tyro.conf.FlagCreatePairsOff,)
    config = tyro.cli(_load(found.config), prog=f"otpe {verb}", args=args, config=options, **known)
    return _load(found.prepare)(config)


def usage() -> str:
    verbs = "\n".join(f"  {name:10} {verb.summary}" for name, verb in VERBS.items())
    return f"""usage: otpe VERB [OPTIONS]

Online training of spiking neural networks.

{verbs}

`otpe VERB --help` lists the options of a verb, `otpe --version` the version."""


def _nobody_reads() -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _stopped(stop: KeyboardInterrupt) -> int:
    print(f"\notpe: {stop if stop.args else 'stopped.'}", file=sys.stderr)
    return getattr(stop, "status", INTERRUPTED)


def _load(where: str) -> Any:
    module, name = where.split(":")
    return getattr(import_module(module), name)


if __name__ == "__main__":
    raise SystemExit(main())
