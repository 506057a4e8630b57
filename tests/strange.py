"""Altered JSON: at every place, a value is removed, null, of another type, or nested very deep."""

import copy
import json
import random

DEEP = "nested deep"
NESTED = {DEEP: "[" * 100_000 + "]" * 100_000}
GONE = object()
CHANGES = (GONE, None, "x", -1.5, [{}], DEEP)
TEXTS = (
    "",
    "{",
    "5",
    "null",
    "[]",
    '"x"',
    "[" * 100_000,
    "[" * 300 + "]" * 300,
    "9" * 5000,
    '{"a": ' * 2000 + "1" + "}" * 2000,
)


def places(value, here=()):
    """Yield the place of every value. Of a list, only the first entry counts."""
    inside = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*here, key)
        yield from places(inner, (*here, key))


def texts(value, most=10**6):
    """Every change at every place, as JSON: at most `most` of them."""
    changes = [(place, change) for place in places(value) for change in CHANGES]
    for place, change in random.Random(0).sample(changes, min(most, len(changes))):
        yield text(changed(value, place, change))


def changed(value, place, change):
    altered = copy.deepcopy(value)
    inner = altered
    for key in place[:-1]:
        inner = inner[key]
    if change is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = change
    return altered


def text(value):
    encoded = json.dumps(value)
    for name, nested in NESTED.items():
        encoded = encoded.replace(f'"{name}"', nested)
    return encoded


def refusals(call, candidates, name):
    """Count the texts that the call refuses. Every refusal must contain this name."""
    answers = [(each, refusal(call, each)) for each in candidates]
    for each, error in answers:
        if error is not None:
            assert str(name) in error, f"{each[:300]}: {error}"
            assert len(error) < 1000
    return sum(error is not None for _, error in answers)


def refusal(call, each):
    try:
        call(each)
    except (ValueError, TypeError, OSError) as error:
        return str(error)
