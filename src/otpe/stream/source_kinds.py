"""The kinds of sources of `otpe stream`, and the settings that each of them uses. This module does not import jax."""

from typing import Any, NamedTuple


class SourceKind(NamedTuple):
    """An entry of the registry."""

    title: str  # in messages
    short: str  # in the help
    opener: str  # module:function, (settings, kind, bad) -> Source
    uses: tuple[str, ...]  # settings that other kinds may have no use for


RECORDED = ("dt", "binary", "pool", "on_bad")
EVENTS = (*RECORDED, "form", "labels", "max_gap", "gap")
KINDS = {
    "randman": SourceKind(
        "t-randman and r-randman",
        "t-randman, r-randman",
        "otpe.stream.sources:open_randman",
        ("manifolds", "dims", "alpha", "time_steps", "changes"),
    ),
    "recordings": SourceKind(
        "recordings",
        "recordings",
        "otpe.stream.sources:open_recordings",
        (*RECORDED, "bins", "shuffle", "epochs", "changes"),
    ),
    "text": SourceKind("files of events", "text", "otpe.stream.sources:open_events", EVENTS),
    "standard input": SourceKind("standard input", "standard input", "otpe.stream.sources:open_events", EVENTS),
}


def users(setting: str) -> tuple[str, ...]:
    """Return the kinds of sources that use a setting, as the help shows them. Empty if it is not only for some."""
    return tuple(kind.short for kind in KINDS.values() if setting in kind.uses)


def check_use(kind: str, name: str, value: Any) -> None:
    """Raise ValueError if sources of this kind do not use a setting, which has this value."""
    titles = [each.title for each in KINDS.values() if name in each.uses]
    if titles and name not in KINDS[kind].uses:
        raise ValueError(
            f"{name} is {value!r}, which is of no use for {KINDS[kind].title}: it is for {' and '.join(titles)}."
        )
