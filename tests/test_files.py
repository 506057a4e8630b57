"""Files that otpe writes: complete or absent, and never a file of another user."""

import os
import secrets

import pytest

from otpe import files


@pytest.fixture
def precious(tmp_path):
    """A file that belongs to someone else."""
    path = tmp_path / "precious"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine"


def test_append_adds_complete_lines(tmp_path):
    for text in ("one\n", "two\n"):
        with files.append(tmp_path / "lines") as file:
            file.write(text)
    assert (tmp_path / "lines").read_text() == "one\ntwo\n"


def test_a_hard_link_is_not_appended_to(tmp_path, precious):
    (tmp_path / "lines").hardlink_to(precious)
    with pytest.raises(files.NotPlainError, match=r"lines is a hard link: the same file has another name too, .* copy"):
        files.append(tmp_path / "lines")


def unseen(self):
    raise FileNotFoundError


def test_a_file_replaced_between_check_and_open_is_refused(tmp_path, precious, monkeypatch):
    """A link is not followed, and a pipe is not waited for."""
    (tmp_path / "link").symlink_to(precious)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("pathlib.Path.lstat", unseen)
    with pytest.raises(OSError, match="link"):
        files.append(tmp_path / "link")
    with pytest.raises(OSError, match="pipe"):
        files.append(tmp_path / "pipe")
    with pytest.raises(files.NotPlainError, match=r"pipe is a named pipe, expected a plain file. Move it away"):
        files.open_plain(tmp_path / "pipe", os.O_RDONLY)


def test_the_temporary_file_is_newly_created(tmp_path, precious, monkeypatch):
    """Even if an attacker can guess its name."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0123")
    (tmp_path / ".0123.partial").symlink_to(precious)
    with pytest.raises(FileExistsError, match=r"result.json"):
        files.write_atomically(tmp_path / "result.json", "{}")


def test_a_link_is_replaced_and_not_followed(tmp_path, precious):
    (tmp_path / "result.json").symlink_to(precious)
    files.write_atomically(tmp_path / "result.json", "{}")
    assert not (tmp_path / "result.json").is_symlink()
