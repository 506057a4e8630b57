"""Settings in groups.

A group is a frozen dataclass of settings that belong together, such as `NetworkSettings`. A config inherits the fields
of its groups, so its fields are flat. It can be made from flat settings, from groups, or from both:

    TrainConfig(hidden=(64,), steps=10)
    TrainConfig(network=NetworkSettings(hidden=(64,)), steps=10)

Only settings that a group was given explicitly count; the others keep the defaults of the config. This module does not
import jax.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from otpe.lab.synonyms import advice

Group = TypeVar("Group", bound="Nested")


class Nested:
    """Base of groups, and of configs that inherit several groups."""

    GROUPS: ClassVar[Mapping[str, type["Nested"]]] = {}  # of a config: the names and types of its groups

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse unknown settings, and remember which ones are given. `__init__` cannot tell them from defaults."""
        for name in given:
            check_name(f"{cls.__name__} has no setting", name, (*field_names(cls), *cls.GROUPS), TypeError)
        made = super().__new__(cls)
        made.__dict__["_given"] = given
        return made

    def __post_init__(self, *_: Any) -> None:
        """Take the settings that are given in groups."""
        if not self.GROUPS:
            return
        given, flat = self.__dict__.pop("_given"), field_names(type(self))
        for name, kind in self.GROUPS.items():
            group = given.get(name)
            if group is None or (name in flat and not isinstance(group, Nested)):  # such as optimizer="adam"
                continue
            if not {*type(group).__mro__} & {*kind.__mro__} - {Nested, object}:
                raise TypeError(f"{name} is {group!r}, expected {kind.__name__}(...) of otpe.lab.settings.")
            if name in flat:
                self.__dict__[name] = getattr(type(self), name)  # the default
            for key in group.__dict__.get("_given", field_names(kind)):
                check_name(f"{name} of {type(self).__name__} has no setting", key, field_names(kind), TypeError)
                value = getattr(group, key)
                if key != name and key in given:
                    check_agreement(name, key, given[key], value)
                self.__dict__[key] = value

    def group(self, kind: type[Group]) -> Group:
        """Return the settings of one group. A setting that this config does not have gets the default of the group."""
        return kind(**{name: getattr(self, name) for name in field_names(kind) if hasattr(self, name)})


def field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the settings of a config or group."""
    return tuple(field.name for field in fields(kind))


def field_types(kind: Any) -> dict[str, Any]:
    """Return the type of every setting. Parameters that stand for a whole group are left out."""
    types = get_type_hints(kind)
    return {name: types[name] for name in field_names(kind)}


def check_name(what: str, name: str, known: Iterable[str], error: type[Exception] = ValueError) -> None:
    """Raise an error if the name is not known. It names our word for a known synonym, else the most similar name."""
    known = [*known]
    if name not in known:
        if (sentence := advice(name, known)) is not None:
            raise error(f"{what} {name!r}. {sentence}")
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0)
        raise error(f"{what} {name!r}. Did you mean {nearest[0]!r}?")


def check_agreement(group: str, name: str, flat: Any, nested: Any) -> None:
    """Raise ValueError if a setting is given twice, flat and in a group, with different values."""
    flat, nested = (tuple(value) if isinstance(value, list) else value for value in (flat, nested))
    if flat != nested:
        raise ValueError(
            f"{name} is {flat!r} and {group}.{name} is {nested!r}: these contradict each other. Give only one of them."
        )


def flat_json(found: Mapping[str, Any], groups: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return the content of a config.json with the settings of nested groups as flat keys.

    `groups` are the names of the settings in each group. Raises ValueError for an unknown setting in a group, and for a
    flat setting that contradicts a nested one.
    """
    nested = {name: found[name] for name in groups if isinstance(found.get(name), dict)}
    flat = {name: value for name, value in found.items() if name not in nested}
    for group, settings in nested.items():
        for name, value in settings.items():
            check_name(f"the group {group} has no setting", name, groups[group])
            check_agreement(group, name, flat.get(name, value), value)
            flat[name] = value
    return flat
