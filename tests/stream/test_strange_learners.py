"""Saved learners and stream checkpoints with altered metadata and a correct hash."""

import json

import pytest
import strange
from test_tensors import with_header
from tiny_streams import config, learner

import otpe
from otpe import tensors
from otpe.lab.runs import checkpoint
from otpe.stream import stream_state
from otpe.stream.learner import KIND
from otpe.stream.session import run


def header_content(path):
    return tensors.read(path, KIND)[1]


def with_metadata(path, arrays, text):
    with_header(path, about=text, sha256=tensors._hash(text, arrays))


def test_altered_metadata_of_a_learner_is_refused(tmp_path):
    path = learner().save(tmp_path / "learner")
    arrays, about = tensors.read(path, KIND)

    def load(text):
        with_metadata(path, arrays, text)
        otpe.StreamLearner.load(path)

    gone = [strange.text(strange.changed(about, place, strange.GONE)) for place in strange.places(about)]
    assert strange.refusals(load, [*gone, *strange.texts(about, 40), *strange.TEXTS], path) > 40
    load(json.dumps(about))


def test_altered_metadata_of_a_stream_state_is_refused(file, out):
    run(config(file, out, window=20))
    path = checkpoint.newest(out / "checkpoints")
    arrays, about = tensors.read(path, KIND)

    def load(text):
        with_metadata(path, arrays, text)
        stream_state.load(path)

    stream = about["stream"]
    gone = [strange.changed(about, ("stream", name, *place), strange.GONE) for name in ("score", "place") for place in strange.places(stream[name])]  # fmt: skip
    changes = [json.dumps(each) for each in gone] + [json.dumps({**about, "stream": None})]
    assert strange.refusals(load, changes, path.name) > 15
    for text in (strange.text({**about, "stream": each}) for each in (5, [], {}, strange.DEEP)):
        with_metadata(path, arrays, text)
        with pytest.raises(ValueError, match=rf"{path.name} is .*There is no earlier checkpoint: start anew"):
            stream_state.load(path)


def test_missing_newer_settings_get_their_defaults(file, out):
    """Settings that are newer than the run get their defaults."""
    run(config(file, out))
    about = json.loads((out / "config.json").read_text())
    for name in ("changes", "frozen", "pool"):
        del about[name]
    (out / "config.json").write_text(json.dumps(about))
    (out / "result.json").unlink()
    assert run(config(file, out, resume=True)).place.steps
