"""The rules by name: the paper's eight, and the depth-aware four. Each is a composition of local rules.

To compose your own, put any two local rules together and pass the result wherever a name goes:

    rule = otpe.Rule("mine", hidden=otpe.Otpe(order=2), output=otpe.Ostl())
"""

from dataclasses import replace

from otpe import check
from otpe.losses import Loss, LossChoice, Readout, named
from otpe.rulebook.approx import Approx
from otpe.rulebook.bptt import Bptt
from otpe.rulebook.ostl import Ostl
from otpe.rulebook.otpe import Otpe
from otpe.rulebook.ottt import Ottt
from otpe.rulebook.rtrl import Rtrl
from otpe.rulebook.rule import NonLocal, PerStep, Rule, WholeSequence

_DEEP_OTPE = Otpe(order="depth", stage_leak="mean-reset")
_DEEP_APPROX = Approx(order="depth", stage_leak="mean-reset")

NAMED = {
    rule.name: rule
    for rule in (
        #    name                  hidden layers  output layer     what the loss sees
        Rule("bptt",               Bptt(),        Bptt()),
        Rule("rtrl",               Rtrl(),        Rtrl()),
        Rule("ostl",               Ostl(),        Ostl()),
        Rule("ottt",               Ottt(),        Ottt()),
        Rule("otpe",               Otpe(),        Ostl()),
        Rule("approx-otpe",        Approx(),      Ottt()),
        Rule("f-otpe",             Otpe(),        Otpe(),          readout="leaky"),
        Rule("f-approx-otpe",      Approx(),      Approx(),        readout="leaky"),
        Rule("deep-otpe",          _DEEP_OTPE,    Ostl()),
        Rule("approx-deep-otpe",   _DEEP_APPROX,  Ottt()),
        Rule("f-deep-otpe",        _DEEP_OTPE,    _DEEP_OTPE,      readout="leaky"),
        Rule("f-approx-deep-otpe", _DEEP_APPROX,  _DEEP_APPROX,    readout="leaky"),
    )
}  # fmt: skip


def rules() -> tuple[str, ...]:
    """The names of all learning rules."""
    return tuple(NAMED)


def rule(name: str | Rule, readout: Readout | None = None) -> Rule:
    """The rule of that name. `readout` changes what its loss looks at: "spikes" or their "leaky" sum.

    `rule("bptt", readout="leaky")` is the exact gradient that the F- rules estimate.
    """
    if isinstance(name, PerStep | WholeSequence | NonLocal):
        raise TypeError(
            f"rule is {name!r}, which is for one layer, expected a name or a composition:"
            f" otpe.Rule('mine', hidden={name!r}, output={name!r})."
        )
    if not isinstance(name, Rule):
        check.one_of("rule", name, NAMED)
    found = name if isinstance(name, Rule) else NAMED[name]
    if readout is None:
        return found
    return replace(found, readout=readout)


def rule_and_loss(name: str | Rule, loss: LossChoice) -> tuple[Rule, Loss]:
    """Both as values. What the loss sees, if it says so, goes before what the rule says."""
    found = named(loss)
    return rule(name, found.readout), found
