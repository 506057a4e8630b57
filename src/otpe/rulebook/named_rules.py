"""The named rules: the paper's eight and the four depth-aware ones. Each is a composition of local rules.

To add a rule to otpe, write it in a file of this folder, add a line to `NAMED` below, and describe it in a page of
`docs/concepts/rules`. The command line, figures, growth tables, the index of the pages and the tests follow.

To make your own composition, combine any two local rules. Pass the result wherever a rule name is accepted:

    rule = otpe.Rule("mine", hidden=otpe.Otpe(order=2), output=otpe.Ostl())
"""

from dataclasses import replace

from otpe import check
from otpe.losses import Loss, LossChoice, Readout, as_loss
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
    """The rule of that name, or the given composition.

    `readout` changes what the loss sees: "spikes", or their "leaky" sum. `rule("bptt", readout="leaky")` is the exact
    gradient that the F- rules estimate.
    """
    if isinstance(name, PerStep | WholeSequence | NonLocal):
        raise TypeError(
            f"rule is {name!r}, which is for one layer, expected a name or a composition:"
            f" otpe.Rule('mine', hidden={name!r}, output={name!r})."
        )
    if not isinstance(name, Rule):
        check.one_of("rule", name, NAMED)
    composition = name if isinstance(name, Rule) else NAMED[name]
    return composition if readout is None else replace(composition, readout=readout)


def rule_and_loss(name: str | Rule, loss: LossChoice) -> tuple[Rule, Loss]:
    """The rule and the loss as objects. The loss's readout, if it has one, replaces the rule's readout."""
    chosen = as_loss(loss)
    return rule(name, chosen.readout), chosen
