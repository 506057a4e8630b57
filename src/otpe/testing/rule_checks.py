"""Checks for learning rules. Each takes a rule and raises an AssertionError that says what is wrong.

A check that does not apply to a rule returns the reason as text.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe import check as checked
from otpe.rulebook import Rule, rule, stepper
from otpe.testing.assertions import require, same
from otpe.testing.scenario import Scenario, assert_live, scenario
from otpe.training import gradients, online_pass

ONE_FORM = "the rule has only one form"
NO_STEPS = "the rule has no per-step form"


def check_rule(name: str | Rule, skip: str | Iterable[str] | Mapping[str, str] = ()) -> tuple[str, ...]:
    """Run all checks on a rule, and print which checks were skipped and why.

    Args:
      name: a rule, or the name of a rule.
      skip: names of checks that the rule need not pass, such as "exact without memory" for a rule with random feedback;
        or a dict from names to reasons.

    Returns:
      One line for each check that was skipped.
    """
    skip = skip if isinstance(skip, Mapping) else dict.fromkeys((skip,) if isinstance(skip, str) else skip, "")
    reasons = {_plain(check): reason or "listed in `skip`" for check, reason in skip.items()}
    checks = {_plain(getattr(check, "__name__", "")): check for check in CHECKS}
    for check in reasons:
        checked.one_of("check", check, checks)
    lines = []
    for check, run in checks.items():
        reason = reasons.get(check) or run(rule(name))
        if reason:
            lines.append(f"{check}: skipped, {reason}")
            print(f"{rule(name).name}: {lines[-1]}")
    return tuple(lines)


def _plain(name: Any) -> Any:
    """Return the name of a check for users, such as "exact without memory" for `check_exact_without_memory`."""
    return name.removeprefix("check_").replace("_", " ") if isinstance(name, str) else name


def check_output(rule: Rule) -> None:
    """The gradient has the shapes and types of the parameters and is finite, for a live and for a silent input."""
    case = _live_case()
    for spikes in (case.spikes, jnp.zeros_like(case.spikes)):
        loss, grads = gradients(case.net, case.params, spikes, case.labels, rule=rule)
        require(loss.shape == (), f"{rule.name}: the loss has the shape {loss.shape}, expected one number")
        for given, like in zip(jax.tree.leaves(grads), jax.tree.leaves(case.params), strict=True):
            require(given.shape == like.shape, f"{rule.name}: a gradient has the shape {given.shape}, not {like.shape}")
            require(given.dtype == like.dtype, f"{rule.name}: a gradient is of type {given.dtype}, not {like.dtype}")
            require(jnp.isfinite(given).all(), f"{rule.name}: a gradient is not finite")


def check_forms_agree(rule: Rule) -> str | None:
    """The whole-sequence form equals the per-step form summed over time, with dense and with factored traces."""
    if not (rule.has_whole and rule.has_steps):
        return ONE_FORM
    for case in (_live_case(), scenario((4, 9, 6, 5, 3), leak=(0.95, 0.6, 0.8, 0.9), seed=1)):
        assert_live(case)
        expected = gradients(*case, rule=rule, form="whole")
        for traces in ("dense", "factored"):
            given = gradients(*case, rule=rule, form="steps", traces=traces)
            same(given, expected, f"{rule.name}: per-step form with {traces} traces, and whole-sequence form")
    return None


def check_exact_without_memory(rule: Rule) -> None:
    """With one time step, or with leak 0, neurons have no memory, so every rule is exact."""
    for case in (scenario(steps=1), scenario(leak=0.0)):
        assert_live(case)
        same(gradients(*case, rule=rule), _bptt(case, rule), f"{rule.name} without memory, and BPTT")


def check_batch(rule: Rule) -> None:
    """Samples are independent: the gradient of a batch is the mean of the gradients of its samples."""
    case = _live_case()
    net, params, spikes, labels = case
    alone = [gradients(net, params, spikes[:, b : b + 1], labels[b : b + 1], rule=rule) for b in range(len(labels))]
    mean = jax.tree.map(lambda *g: sum(g) / len(g), *alone)
    same(gradients(*case, rule=rule), mean, f"{rule.name}: a batch, and the mean over its samples one by one")


def check_causal(rule: Rule) -> str | None:
    """Online, the losses up to a step do not depend on later inputs."""
    if not rule.has_steps:
        return NO_STEPS
    (net, params, spikes, labels), optimizer = _live_case(), optax.sgd(0.05)
    half, opt_state = len(spikes) // 2, optimizer.init(params)
    changed = spikes.at[half:].set(1 - spikes[half:])
    for traces in ("dense", "factored") if rule.has_whole else ("dense",):
        run = partial(online_pass, net, params, opt_state, rule=rule, optimizer=optimizer, traces=traces)
        before, after = (run(x, labels)[2] for x in (spikes, changed))
        what = f"{rule.name}: losses of two sequences with {traces} traces, before the sequences differ,"
        same(after[:half], before[:half], what)
    return None


def check_state_does_not_grow(rule: Rule) -> str | None:
    """The per-step state keeps its shapes and types, and stays finite, however long the stream."""
    if not rule.has_steps:
        return NO_STEPS
    case = _live_case()
    form = stepper(case.net, rule, traces="dense")
    first = state = form.init(batch=case.labels.shape[0], dtype=case.spikes.dtype)
    advance = jax.jit(form.advance)
    for t in range(200):
        state, _ = advance(case.params, state, case.spikes[t % len(case.spikes)])
    shapes = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(s)] for s in (first, state)]
    require(shapes[0] == shapes[1], f"{rule.name}: the state changed from {shapes[0]} to {shapes[1]} along a stream")
    require(all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state)), f"{rule.name}: the state is not finite")
    return None


def check_transforms(rule: Rule) -> None:
    """The rule works inside `jax.jit` and `jax.vmap`, and two equal calls give equal gradients."""
    case = _live_case()
    expected = gradients(*case, rule=rule)
    again = gradients(*case, rule=rule)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(expected), strict=True):
        require(np.array_equal(a, b), f"{rule.name}: two calls with the same arguments gave different gradients")

    def loss_and_grads(params: Any) -> Any:
        return gradients(case.net, params, case.spikes, case.labels, rule=rule)

    pair = jax.tree.map(lambda p: jnp.stack([p, 0.9 * p]), case.params)
    given = jax.tree.map(lambda g: g[0], jax.jit(jax.vmap(loss_and_grads))(pair))
    same(given, expected, f"{rule.name}: inside jit and vmap, and outside")


CHECKS: tuple[Callable[[Rule], str | None], ...] = (
    check_output, check_forms_agree, check_exact_without_memory, check_batch, check_causal, check_state_does_not_grow,
    check_transforms,
)  # fmt: skip


def _live_case() -> Scenario:
    case = scenario()
    assert_live(case)
    return case


def _bptt(case: Scenario, like: Rule) -> Any:
    return gradients(*case, rule=rule("bptt", readout=like.readout))
