"""User networks, rules, losses and data, and all kinds of network that settings can describe."""

import json
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_grids import CONFIG, MINE, RULE, SHAPE, grid, splits
from tiny_runs import TINY, arguments

import otpe
from otpe import cli
from otpe.lab.report import finder
from otpe.lab.runs import build_network
from otpe.lab.studies.landscapes import prepared_landscape

MEMBRANE = otpe.network(
    8, [(otpe.layers.dense(6), otpe.LIF(0.9, 0.3)), (otpe.layers.dense(3), otpe.LeakyIntegrator(0.9))]
)


def stretched(logits, target):
    """A user's loss."""
    return (jnp.abs(logits - jax.nn.one_hot(target, logits.shape[-1])) ** 1.5).mean(-1)


# Networks from settings


def test_dense_networks_from_settings_equal_otpe_dense():
    assert build_network.network(TINY, 8, 3) == otpe.dense([8, 6, 3], leak=TINY.leak, threshold=0.3)


def test_settings_describe_every_kind_of_network():
    common = {"threshold": 0.3, "surrogate": otpe.fast_sigmoid(25.0)}
    leaks = otpe.Uniform(0.5, 0.8), otpe.Uniform(0.5, 0.8, seed=1)
    cuba = replace(
        TINY, neuron="cuba", leak=0.5, leak_to=0.8, current_leak=0.6, learn_leak="neuron", learn_current_leak="layer"
    )
    expected = [otpe.CubaLIF(leak, 0.6, **common, learn_leak="neuron", learn_current_leak=True) for leak in leaks]
    assert build_network.network(cuba, 8, 3).neurons == (*expected,)
    adaptive = replace(
        TINY, neuron="adaptive", leak=0.5, adaptation_leak=0.9, adaptation_strength=2.0, readout="integrator"
    )
    adaptive = replace(adaptive, learn_leak="layer")
    expected = (otpe.AdaptiveLIF(0.5, 0.9, 2.0, **common, learn_leak=True), otpe.LeakyIntegrator(0.5, learn_leak=True))
    assert build_network.network(adaptive, 8, 3).neurons == expected
    conv = replace(TINY, conv=(4, 5), conv_kernel=5, conv_stride=2, conv_pool=2)
    assert [layer.out_shape for layer in build_network.network(conv, (2, 34, 34), 3).layers] == [
        (4, 17, 17),
        (5, 4, 4),
        (6,),
        (3,),
    ]
    assert build_network.network(replace(TINY, hidden=()), (2, 3, 3), 3).layers[0].in_shape == (18,)


