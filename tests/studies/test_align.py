"""`otpe align`: the rules' gradients compared with BPTT's, from the command to the section."""

from dataclasses import fields, replace

import numpy as np
import pytest
from tiny_runs import TINY, arguments

import otpe
from otpe import cli
from otpe.lab.records import read_config
from otpe.lab.report.content import from_json
from otpe.lab.report.panels import Bars, Lines
from otpe.lab.runs import folder, loop
from otpe.lab.settings import AlignConfig
from otpe.lab.studies import align

RULES = ("ostl", "bptt")
CONFIG = AlignConfig(
    **{f.name: getattr(TINY, f.name) for f in fields(AlignConfig) if hasattr(TINY, f.name)}
    | {"rules": RULES, "seeds": 2, "steps": 8}
)


@pytest.fixture(scope="module")
def aligned(tmp_path_factory):
    """Return the folder and the output of the command."""
    out = tmp_path_factory.mktemp("align") / "run"
    with pytest.MonkeyPatch.context() as patch:
        output = []
        patch.setattr("builtins.print", lambda *words, **_: output.append(" ".join(map(str, words))))
        assert cli.main(["align", *arguments(CONFIG, out=out)]) == 0
    return out, "\n".join(output)


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained again"))


def test_arrays_have_moments_networks_layers_and_parts(aligned, no_training):
    each = align.align(replace(CONFIG, out=aligned[0], resume=True))
    assert set(each) == set(RULES)
    for a in each.values():
        assert a.steps.tolist() == [4, 8]
        assert a.cosine.shape == a.size.shape == (2, 2, 2, 2)
        assert a.model.shape == a.model_size.shape == (2, 2)


def test_only_a_rule_equal_to_bptt_has_cosine_1_everywhere(aligned):
    each = align.along(otpe.load(aligned[0]).metrics)
    for values in each["bptt"][1:]:
        np.testing.assert_allclose(values, 1, rtol=1e-5)
    ostl = each["ostl"]
    np.testing.assert_allclose(ostl.cosine[:, :, 1], 1, rtol=1e-5, err_msg="the output layer's gradient is exact")
    assert (ostl.cosine[:, :, 0] < 0.999).all()
    assert ostl.model.mean() < 0.999


def test_the_section_has_the_rules_in_the_requested_order(aligned):
    out, output = aligned
    assert read_config(out)["kind"] == "align"
    section = from_json((out / "section.json").read_text())
    assert section.title == "Gradient cosines, t-randman"
    assert "along 8 mini-batches of training by BPTT; mean ± σ of 2 networks (few)." in section.lead
    assert [row[0] for row in section.tables[0].rows] == [*RULES]
    assert section.tables[0].rows[1][1:] == ["1.000 ± 0.000"] * 4
    assert section.tables[0].columns == ["rule", "O", "H1", "model", "ratio of norms"]
    layers, model, over = section.figures
    assert [panel.title for panel in layers.panels] == ["kernels", "biases", "kernels, ratio of norms"]
    assert all(isinstance(panel, Bars) and [*panel.groups] == ["O", "H1"] for panel in layers.panels)
    assert [panel.title for panel in over.panels] == ["O", "H1"]
    assert all(isinstance(panel, Lines) for panel in (*model.panels, *over.panels))
    assert "--rules ostl bptt" in section.command
    assert section.command.startswith("otpe align ")
    assert section.settings["rules"] == [*RULES]
    assert section.seconds > 0
    assert f"Numbers: {out / 'metrics.jsonl'}\nSection: {out / 'section.json'}" in output
    assert "1.000 ± 0.000" in output


def test_the_section_names_the_machine_of_the_training(aligned, no_training, monkeypatch):
    monkeypatch.setattr(folder, "provenance", lambda: {"device": "gpu: another", "versions": {"otpe": "99"}})
    align.align(replace(CONFIG, out=aligned[0], resume=True))
    machine = from_json((aligned[0] / "section.json").read_text()).machine
    assert machine["device"].startswith("cpu")
    assert machine["versions"]["otpe"] == otpe.__version__


def test_means_and_spreads_of_the_figures(aligned):
    section, a = (
        from_json((aligned[0] / "section.json").read_text()),
        align.along(otpe.load(aligned[0]).metrics)["ostl"],
    )
    layers, model, over = section.figures
    for panel, values in zip(layers.panels, (a.cosine[..., 0], a.cosine[..., 1], a.size[..., 0]), strict=True):
        np.testing.assert_allclose(panel.bars[0].values, values.mean((0, 1))[::-1], rtol=1e-5)
        np.testing.assert_allclose(panel.bars[0].spread, values.std((0, 1), ddof=1)[::-1], rtol=1e-4, atol=1e-9)
    for panel, values in zip(model.panels, (a.model, a.model_size), strict=True):
        np.testing.assert_allclose(panel.lines[0].y, values.mean(1), rtol=1e-5)
        np.testing.assert_allclose(panel.lines[0].spread, values.std(1, ddof=1), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(over.panels[1].lines[0].y, a.cosine[:, :, 0, 0].mean(1), rtol=1e-5)


def test_resume_needs_no_rules_and_refuses_others(aligned, no_training, capsys):
    out = aligned[0]
    before = (out / "section.json").read_text()
    assert cli.main(["align", "--resume", "--out", str(out)]) == 0
    after = from_json((out / "section.json").read_text())
    assert after.tables == from_json(before).tables
    assert after.settings["rules"] == [*RULES]
    assert cli.main(["align", "--resume", "--out", str(out), "--rules", "otpe"]) == 2
    assert "align was ['ostl', 'bptt'], now is ['otpe']" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((), r"rules is empty, expected at least one to compare with BPTT, such as \('otpe', 'ostl'\)"),
        (("oppe",), "'oppe'.*otpe"),
        (("otpe", "otpe"), "none twice"),
    ],
)
def test_unknown_rules_are_refused(tmp_path, rules, words):
    with pytest.raises(ValueError, match=words):
        align.align(replace(CONFIG, rules=rules, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_without_alignment_and_settings_of_the_wrong_kind():
    with pytest.raises(ValueError, match=r"no line of these metrics has an alignment. Train with align, such as"):
        align.along([{"step": 4}])
    with pytest.raises(TypeError, match=r"config is a TrainConfig, expected otpe.AlignConfig"):
        align.align(TINY)
