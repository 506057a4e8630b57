"""Checkpoints restore the state of a run bit for bit, or are refused with a sentence that says how to go on."""

import errno
import re
import resource
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors.numpy import save_file
from test_tensors import with_header
from tiny_runs import TINY, fingerprints, state

import otpe
from otpe import cli, tensors
from otpe.lab.runs import checkpoint, loop
from otpe.lab.runs.loop import Best, State


class Noise(NamedTuple):
    key: Any
    mean: Any


def noisy():
    """An optimizer whose state has a random key, as in optax.noisy_sgd, and a 16-bit mean."""

    def init(params):
        return Noise(jax.random.key(7), jax.tree.map(lambda p: jnp.zeros_like(p, jnp.bfloat16), params))

    def update(grads, state, _=None):
        key, now = jax.random.split(state.key)
        return jax.tree.map(lambda g: 1e-3 * jax.random.normal(now, g.shape, g.dtype), grads), state._replace(key=key)

    return optax.GradientTransformation(init, update)


def some_state(optimizer=None, seed=0):
    """Return a run state of two networks, made without compiling."""
    rng = np.random.default_rng(seed)
    params = ({"kernel": jnp.asarray(rng.standard_normal((2, 3, 2)), jnp.float32)},)
    opt_state = jax.vmap((optimizer or optax.adamax(0.1)).init)(params)
    best = Best(jnp.float32([0.5, -1]), jnp.int32([4, 0]), jax.tree.map(lambda p: p + 1, params))
    return State(jnp.int32(8 + seed), params, opt_state, jnp.float32([np.inf, -0.0]), jnp.float32([1, 2]), best)


def bits(tree):
    keys = (
        x if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else jax.random.key_data(x) for x in jax.tree.leaves(tree)
    )
    return [(x.dtype, x.shape, np.asarray(x).tobytes()) for x in keys]


@pytest.mark.parametrize(
    "optimizer", [optax.adamax(0.1), noisy(), optax.noisy_sgd(0.1, key=0)], ids=["adamax", "keys", "noisy"]
)
def test_a_saved_file_is_read_back_bitwise(optimizer, tmp_path):
    given = some_state(optimizer)
    path = checkpoint.save(tmp_path, given, 1 / 3, {"steps": 3}, keep=3)
    loaded = checkpoint.load(path, some_state(optimizer, seed=1))
    assert jax.tree.structure(loaded.state) == jax.tree.structure(given)
    assert bits(loaded.state) == bits(given)
    assert (loaded.seconds, loaded.identity) == (1 / 3, {"steps": 3})


def test_a_random_key_is_restored(tmp_path):
    config, optimizer = replace(TINY, hidden=(), out=tmp_path / "whole", checkpoint_seconds=0), noisy()
    otpe.train(config, optimizer=optimizer)
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    (tmp_path / "again" / "result.json").unlink()
    for name in ("08", "12"):
        (tmp_path / "again" / "checkpoints" / f"step-00000000{name}.safetensors").unlink()
    otpe.train(replace(config, out=tmp_path / "again", resume=True), optimizer=optimizer)
    assert state(tmp_path / "again") == state(tmp_path / "whole")


def test_only_the_last_few_checkpoints_are_kept(tmp_path):
    for step in range(5):
        checkpoint.save(tmp_path, some_state()._replace(step=jnp.int32(10**step)), 0, {}, keep=2)
    assert [path.stem for path in checkpoint.everything(tmp_path)] == ["step-0000001000", "step-0000010000"]


def test_checkpoints_are_ordered_by_number(tmp_path):
    """Names have 10 digits, and more from step 10,000,000,000 on."""
    numbers = [9, 9_999_999_998, 9_999_999_999, 10_000_000_000, 10_000_000_001]
    for number in numbers:
        path = tmp_path / checkpoint.name(number)
        path.touch()
        checkpoint.prune(path, keep=3)
        assert path.exists()
        assert checkpoint.newest(tmp_path) == path
    assert [checkpoint.step(path) for path in checkpoint.everything(tmp_path)] == numbers[-3:]
    assert checkpoint.newest(tmp_path, last=numbers[-2]) == tmp_path / checkpoint.name(numbers[-2])
    assert checkpoint.advice(path).endswith("from the one before it, step-10000000000.safetensors.")
    (tmp_path / "step-x.safetensors").touch()
    assert checkpoint.newest(tmp_path) == path, "other files are no checkpoints"


def test_a_file_of_a_later_step_does_not_remove_checkpoints(unfinished, finished):
    """The newest save is never removed, and a run does not resume from a step beyond its length."""
    stray = unfinished / "checkpoints" / checkpoint.name(9_999_999_999)
    stray.write_bytes(b"what is this?")
    folder = unfinished / "checkpoints" / checkpoint.name(1)
    folder.mkdir()
    result = resumed(unfinished)
    assert state(unfinished, TINY.steps) == state(finished)
    assert otpe.load(unfinished).test_accuracy == resumed(unfinished).test_accuracy == result.test_accuracy
    assert stray.exists()
    assert folder.exists()


def resumed(folder):
    return otpe.train(replace(TINY, out=folder, resume=True))


