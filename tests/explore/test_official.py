"""`otpe data` with archives: official or not, present or to be downloaded."""

import re

import pytest
from three_recordings import write
from tiny_events import zipped as pack

from otpe import cli
from otpe.datasets import download


@pytest.fixture
def archives(tmp_path, monkeypatch, plain):
    """Small SHD archives whose hashes count as official."""
    root = tmp_path / "shd"
    packed = {split: pack(write(root / f"shd_{split}.h5")) for split in ("train", "test")}
    official = {split: download.md5(path) for split, path in packed.items()}
    monkeypatch.setitem(download.SOURCES, "shd", download.SOURCES["shd"]._replace(md5=official))
    return root


def look(root, *args):
    return cli.main(["data", "shd", "--root", str(root), "--bins", "2", "--out", str(root.parent / "out"), *args])


def test_official_archives_are_recognised(archives, capsys):
    assert look(archives, "--verify") == 0
    output = capsys.readouterr().out
    assert re.search(r"official archive +yes +yes", output)
    assert output.startswith("Spiking Heidelberg Digits\n")
    assert "results" not in output


def test_other_archives_are_named_and_refused_with_download(archives, capsys):
    (archives / "shd_test.h5.zip").unlink()
    other = pack(write(archives / "shd_test.h5", labels=(0, 0, 0)))
    assert look(archives) == 0
    output = capsys.readouterr().out
    assert re.search(r"official archive +yes +no", output)
    assert output.startswith("Spiking Heidelberg Digits (NOT the official archives)\n")
    assert "NOT OFFICIAL: shd_test.h5.zip. Results from these files are not SHD results." in output
    assert look(archives, "--verify", "--out", str(archives.parent / "none")) == 2
    output = capsys.readouterr().err
    actual, expected = download.md5(other), download.SOURCES["shd"].md5["test"]
    assert f"{other} is not the official archive: its md5 is {actual}, expected {expected}." in output
    assert f"`otpe data shd --root {archives} --download`, or leave out --verify" in output
    assert not (archives.parent / "none").exists()


def test_an_unpacked_file_cannot_be_verified(archives, capsys):
    packed = (archives / "shd_test.h5.zip").read_bytes()
    (archives / "shd_test.h5.zip").unlink()
    unpacked = write(archives / "shd_test.h5")
    assert look(archives) == 0
    output = capsys.readouterr().out
    assert re.search(r"official archive +yes +unknown", output)
    assert "Not known to be official: shd_test.h5. An md5 is known of the archives only" in output
    assert look(archives, "--verify") == 2
    output = capsys.readouterr().err
    assert f"{unpacked} cannot be verified: an md5 is known of the archive only, which is not there." in output
    assert f"`otpe data shd --root {archives} --download --verify`, or leave out --verify" in output
    (archives / "shd_test.h5.zip").write_bytes(packed)
    assert look(archives, "--verify") == 0, "the archive is read"


@pytest.fixture
def server(monkeypatch):
    """Record what would be downloaded, without network access."""
    requested = []

    def fetched(name, split, root):
        requested.append((name, split))
        return pack(write(root / f"{name}_{split}.h5"))

    monkeypatch.setattr(download, "fetch", fetched)
    return requested


def test_download_fetches_what_is_missing(archives, server, capsys):
    (archives / "shd_test.h5.zip").unlink()
    assert look(archives, "--download") == 0
    assert server == [("shd", "test")]
    assert "Fetching shd_test.h5.zip" in capsys.readouterr().err
    assert look(archives, "--download", "--offline") == 0, "no file is missing"
    assert len(server) == 1


def test_offline_mode_fetches_nothing(archives, server, capsys):
    (archives / "shd_test.h5.zip").unlink()
    assert look(archives, "--download", "--offline") == 2
    output = capsys.readouterr().err
    assert f"{archives / 'shd_test.h5.zip'}: not there, and --offline forbids what --download asks for." in output
    assert not server


def test_nothing_is_fetched_without_download(tmp_path, server, capsys):
    assert look(tmp_path / "none") == 2
    output = capsys.readouterr().err
    for name in ("shd_train.h5.zip", "shd_test.h5.zip"):
        assert str(tmp_path / "none" / name) in output
    assert "not there, packed or unpacked (there is no such folder)" in output
    assert f"Fetch what is missing with `otpe data shd --root {tmp_path / 'none'} --download`" in output
    assert not server
    assert not list(tmp_path.iterdir())


def test_a_download_that_fails_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OTPE_OFFLINE", "1")
    assert look(tmp_path / "none", "--download") == 2
    assert "OTPE_OFFLINE forbids downloads" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
