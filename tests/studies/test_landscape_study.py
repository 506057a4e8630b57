"""`otpe landscape`: from training to the plane, the numbers and the section."""

import re
from dataclasses import fields, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_runs import TINY, arguments

import otpe
from otpe import cli
from otpe.analysis.landscape import plane, project
from otpe.datasets import from_arrays
from otpe.lab.records import read_config
from otpe.lab.report.content import from_json
from otpe.lab.runs import guards, loop, saved_weights, task
from otpe.lab.settings import LandscapeConfig
from otpe.lab.studies import landscapes

SMALL = {
    f.name: getattr(TINY, f.name) for f in fields(LandscapeConfig) if hasattr(TINY, f.name) and f.name != "snapshots"
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    out = tmp_path_factory.mktemp("landscape") / "here"
    own = {
        "rules": ("approx-otpe",),
        "seeds": 2,
        "threshold": 0.1,
        "snapshots": 5,
        "grid": 3,
        "loss_samples": 7,
        "out": out,
    }
    return LandscapeConfig(**{**SMALL, **own})


@pytest.fixture(scope="module")
def study(config):
    """Return the measured landscape, the section, and the training data."""
    prepared = landscapes.prepared_landscape(config)
    return (*prepared(), prepared.comparison)


def model(folder, k, network):
    _, params = saved_weights.read_snapshot(folder)
    return jax.tree.map(lambda x: x[k, network], params)


def test_bptt_is_added_and_every_network_has_its_plane(study, config):
    seen, _, _ = study
    assert [*seen.steps] == ["bptt", "approx-otpe"]
    for network in (0, 1):
        first, last = (model(config.out / "bptt-offline", k, network) for k in (0, -1))
        through = plane(first, last)
        for rule in seen.steps:
            np.testing.assert_array_equal(seen.steps[rule], [0, 5, 10, 12])
            expected = [project(through, model(config.out / f"{rule}-offline", k, network)) for k in range(4)]
            np.testing.assert_allclose(seen.coordinates[rule][network], [at for at, _ in expected], atol=1e-6)
            np.testing.assert_allclose(seen.explained[rule][network], [share for _, share in expected], rtol=1e-5)
        np.testing.assert_allclose(seen.coordinates["bptt"][network][-1], [seen.length["bptt"][network], 0], atol=1e-6)
        assert seen.explained["bptt"][network][-1] == pytest.approx(1, abs=1e-6)
        assert seen.explained["approx-otpe"][network][-1] < 0.999
    assert (seen.apart["bptt"] == 0).all()
    assert (seen.apart["approx-otpe"] > 0).all()
    np.testing.assert_allclose(seen.landscape.coordinates["approx-otpe"], seen.coordinates["approx-otpe"][0], atol=1e-6)
    assert seen.landscape.loss.shape == (3, 3)
    assert np.isfinite(seen.landscape.loss).all()


def test_the_samples_are_those_of_validation(study, config):
    _, _, comparison = study
    batch = landscapes.validation(config, comparison.splits, most=1024)
    assert batch.spikes.shape[1] == config.valid_samples
    last = otpe.load(config.out / "bptt-offline")
    loss, _ = otpe.gradients(last.net, model(last.folder, -1, 1), batch.spikes, batch.labels, rule="bptt")
    assert float(loss) == pytest.approx(last.metrics[-1]["valid_loss"][1], rel=1e-6)
    np.testing.assert_array_equal(landscapes.validation(config, comparison.splits, most=3).labels, batch.labels[:3])


def test_samples_keep_their_different_lengths(config):
    dataset = from_arrays(np.ones((6, 9, 8)), np.arange(9) % 3, lengths=np.arange(9) % 5 + 1)
    batch = landscapes.validation(config, task.Splits(dataset, dataset, dataset), most=4)
    np.testing.assert_array_equal(batch.lengths, [1, 2, 3, 4])
    assert batch.spikes.shape == (6, 4, 8)


def test_numbers_and_section_are_written(study, config, drawn):
    seen, _, _ = study
    assert read_config(config.out)["kind"] == "landscape"
    arrays = np.load(config.out / "landscape.npz")
    np.testing.assert_array_equal(arrays["loss"], seen.landscape.loss)
    np.testing.assert_array_equal(arrays["explained.approx-otpe"], seen.explained["approx-otpe"])
    section = from_json((config.out / "section.json").read_text())
    contours, shares = (figure.panels[0] for figure in section.figures)
    assert [path.name for path in contours.paths] == ["bptt", "approx-otpe"]
    np.testing.assert_allclose(contours.heights, seen.landscape.loss, rtol=1e-5)
    np.testing.assert_allclose(contours.paths[1].x, seen.coordinates["approx-otpe"][0, :, 0], rtol=1e-5)
    np.testing.assert_allclose(shares.lines[1].y, seen.explained["approx-otpe"][:, 1:].mean(0), rtol=1e-5)
    np.testing.assert_allclose(shares.lines[1].spread, seen.explained["approx-otpe"][:, 1:].std(0, ddof=1), rtol=1e-4)
    last = seen.explained["approx-otpe"][:, -1]
    assert section.tables[0].rows[1][:2] == ["approx-otpe", f"{last.mean():.3f} ± {last.std(ddof=1):.3f}"]
    assert re.search(
        r"explains of each path: BPTT 100 ± 0 %, Approx OTPE \d+ ± \d+ % \(mean ± σ of 2 networks", section.lead
    )
    assert section.command.startswith("otpe landscape --steps 12 --batch 4 --seeds 2")
    assert section.settings["snapshots"] == 5
    assert section.machine["versions"]["otpe"] == otpe.__version__
    assert [name for name, where in dict.fromkeys(drawn) if where == config.out][:2] == ["landscape", "explained"]


def test_another_grid_needs_no_new_training(study, config, monkeypatch, capsys):
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained again"))
    before = np.load(config.out / "landscape.npz")["coordinates.approx-otpe"]
    assert cli.main(["landscape", "--resume", "--out", str(config.out), "--grid", "2"]) == 0
    arrays = np.load(config.out / "landscape.npz")
    assert arrays["loss"].shape == (2, 2)
    np.testing.assert_array_equal(arrays["coordinates.approx-otpe"], before)
    output = capsys.readouterr().out
    assert "explained at the end" in output
    assert f"Numbers: {config.out / 'landscape.npz'}" in output


def test_a_missing_plane_is_reported_with_a_sentence(study, config, monkeypatch, capsys):
    read = saved_weights.read_snapshot

    def nowhere(folder, net=None):
        steps, params = read(folder, net)
        return steps, jax.tree.map(lambda x: jnp.stack([x[0]] * len(steps)), params)

    monkeypatch.setattr(saved_weights, "read_snapshot", nowhere)
    assert cli.main(["landscape", "--resume", "--out", str(config.out)]) == 1
    output = capsys.readouterr().err
    assert re.search(r"otpe: bptt, network 0: the final model is the initial one, expected two that differ", output)


def test_a_landscape_without_bptt_is_refused(study, config):
    runs = {"approx-otpe": saved_weights.read_snapshot(config.out / "approx-otpe-offline")}
    with pytest.raises(
        ValueError, match=r"there are runs of approx-otpe, but none by bptt, which defines the plane. Train by it too"
    ):
        landscapes.measure(otpe.dense([8, 6, 3]), runs, None)
    results = [otpe.load(config.out / "approx-otpe-offline")]

    class Diverged(SimpleNamespace):
        def __call__(self):
            return results

    comparison = Diverged(diverged=["bptt offline: step 3: weights or loss"], folder=SimpleNamespace(path=config.out))
    with pytest.raises(guards.DivergedError, match=r"there is no plane: bptt offline: step 3: weights or loss"):
        landscapes.Study(config, comparison)()


BAD = [
    (["--snapshots", "0"], r"snapshots is 0, expected a whole number above 0"),
    (["--grid", "1"], r"grid is 1, expected at least 2 points in each direction"),
    (["--loss-samples", "0"], r"loss_samples is 0, expected a whole number above 0"),
    (["--rules"], r"rules is \(\), expected at least one"),
    (["--rules", "otp"], r"rule 'otp' is not known. Did you mean 'otpe'\?"),
    (["--every", "3"], r"every is 3, which is for mode 'online'"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_refused_with_a_sentence(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained something"))
    assert cli.main(["landscape", *arguments(TINY), *args]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not [*tmp_path.iterdir()]


def test_settings_of_the_wrong_type_are_refused():
    with pytest.raises(TypeError, match=r"config is a TrainConfig, expected otpe.LandscapeConfig\(dataset=..., ...\)"):
        landscapes.prepared_landscape(TINY)


def test_all_rules_and_names_of_folders(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = landscapes.prepared_landscape(replace(config, rules=("all",), out=None))
    study.comparison.folder.close()
    assert [run.rule for run in study.comparison.runs] == list(otpe.rules())
    assert str(study.comparison.folder.path) == "runs/t-randman-landscape-001"
    assert study.comparison.verb == "landscape"