def damages(folder):
    """Return the newest checkpoint, its content, and the other files of the folder."""
    newest = checkpoint.newest(folder / "checkpoints")
    others = {name: known for name, known in fingerprints(folder).items() if not name.endswith(newest.name)}
    return newest, newest.read_bytes(), others


def assert_refused(folder, message, others):
    with pytest.raises(ValueError, match=message) as error:
        resumed(folder)
    assert "Move it away to go on from the one before it, step-0000000004.safetensors." in str(error.value)
    now = fingerprints(folder)
    assert {name: now[name] for name in others} == others


def test_a_checkpoint_cut_short_is_refused(unfinished, monkeypatch):
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("went on"))
    newest, content, others = damages(unfinished)
    for length in (0, 1, 8, 9, 500, len(content) // 2, len(content) - 100, len(content) - 1):
        newest.write_bytes(content[:length])
        assert_refused(unfinished, r"step-0000000008.safetensors is damaged: ", others)


def test_a_checkpoint_with_a_flipped_bit_is_refused(unfinished, monkeypatch):
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("went on"))
    newest, content, others = damages(unfinished)
    for bit in np.linspace(0, 8 * len(content) - 1, 40).astype(int):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        newest.write_bytes(flipped)
        assert_refused(unfinished, r"is damaged: |none of otpe's|has the format ", others)


def test_after_removing_a_damaged_checkpoint_the_run_resumes(unfinished, trained, tmp_path, capsys):
    newest = checkpoint.newest(unfinished / "checkpoints")
    newest.write_bytes(b"")
    assert cli.main(["train", "--resume", "--out", str(unfinished)]) == 2
    assert re.search(
        r"otpe: .* is damaged: 0 bytes without a whole header. Was it cut short\?", capsys.readouterr().err
    )
    newest.rename(tmp_path / "away")
    assert cli.main(["train", "--resume", "--out", str(unfinished)]) == 0
    assert state(unfinished) == state(trained.folder)


def test_a_damaged_only_checkpoint_is_refused(unfinished):
    for path in checkpoint.everything(unfinished / "checkpoints"):
        path.write_bytes(b"") if path.stem.endswith("4") else path.unlink()
    with pytest.raises(ValueError, match=r"There is no earlier checkpoint: start anew in another folder"):
        resumed(unfinished)


def test_a_safetensors_file_of_another_program_is_refused(unfinished):
    newest, _, others = damages(unfinished)
    save_file({"a": np.zeros(3)}, newest)
    assert_refused(unfinished, r"is a safetensors file, but none of otpe's", others)


def test_a_checkpoint_of_a_newer_format_is_refused(unfinished):
    newest, _, others = damages(unfinished)
    with_header(newest, format="2")
    with pytest.raises(ValueError, match=r"has the format 2, which a newer otpe wrote.*pip install --upgrade otpe.$"):
        resumed(unfinished)
    now = fingerprints(unfinished)
    assert {name: now[name] for name in others} == others


def test_a_checkpoint_of_another_network_is_refused(unfinished):
    newest, _, others = damages(unfinished)
    newest.unlink()
    checkpoint.save(newest.parent, some_state(), 0, {}, keep=3)
    assert_refused(unfinished, r"holds the state of another network or optimizer", others)


def test_a_checkpoint_of_another_run_is_refused(unfinished):
    newest = checkpoint.newest(unfinished / "checkpoints")
    arrays, about = tensors.read(newest, checkpoint.KIND)
    tensors.write(newest, checkpoint.KIND, arrays, about | {"identity": about["identity"] | {"seed": 3}})
    with pytest.raises(
        FileExistsError, match=rf"{newest.name} belongs to a run with other settings: seed was 3, now is 1"
    ):
        resumed(unfinished)


@contextmanager
def files_no_larger_than(size):
    """Simulate a full disk: limit the size of files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_stops_with_a_sentence(unfinished, trained, capsys):
    before = fingerprints(unfinished / "checkpoints")
    size = checkpoint.newest(unfinished / "checkpoints").stat().st_size
    with files_no_larger_than(size - 1):
        assert cli.main(["train", "--resume", "--out", str(unfinished)]) == 1
    errors = capsys.readouterr().err
    assert re.search(
        r"otpe: /.*step-0000000009.safetensors cannot be written: File too large. Earlier checkpoints are untouched",
        errors,
    )
    assert "Traceback" not in errors
    assert fingerprints(unfinished / "checkpoints") == before, "no half-written file remains either"
    assert cli.main(["train", "--resume", "--out", str(unfinished)]) == 0
    assert state(unfinished) == state(trained.folder)


@pytest.mark.parametrize("at", ["metrics.jsonl", "result.json"])
def test_a_disk_full_while_writing_other_files_stops_with_a_sentence(at, unfinished, trained, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"otpe.lab.runs.folder.Folder.{'add' if at == 'metrics.jsonl' else 'write_result'}", full)
        assert cli.main(["train", "--resume", "--out", str(unfinished)]) == 1
    assert "No space left on device. What was written until then is kept." in capsys.readouterr().err
    assert cli.main(["train", "--resume", "--out", str(unfinished)]) == 0
    assert state(unfinished) == state(trained.folder)
