"""Every loop over time in the project, but for the oracles in `testing`, which share nothing with what they judge.

Two kinds, because they have different floors:

`recur`  an elementwise recurrence: at each step the carry and the slices of `xs` are combined number by
         number, with nothing but broadcasting between them. One pass over memory; a GPU kernel can walk all
         steps with the carry in registers.
`loop`   anything else, such as a whole network step with an optimizer update in it.

Nothing outside this folder knows how the steps are executed.
"""

from otpe.scan.plain import loop, recur

__all__ = ["loop", "recur"]
