"""`otpe stream`: its output and its files."""

import json
import os
import re
import shlex
import sys
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import optax
import pytest
import tiny_events
from tiny_streams import CLASSES, NET, SHAPE, UNITS, Pressed, config, events, known, learner, made_up_randman, steps

import otpe
from otpe import cli
from otpe.datasets import Binning
from otpe.lab.report import finder
from otpe.lab.runs import checkpoint, saved_weights
from otpe.stream import sources, stream_state, worlds
from otpe.stream.prequential import evaluate
from otpe.stream.session import run
from otpe.stream.sources import recordings
from otpe.stream.worlds import parsed_change


def test_a_file_of_events_from_end_to_end(file, out, capsys):
    by_hand = learner()
    score = evaluate(by_hand, steps(file), window=50, block=4)
    assert cli.main(["stream", str(file), *SHAPE, *NET, "--window", "50", "--out", str(out)]) == 0
    weights, _ = known(out)
    assert stream_state.load(checkpoint.newest(out / "checkpoints")).score.state() == score.state()
    assert weights["params.0.kernel"] == by_hand.params[0].kernel.tobytes()
    assert otpe.StreamLearner.load(checkpoint.newest(out / "checkpoints")).steps == score.steps
    numbers = {
        "step": score.steps, "labelled": score.labelled, "accuracy": score.accuracy, "sequences": 3, "skipped": {},
        "window_accuracy": score.window_accuracy,
    }  # fmt: skip
    assert numbers.items() <= json.loads((out / "result.json").read_text()).items()
    last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    assert numbers.items() <= last.items()
    assert len(last["rates"]) == 2
    assert 0 < last["latency_ms"][0] <= last["latency_ms"][1]
    settings = json.loads((out / "config.json").read_text())
    assert (settings["source"], settings["kind"], settings["source_kind"], settings["hidden"]) == (
        str(file),
        "stream",
        "text",
        [6],
    )
    assert settings["versions"]["otpe"] == otpe.__version__
    output, now = capsys.readouterr(), f"{score.window_accuracy:.3f}"
    assert f"{score.steps:,} time steps, {score.labelled:,} of them with a label" in output.out
    assert f"  over the window      {now}  (the last 50)" in output.out
    assert f"(the last 50), n = {min(50, score.labelled)}" in output.out
    assert f"(all steps; silence is wrong), n = {score.labelled:,}" in output.out
    assert "(at their last step), n = 3" in output.out
    assert f"  chance level         {1 / CLASSES:.3f}  (1 of {CLASSES} classes)" in output.out
    assert re.search(rf"step {score.steps}  accuracy {now} \(last 50\), .* steps/s  latency .* rates ", output.err)


