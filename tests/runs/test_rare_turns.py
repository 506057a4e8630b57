"""Rare events: a run resumed with other block lengths, a stop at its very end, a terminal that was closed."""

import io
import os
import signal
import sys
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny_runs import TINY, arguments, steps_of

import otpe
from otpe import cli
from otpe.lab import signals
from otpe.lab.runs import checkpoint, folder, loop, train
from otpe.lab.runs.custom import describe


def test_a_run_resumes_with_other_block_lengths(trained, tmp_path, monkeypatch):
    """Resume with the block lengths of a GPU a run that was stopped at step 1 on a CPU."""
    out = otpe.train(replace(TINY, out=tmp_path / "run", checkpoint_seconds=0, keep=9)).folder
    (out / "result.json").unlink()
    first, *later = checkpoint.everything(out / "checkpoints")
    assert first.name == checkpoint.name(1)
    for path in later:
        path.unlink()
    monkeypatch.setattr(loop, "longest_stride", lambda common: 4)
    result = otpe.train(replace(TINY, out=out, resume=True))
    assert steps_of(out) == [4, 8, 12]
    assert checkpoint.newest(out / "checkpoints").name == checkpoint.name(12)
    np.testing.assert_allclose(result.loss, trained.loss, rtol=1e-5)


def test_block_length_does_not_change_results(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "longest_stride", lambda common: 4)
    result = otpe.train(replace(TINY, out=tmp_path / "run"))
    for given, expected in zip(result.params[0], trained.params[0], strict=True):
        np.testing.assert_allclose(given.kernel, expected.kernel, rtol=1e-5, atol=1e-6)


def interrupted_while(name, monkeypatch):
    plain = getattr(train.Run, name)
    monkeypatch.setattr(train.Run, name, lambda self: os.kill(os.getpid(), signal.SIGTERM) or plain(self))


def test_a_stop_during_the_final_test_waits_for_the_result(tmp_path, monkeypatch):
    interrupted_while("_finish", monkeypatch)
    with pytest.raises(KeyboardInterrupt, match=r"is finished, with its result"):
        otpe.train(replace(TINY, out=tmp_path / "run"))
    assert (tmp_path / "run" / "result.json").exists()


def test_a_comparison_stopped_at_the_end_of_a_run_trains_no_further_rule(tmp_path, monkeypatch):
    interrupted_while("_finish", monkeypatch)
    out = tmp_path / "all"
    assert cli.main(["compare", *arguments(TINY, out=out), "--rules", "otpe", "ottt"]) == 143
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["otpe-offline"]


class Gone(io.StringIO):
    def write(self, *_):
        raise BrokenPipeError


def test_ctrl_c_is_noted_when_the_terminal_is_gone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Gone())
    with signals.caught() as stop_request:
        os.kill(os.getpid(), signal.SIGINT)
    assert stop_request.number == signal.SIGINT


def test_training_continues_when_warnings_cannot_be_written(tmp_path, monkeypatch, capsys):
    silent = replace(TINY, threshold=1e6)
    monkeypatch.setattr(sys, "stderr", Gone())
    assert cli.main(["train", *arguments(silent, out=tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "result.json").exists()


def test_a_diverging_rule_does_not_stop_the_others(tmp_path, capsys):
    """Weight decay alone makes weights infinite offline, but not online with its smaller rate."""
    wild = replace(TINY, hidden=(), optimizer="adamw", weight_decay=2e4, steps=24)
    line = ["compare", *arguments(wild, out=tmp_path / "all"), "--rules", "ottt", "--modes", "offline", "online"]
    assert cli.main([*line, "--online-learning-rate", "1e-9"]) == 1
    output = capsys.readouterr().out
    assert "ottt offline: step " in output
    assert "not finite any more" in output
    assert (tmp_path / "all" / "ottt-online" / "result.json").exists()


def test_user_parts_are_described_equally_in_every_process():
    for own in (optax.adam(1.0), optax.MultiSteps(optax.adam(1.0), 2)):
        assert describe(own) == "an optax optimizer"
    net = otpe.dense([3, 2], surrogate=lambda d: jnp.exp(-jnp.abs(d)))
    assert "<lambda>" in describe(net)
    assert " at 0x" not in describe(net)
    assert describe(net).startswith("Network(layers=(DenseLayer(n_in="), "as in folders of earlier versions"
    assert "threshold=" in describe(net), "a run must not go on with a network of another threshold"


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden"])
def test_a_dataset_name_cannot_leave_the_runs_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = folder.opened(replace(TINY, dataset=name), [name, "otpe", "offline"], {})
    opened.close()
    assert opened.path.parent == folder.RUNS
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_other_lengths_change_the_data_fingerprint():
    from otpe.datasets import from_arrays
    from otpe.lab.runs.task import Splits, fingerprint

    spikes, labels = np.ones((6, 8, 5)), np.arange(8) % 2
    datasets = [from_arrays(spikes, labels, lengths=np.full(8, n)) for n in (2, 5)]
    first, second = (fingerprint(Splits(data, data, data), 0, 4) for data in datasets)
    assert first != second


DAMAGED = [("result.json", "{}", r"is damaged: there is no rule, mode, dataset in it"),
           ("result.json", '{"format": 2}', r"has the format 2, which a newer otpe wrote"),
           ("config.json", '{"format": 2}', r"has the format 2, which a newer otpe wrote")]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "message"), DAMAGED, ids=[f"{a} {b}" for a, b, _ in DAMAGED])
def test_incomplete_files_and_newer_formats_are_refused(file, content, message, finished):
    (finished / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        otpe.train(replace(TINY, out=finished, resume=True))


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"5\n", b"[]\n"])
def test_invalid_metrics_are_measured_again(content, unfinished, trained):
    path = unfinished / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + content)
    with pytest.warns(UserWarning, match=r"metrics.jsonl is damaged: line 4 is left out."):
        result = otpe.train(replace(TINY, out=unfinished, resume=True))
    assert [line["step"] for line in result.metrics] == [4, 8, 12]
    assert result.loss == trained.loss