def test_a_convolutional_network_from_settings_is_loaded_again(tmp_path):
    config = otpe.TrainConfig(
        **CONFIG, conv=(3,), conv_pool=2, neuron="cuba", readout="integrator", loss="membrane", out=tmp_path / "a"
    )
    config = replace(config, learn_leak="layer", rate=0.1, rate_weight=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # membranes are not rates, so no layer counts as silent
        result = otpe.train(config, data=splits())
    assert result.net == build_network.network(config, SHAPE, 3)
    again = otpe.load(tmp_path / "a")
    assert again.net == result.net
    jax.tree.map(np.testing.assert_array_equal, again.params, result.params)
    net, params = otpe.load_network(otpe.save(tmp_path / "net.safetensors", again.net, again.params[0]))
    warm = otpe.train(replace(config, out=tmp_path / "b", start=tmp_path / "net.safetensors"), data=splits())
    assert warm.net == net
    assert jax.tree.structure(params) == jax.tree.structure(warm.params[0])
    batch = grid().batch(0, 0, 4)
    assert otpe.train(replace(config, out=tmp_path / "a", resume=True), data=splits()).loss == result.loss
    assert result.net.run(result.params[0], batch.spikes).shape == (5, 4, 3)


def test_data_on_a_grid_is_flat_for_dense_layers(tmp_path):
    config = otpe.TrainConfig(**CONFIG, mode="online", out=tmp_path / "run")
    result = otpe.train(config, data=splits())
    assert [layer.in_shape for layer in result.net.layers] == [(32,), (5,)]
    assert otpe.load(tmp_path / "run").net == result.net


def test_the_command_line_sets_neuron_readout_and_loss(tmp_path):
    line = arguments(
        TINY, steps=4, neuron="cuba", current_leak=0.7, readout="integrator", loss="mse", out=tmp_path / "run"
    )
    assert cli.main(["train", *line]) == 0
    loaded = otpe.load(tmp_path / "run")
    assert [type(neuron).__name__ for neuron in loaded.net.neurons] == ["CubaLIF", "LeakyIntegrator"]
    assert cli.main(["train", "--resume", "--out", str(tmp_path / "run")]) == 0


# User parts in every command


def test_user_parts_work_in_every_command(tmp_path):
    """A user's map, neuron, loss and rule, and data on a grid."""
    own = {"net": MINE, "loss": stretched, "data": splits()}
    for again in (False, True):
        config = otpe.TrainConfig(**CONFIG, mode="online", out=tmp_path / "train", resume=again)
        result = otpe.train(config, rule=RULE, **own)
        assert (result.rule, result.net) == ("mixed", MINE)
    compare = otpe.CompareConfig(**CONFIG, rules=(), out=tmp_path / "compare")
    assert [r.rule for r in otpe.compare(compare, rules=RULE, **own)] == ["mixed"]
    assert "mixed" in (tmp_path / "compare" / "table.txt").read_text()
    alignments = otpe.align(otpe.AlignConfig(**CONFIG, rules=(), out=tmp_path / "align"), rules=[RULE], **own)
    assert np.isfinite(alignments["mixed"].cosine[..., 0]).all()
    for again in (False, True):
        sweep = otpe.SweepConfig(**CONFIG, rules=(), over=("learning_rate=0.03",), out=tmp_path / "sweep", resume=again)
        assert otpe.sweep(sweep, rules=[RULE], **own).rules == ("mixed",)
    look = otpe.LandscapeConfig(**CONFIG, rules=("bptt",), grid=2, snapshots=1, out=tmp_path / "landscape")
    assert np.isfinite(prepared_landscape(look, **own)()[0].landscape.loss).all()
    reported = finder.search([tmp_path])
    assert {each.state for each in reported} == {"finished"}
    sections = {each.path.name: each.section for each in reported}
    assert sections["train"].title.startswith("mixed, online, on ")
    assert "with a rule, a network and a loss from Python code" in sections["train"].remarks[-1]
    assert sections["train"].settings["loss"] == "stretched"
    assert sections["train"].command == sections["compare"].command == sections["sweep"].command == ""
    with pytest.raises(ValueError, match=r"a network of your own. Hand it over"):
        otpe.load(tmp_path / "train")
    assert otpe.load(tmp_path / "train", net=MINE).net is MINE


def test_a_network_described_by_the_folder_is_not_given_again(tmp_path):
    config = replace(TINY, steps=4, out=tmp_path / "run")
    first = otpe.train(config, net=MEMBRANE)
    assert cli.main(["train", "--resume", "--out", str(tmp_path / "run"), "--steps", "8"]) == 0
    longer = otpe.load(tmp_path / "run")
    assert (longer.net, longer.steps, first.steps) == (MEMBRANE, 8, 4)
    warm = otpe.train(replace(TINY, steps=4, out=tmp_path / "warm", start=tmp_path / "run"), net=MEMBRANE)
    assert warm.net == MEMBRANE


# User rules by name


def test_a_user_rule_is_recorded_by_its_name(tmp_path, capsys):
    config = replace(TINY, steps=4, out=tmp_path / "run")
    otpe.train(config, rule=RULE)
    for name in ("config.json", "result.json"):
        assert json.loads((tmp_path / "run" / name).read_text())["rule"] == "mixed"
    (result,) = finder.search([tmp_path])
    assert result.section.title == "mixed, offline, on t-randman"
    assert otpe.train(replace(config, resume=True), rule=RULE).rule == "mixed"
    assert cli.main(["train", "--resume", "--out", str(tmp_path / "run")]) == 2
    assert "belongs to a run by a rule of your own, 'mixed'. Pass it again, in Python" in capsys.readouterr().err


WRONG = {
    "a rule as a setting": ({"rule": RULE}, {}, r"rule is otpe.Rule\('mixed', ...\), expected a name in the settings. Pass"),
    "a name that is taken": ({}, {"rule": otpe.Rule("ottt", otpe.Otpe(), otpe.Ostl())}, r"the rule is named 'ottt', which is"),
    "no name": ({}, {"rule": otpe.Rule("", otpe.Otpe(), otpe.Ostl())}, r"the rule's name is '', expected a text"),
    "a loss as a setting": ({"loss": stretched}, {}, r"loss is <function .*, expected a name in the settings. Pass your own loss"),
    "two losses": ({"loss": "mse"}, {"loss": stretched}, r"loss is 'mse' in the settings and 'stretched' as an argument"),
    "rates twice": ({"rate_weight": 1.0}, {"loss": otpe.Loss("mse")}, r"rate and rate_weight are in the settings and in"),
    "a loss of a vector": ({}, {"loss": lambda a, b: a}, r"returned the shape \[4, 3\] for logits \[4, 3\], expected \[4\]"),
    "a membrane that spikes": ({}, {"loss": "membrane", "net": otpe.dense([8, 3])}, r"loss is 'membrane', but the output neur"),
    "two starts": ({"start": "x"}, {"start": ()}, r"start is 'x' in the settings, and given as an argument too"),
    "data of another shape": ({}, {"data": splits(), "net": otpe.dense([32, 3])}, r"net takes inputs of the shape \[32\], but"),
    "real targets": ({}, {"data": splits(jnp.zeros(24))}, r"the labels of data.train are of type float32.*by their accuracy"),
}  # fmt: skip


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("kind", WRONG)
def test_incompatible_parts_are_refused_before_a_folder_is_made(kind, tmp_path, request):
    change, own, message = WRONG[kind]
    if kind == "a loss of a vector":
        request.getfixturevalue("monkeypatch").undo()  # this check traces the network
    if kind == "real targets":
        own = {"data": splits(jnp.zeros(24, jnp.float32))}
    with pytest.raises((ValueError, TypeError), match=message):
        otpe.train(replace(TINY, out=tmp_path / "new", **change), **own)
    assert not list(tmp_path.iterdir())


def test_user_rules_and_swept_user_networks_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"rules has an otpe.Rule, expected names in the settings. Pass your own rules"):
        otpe.compare(otpe.CompareConfig(rules=(RULE,), out=tmp_path / "new"))
    with pytest.raises(ValueError, match=r"over has hidden, but the network is your own, which does not depend on it"):
        otpe.sweep(otpe.SweepConfig(over=("hidden=4,5",), out=tmp_path / "new"), net=MEMBRANE)
    assert not list(tmp_path.iterdir())


def test_training_with_labels_for_every_time_step(tmp_path):
    labels = jnp.asarray((np.arange(5)[:, None] + np.arange(24)) % 3, jnp.int32)
    config = otpe.TrainConfig(**CONFIG, readout="integrator", loss="membrane", out=tmp_path / "run")
    result = otpe.train(config, data=splits(labels))
    batch = grid(labels).batch(2**32 - 2, 0, 4)
    outputs = result.net.run(result.params[0], batch.spikes.reshape(5, 4, 32))
    assert result.test_accuracy[0] == pytest.approx(float((outputs.argmax(-1) == batch.labels).mean()))
