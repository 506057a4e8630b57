"""The `otpe` command: verbs, help without jax, and bad input."""

import importlib.metadata
import json
import re
import subprocess
import sys

import pytest

import otpe
from otpe import cli

TOY = [
    "bench", "--rules", "bptt", "ottt", "--modes", "offline", "step", "--sizes", "6", "6", "6", "--base-steps", "4", "--base-batch", "2", "--widths",
    "6", "12", "--steps", "--batches", "--depths", "--seconds", "0.001",
]  # fmt: skip


@pytest.mark.parametrize(
    "args", [[], ["--help"], ["-h"], ["--version"], ["bench", "--help"], ["data", "--help"]], ids=" ".join
)
def test_help_does_not_import_jax(args):
    code = f"""
import sys
from otpe import cli
try:
    status = cli.main({args!r})
except SystemExit as stop:
    status = stop.code
assert status == 0
assert "jax" not in sys.modules
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.strip()


def test_the_command_is_installed():
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="otpe")
    assert entry.load() is cli.main


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"otpe {otpe.__version__}\n"


def test_usage_names_every_verb(capsys):
    assert cli.main([]) == 0
    output = capsys.readouterr().out
    for name, verb in cli.VERBS.items():
        assert name in output
        assert verb.summary in output


def test_main_reads_the_arguments_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["otpe", "--version"])
    assert cli.main() == 0
    assert capsys.readouterr().out.startswith("otpe ")


def test_bench_from_end_to_end(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert cli.main([*TOY, "--out", str(out)]) == 0
    output = capsys.readouterr().out
    first = (out / "bench-001.json").read_text()
    assert len(json.loads(first)["points"]) == 6
    assert (out / "bench-001.txt").read_text() in output
    for mode in ("offline", "step"):
        assert (out / f"bench-001-{mode}.png").read_bytes().startswith(b"\x89PNG")
    assert cli.main([*TOY, "--modes", "step", "--out", str(out)]) == 0
    assert (out / "bench-001.json").read_text() == first, "earlier results stay"
    assert (out / "bench-002-step.png").exists()
    assert not list(out.glob(".*")), "no half-written file remains"


BAD = [
    (["train", "--lr", "0.1"], r"^otpe: --lr is --learning-rate here\.\n$"),
    (["train", "--batch_size=4"], r"^otpe: --batch-size is --batch here\.\n$"),
    (["compare", "--lr-scheduler", "cosine"], r"--lr-scheduler is --schedule here\."),
    (["sweep", "--n-hidden", "64"], r"--n-hidden is --hidden here\."),
    (["stream", "--lr", "0.1"], r"--lr is --learning-rate here\."),
    (["train", "--num-classes", "4"], r"--num-classes is --classes here\."),
    (["train", "--network.n-hidden", "64"], r"the group network has no setting 'n_hidden'. n_hidden is hidden here\."),
    (
        ["train", "--epochs", "3"],
        r"--epochs is --steps here, counted in mini-batches: an epoch has as many as training recordings / --batch",
    ),
    (["train", "--device", "cpu"], r"--device is no setting: .* Set JAX_PLATFORMS=cpu"),
    (["benhc"], r"verb 'benhc' is not known. Did you mean 'bench'\?"),
    (["bench", "--rules", "otp"], r"rule 'otp' is not known. Did you mean 'otpe'\?"),
    (["bench", "--rules"], r"rules is empty, expected at least one of: bptt, rtrl"),
    (["bench", "--modes"], r"modes is empty, expected at least one of: offline, online, step"),
    (
        ["bench", "--rules", "bptt", "--modes", "step"],
        r"rules bptt in modes step leave nothing to measure.*Add the mode offline",
    ),
    (["bench", "--sizes", "6"], r"sizes is \[6\], expected at least two whole numbers above 0"),
    (["bench", "--widths", "0"], r"width is 0, expected a whole number above 0"),
    (["bench", "--steps", "-3"], r"steps is -3, expected a whole number above 0"),
    (["bench", "--batches", "0"], r"batch is 0, expected a whole number above 0"),
    (["bench", "--depths", "0"], r"depth is 0, expected a whole number above 0"),
    (["bench", "--base-steps", "0"], r"base steps is 0, expected a whole number above 0"),
    (["bench", "--base-batch", "0"], r"base batch is 0, expected a whole number above 0"),
    (["bench", "--seconds", "0"], r"seconds is 0.0, expected a number above 0"),
    (["bench", "--max-gb", "nan"], r"max gb is nan, expected a number above 0"),
    (["bench", "--out", "a-file"], r"out is 'a-file', which is a file, expected a folder"),
    (["bench", "--out", "a-file/below"], r"out is 'a-file/below', which cannot be made: Not a directory"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_refused_with_a_sentence(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("mine")
    monkeypatch.setattr("otpe.lab.bench.bench.run", lambda *_: pytest.fail("computed something"))
    assert cli.main(args) == 2
    output = capsys.readouterr().err
    assert output.startswith("otpe: ")
    assert "Traceback" not in output
    assert re.search(message, output)
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]
    assert (tmp_path / "a-file").read_text() == "mine"


@pytest.mark.parametrize("args", [["--widths", "many"], ["--modes", "sideways"], ["--width", "3"]], ids=" ".join)
def test_arguments_of_the_wrong_type_end_with_status_2(args, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", *args])
    assert stop.value.code == 2
    assert args[-2] in capsys.readouterr().err


def test_a_folder_without_write_permission_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "otpe.files.os.access", lambda *_: False
    )  # the user who runs the tests may have all permissions
    assert cli.main([*TOY, "--out", str(tmp_path)]) == 2
    assert "where nothing may be written. Name another folder." in capsys.readouterr().err


def test_a_bug_is_shown_with_its_traceback(monkeypatch, tmp_path):
    def broken(*_):
        raise ValueError("a bug")

    monkeypatch.setattr("otpe.lab.bench.bench.run", broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main([*TOY, "--out", str(tmp_path)])


def test_ctrl_c_while_data_is_read_ends_with_status_130(monkeypatch, capsys):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("otpe.lab.explore.explore.prepare", pressed)
    assert cli.main(["data", "shd"]) == cli.INTERRUPTED
    assert capsys.readouterr().err == "\notpe: stopped.\n"


def test_a_closed_pipe_ends_the_command_quietly(tmp_path):
    command = f"{sys.executable} -c 'from otpe import cli; raise SystemExit(cli.main())' {' '.join(TOY)} --out {tmp_path} | true"
    ended = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr


def test_without_tyro_the_command_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert cli.main(TOY) == 2
    assert "needs tyro, which is not installed. Use: pip install 'otpe[cli]'" in capsys.readouterr().err
    assert cli.main(["--help"]) == 0


def test_bench_works_without_matplotlib_and_tqdm(monkeypatch, capsys, tmp_path):
    for missing in ("matplotlib", "tqdm"):
        monkeypatch.setitem(sys.modules, missing, None)
    assert cli.main([*TOY, "--modes", "step", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert "needs matplotlib, which is not installed. Use: pip install 'otpe[plot]'" in output.out
    assert "2/2 step 12-12-12, T 4, batch 2" in output.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench-001.json", "bench-001.txt", "section.json"]