def test_the_report_of_a_stream(file, out, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(config(file, out, metrics_seconds=0), [Pressed(9)])
    (half,) = finder.search([tmp_path])
    assert half.state == "unfinished"
    assert half.note.endswith(f"Go on with: otpe stream --resume --out {out}")
    measured = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert len(measured) > 5
    (recent, whole) = half.section.figures[0].panels[0].lines
    assert [list(recent.x), list(recent.y)] == [[line[key] for line in measured] for key in ("step", "window_accuracy")]
    assert list(whole.y) == [line["accuracy"] for line in measured]
    assert half.section.lead.startswith(f"{measured[-1]['step']} time steps of {file} so far, each predicted first")
    assert ["labelled", measured[-1]["labelled"]] in half.section.tables[0].rows
    with (out / "metrics.jsonl").open("a") as metrics:
        metrics.write("what?\n")
    (damaged,) = finder.search([tmp_path])
    assert damaged.note.endswith(f"metrics.jsonl is damaged: line {len(measured) + 1} is left out.")
    assert damaged.section == half.section
    score = run(config(file, out, resume=True)).score
    (entry,) = finder.search([tmp_path])
    assert (entry.state, entry.section.title) == ("finished", f"OTPE on a stream: {file}")
    command = shlex.split(entry.section.command)
    assert command[:3] == ["otpe", "stream", str(file)]
    again = config(file, tmp_path / "again")
    assert cli.main([*command[1:], "--out", str(again.out)]) == 0
    assert run(replace(again, resume=True)).score.state() == score.state(), "the command in the report repeats the run"
    panel = entry.section.figures[0].panels[0]
    assert panel.lines[0].y == pytest.approx(score.curve.window.tolist(), abs=1e-6), (
        "numbers are written with six digits"
    )
    assert ["labelled", score.labelled] in entry.section.tables[0].rows


def test_a_stream_of_json_lines(file, out, tmp_path):
    path = tmp_path / "events.jsonl"
    rows = [line.strip().split(",") for line in events(80)]
    path.write_text("".join(f'{{"time": {t}, "unit": {u}, "label": {y}}}\n' for t, u, y in rows))
    file.write_text("".join(events(80)))
    assert run(config(path, out)).score.state() == evaluate(learner(), steps(file), block=4).state()


def test_a_stream_of_recordings(out, tmp_path):
    path = tiny_events.make(tmp_path / "some_train.h5", recordings=4)
    options = {"epochs": 2, "shuffle": True}
    asked_for = config(path, out, **options, dt=0.1, changes=("swap@9:0,1",))
    by_hand = worlds.changing(recordings(path, UNITS, Binning(dt=0.1), **options), worlds.Swap(9, (0, 1)))
    assert run(asked_for).score.state() == evaluate(learner(), by_hand, block=4).state()
    with pytest.raises(OSError, match=r"epochs was 2, now is 1"):
        run(replace(asked_for, epochs=1, resume=True))
    odd = tiny_events.make(tmp_path / "odd_train.h5", recordings=2, labels=np.array([1, 7]), extra__keys=None)
    assert run(config(odd, tmp_path / "odd", bins=5)).place.skipped == {"item": 5}, "the recording of class 7"


def test_a_stream_of_randman(out, monkeypatch):
    monkeypatch.setattr(sources, "randman", made_up_randman)
    data = made_up_randman("rate", units=UNITS, classes=CLASSES, dims=1, alpha=2.0, steps=7, seed=3)
    options = {"dims": 1, "alpha": 2.0, "time_steps": 7, "manifolds": 3}
    result = run(config("r-randman", out, **options, steps=50, seed=5))
    by_hand = learner(seed=5, score_leak=1.0)
    score = evaluate(by_hand, islice(worlds.samples(data, seed=5), 50), block=4)
    assert result.score.state() == score.state()
    assert result.place.steps == score.steps == 50
    changing = config("r-randman", out.parent / "other", **options, steps=50, changes=("swap@21:0,1", "shift@60:2"))
    run(changing)
    (entry,) = finder.search([changing.out])
    assert [(mark.x, mark.text) for mark in entry.section.figures[0].panels[0].marks] == [(21, "swap")]


def test_a_frozen_stream_keeps_its_weights(file, out):
    result = run(config(file, out, frozen=True))
    np.testing.assert_array_equal(result.learner.params[0].kernel, learner().params[0].kernel)
    assert result.score.labelled == result.place.steps > 90


@pytest.mark.parametrize("kind", ["run", "file"])
def test_a_stream_starts_with_the_weights_of_a_run_or_a_file(kind, file, out, tmp_path, monkeypatch):
    start = tmp_path
    if kind == "file":
        start = otpe.save(tmp_path / "net.safetensors", learner().net, learner().params)
    monkeypatch.setattr(
        saved_weights, "load", lambda *_: SimpleNamespace(net=learner().net, params=(learner().params,))
    )
    asked_for = config(file, out, seed=9, start=start, hidden=(128, 128), threshold=0.5)
    assert run(asked_for).score.state() == evaluate(learner(), steps(file), block=4).state()
    with pytest.raises(
        ValueError, match=r"start is '.*', whose network takes \[12\] inputs and has 4 outputs, but the"
    ):
        run(replace(asked_for, units=20))
    with pytest.raises(
        ValueError, match=r"leak is 0.5, but the network is that of start, .*. Leave leak out, or start"
    ):
        run(replace(asked_for, leak=0.5))


def test_a_stream_with_other_neurons_and_another_loss(file, out):
    line = ["--neuron", "cuba", "--learn-leak", "layer", "--readout", "integrator", "--loss", "membrane"]
    net = otpe.network(UNITS, [
        (otpe.layers.dense(6), otpe.CubaLIF(0.9, 0.8, 0.3, otpe.fast_sigmoid(10.0), learn_leak=True)),
        (otpe.layers.dense(CLASSES), otpe.LeakyIntegrator(0.9, learn_leak=True)),
    ])  # fmt: skip
    by_hand = otpe.StreamLearner(net, "otpe", optax.adam(0.03), loss="membrane", score_leak=0.9)
    evaluate(by_hand, steps(file), window=50, block=4)
    given = [*SHAPE, *NET, *line, "--score-leak", "0.9", "--window", "50", "--out", str(out)]
    assert cli.main(["stream", str(file), *given]) == 0
    assert known(out)[0]["params.0.kernel"] == by_hand.params[0].kernel.tobytes()
    assert cli.main(["stream", "--resume", "--out", str(out)]) == 0
    assert cli.main(["stream", str(file), *SHAPE, "--loss", "membrane"]) == 2


def test_watchers_see_every_block(file, out):
    seen = []
    watcher = lambda block, score, seconds: seen.append((len(block.steps), score.steps, seconds))  # noqa: E731
    result = run(config(file, out), watchers=[watcher])
    assert sum(steps for steps, _, _ in seen) == seen[-1][1] == result.place.steps
    assert [steps for steps, _, _ in seen[:3]] == [4, 4, 4]
    assert all(0 < seconds < 60 for _, _, seconds in seen)


def test_unusable_events_are_counted_and_reported_once(file, out, capsys):
    file.write_text("".join(events(40)) + "who?\n0.2,99\n0.2,98\n0.01,3\n" + "".join(events(40, first=0.3)))
    assert cli.main(["stream", str(file), *SHAPE, *NET, "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert "  skipped              4  (line 1, unit 2, late 1)" in output.out
    assert output.err.count("otpe: warning: Skipped: ") == 3
    assert "event 41 has the unit 99, expected a whole number from 0 to 11" in output.err
    assert "  skipped 4\n" in output.err
    assert json.loads((out / "result.json").read_text())["skipped"] == {"line": 1, "unit": 2, "late": 1}


@pytest.mark.parametrize(("gap", "sequences", "skipped"), [("reset", 2, {}), ("skip", 1, {"gap": 1})])
def test_a_long_silence_is_skipped_or_starts_a_sequence(gap, sequences, skipped, file, out):
    file.write_text("0.01,3,1\n30.01,4,1\n")
    result = run(config(file, out, gap=gap))
    assert (result.score.sequences, result.place.steps, result.place.skipped) == (sequences, sequences, skipped)


def test_one_live_line_on_a_terminal(file, out, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("otpe.lab.progress.REFRESH", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    file.write_text("".join(events(40)) + "who?\n" + "".join(events(40, first=0.3)))
    run(config(file, out, metrics_seconds=0))
    drawn = capsys.readouterr().err.split("\r\x1b[K")
    assert drawn[1].startswith("step 4  accuracy ")
    assert sum("otpe: warning: Skipped" in text for text in drawn) == 1
    assert all(len(text.rstrip()) <= 39 or "warning" in text for text in drawn)
    assert drawn[-1].startswith("step ")
    assert drawn[-1].endswith("\n")


def test_a_stream_without_labels(file, out, capsys):
    file.write_text("0.01,3\n0.02,4\n")
    assert cli.main(["stream", str(file), *SHAPE, *NET, "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert "  accuracy             no labels came" in output.out
    assert "accuracy – (last 1,000), – (all)" in output.err
    assert json.loads((out / "result.json").read_text())["accuracy"] is None


BAD = [
    (["nowhere"], r"source is 'nowhere', expected t-randman, r-randman, a file in SHD's layout \(.h5\), a file of events"),
    ([""], r"source is '', expected t-randman, r-randman, a file, or - for standard input"),
    (["nowhere.csv", *SHAPE], r"nowhere.csv cannot be read: No such file or directory. Name a file of events"),
    (["pipe.csv", *SHAPE], r"pipe.csv is no plain file. Send what comes from it to standard input: otpe stream - < pipe"),
    (["nowhere.h5", *SHAPE], r"nowhere.h5 is not there. Name a file in SHD's layout"),
    (["some.csv", "--classes", "3"], r"units is not given, and some.csv does not contain it. Give the number: --units"),
    (["-", "--units", "3"], r"classes is not given, and - does not contain it. Give the number: --classes"),
    (["--dt", "0.1"], r"dt is 0.1, which is of no use for t-randman and r-randman: it is for recordings and files of ev"),
    (["some.csv", *SHAPE, "--bins", "5"], r"bins is 5, which is of no use for files of events: it is for recordings"),
    (["some.csv", *SHAPE, "--dt", "0"], r"dt is 0.0, expected seconds"),
    (["--steps", "0"], r"steps is 0, expected a whole number above 0"),
    (["--block", "0"], r"block is 0, expected a whole number above 0"),
    (["--steps", str(10**20)], r"steps is 1\d+, expected a whole number above 0, 9,223,372,036,854,775,807 at most"),
    (["--window", str(10**12)], r"window is 1\d+, expected a whole number above 0, 1,000,000 at most"),
    (["--window", "-1"], r"window is -1, expected a whole number above 0"),
    (["--checkpoint-seconds", "-1"], r"checkpoint_seconds is -1.0, expected seconds, or 0 for every block"),
    (["--metrics-seconds", "nan"], r"metrics_seconds is nan, expected seconds, or 0 for every block"),
    (["--rule", "otp"], r"rule 'otp' is not known. Did you mean 'otpe'\?"),
    (["--rule", "bptt"], r"rule 'bptt' has no per-step form"),
    (["--optimizer", "adamm"], r"optimizer 'adamm' is not known. Did you mean 'adam'\?"),
    (["--changes", "swap@5:0,0"], r"classes is \(0, 0\), expected two or more that swap, none twice"),
    (["--resume"], r"resume is given without out: which run do you want to continue\? Name its folder, such as runs/stream-t-randman"),
    (["--resume", "--out", "tpyo"], r"out is 'tpyo', where there is no run to go on with. Name the folder of one; to begin"),
    (["--start", "nowhere"], r"start is 'nowhere', which is not there. Name the folder of a finished run, or a file of otpe.save"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_refused_with_a_sentence(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.csv").write_text("0.1,2,3\n")
    os.mkfifo(tmp_path / "pipe.csv")
    monkeypatch.setattr(sources, "randman", made_up_randman)
    assert cli.main(["stream", *args]) == 2
    output = capsys.readouterr().err
    assert re.search(message, output), output
    assert {path.name for path in tmp_path.iterdir()} == {"some.csv", "pipe.csv"}


def test_a_config_that_is_no_stream_config_is_refused():
    with pytest.raises(TypeError, match=r"config is a dict, expected otpe.StreamConfig\(source=..., ...\)"):
        run({})


def test_changes_are_parsed_from_text():
    changes = parsed_change(["swap@5:0,1,2", "die@6:0.5", "shift@7:-2", "appear@8:3"], classes=4, seed=9)
    assert changes == (worlds.Swap(5, (0, 1, 2)), worlds.Die(6, 0.5, seed=9), worlds.Shift(7, -2), worlds.Appear(8, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("swop@5:0,1", r"change 'swop' is not known. Did you mean 'swap'\?"),
        ("swap", r"change is 'swap', expected such as swap@50000:0,1, classes that swap their meaning"),
        ("swap@x:0,1", r"change is 'swap@x:0,1', expected such as swap@50000:0,1"),
        ("swap@5:0;1", r"change is 'swap@5:0;1', expected such as"),
        ("swap@5:0,4", r"change is 'swap@5:0,4', but there is no class 4: they run from 0 to 3"),
        ("die@5:some", r"change is 'die@5:some', expected such as die@50000:0.3, the share of the units"),
        ("shift@5:0.5", r"change is 'shift@5:0.5', expected such as shift@50000:5, by how many places"),
        ("appear@5", r"change is 'appear@5', expected such as appear@50000:9, a class of which nothing"),
        ("appear@5:-1", r"there is no class -1"),
    ],
)
def test_invalid_changes_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parsed_change([text], classes=4, seed=0)


def test_a_world_that_never_shows_a_class_is_refused():
    later = ["appear@5:0", "appear@7:1"]
    with pytest.raises(ValueError, match=r"changes has an appear for each of the 2 classes, so no step would ever"):
        parsed_change(later, classes=2, seed=0)
    assert (
        len(parsed_change(["appear@0:0", later[1]], classes=2, seed=0))
        == len(parsed_change(later, classes=3, seed=0))
        == 2
    )


def test_a_silent_layer_gives_a_warning(file, out, capsys):
    run(config(file, out, threshold=100.0))
    assert re.search(
        r"otpe: warning: step 96: hidden layer 1 never spikes\. A lower threshold", capsys.readouterr().err
    )
