"""Compiled programs are kept on the disk for the next command."""

import os
import subprocess
import sys

import pytest
from tiny_runs import TINY, arguments, state

from otpe import compile_cache


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """A cache folder of this test, and JAX's variables as they were afterwards."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_MAX_SIZE"):
        monkeypatch.setenv(name, "x")  # so that monkeypatch restores them
        monkeypatch.delenv(name)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("OTPE_CACHE", str(tmp_path / "cache"))


def train(out, *options):
    command = [sys.executable, "-m", "otpe.cli", "train", *arguments(TINY, out=out), *options]
    subprocess.run(command, env=os.environ | {"JAX_ENABLE_X64": "1"}, check=True, capture_output=True)
    return state(out)


def test_the_second_command_compiles_nothing_and_gives_the_same_bits(tmp_path):
    first = train(tmp_path / "first")
    programs = set((tmp_path / "cache" / "compiled").rglob("*-cache"))
    assert programs
    assert train(tmp_path / "second") == first
    assert set((tmp_path / "cache" / "compiled").rglob("*-cache")) == programs


def test_the_flag_turns_it_off(tmp_path):
    train(tmp_path / "run", compile_cache.FLAG)
    assert not (tmp_path / "cache" / "compiled").exists()


@pytest.mark.parametrize("wish", ["off", "OFF", "0", "no"])
def test_the_variable_turns_it_off(wish, monkeypatch):
    monkeypatch.setenv(compile_cache.VARIABLE, wish)
    assert compile_cache.enable() is None
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_a_cache_that_the_user_chose_for_jax_stays(monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    assert compile_cache.enable() is None
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"


def test_the_variable_names_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(compile_cache.VARIABLE, str(tmp_path / "here"))
    assert compile_cache.enable() == tmp_path / "here"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "here")


def test_half_a_program_is_removed(monkeypatch, tmp_path):
    monkeypatch.setenv(compile_cache.VARIABLE, str(tmp_path))
    for name in ("half-cache", "whole-cache", "whole-atime"):
        (tmp_path / name).write_bytes(b"12345678")
    compile_cache.enable()
    assert {path.name for path in tmp_path.glob("*-*")} == {"whole-cache", "whole-atime"}


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
def test_a_folder_that_others_can_write_to_is_not_used(monkeypatch, tmp_path):
    """Anyone could put a program there."""
    tmp_path.chmod(0o777)
    monkeypatch.setenv(compile_cache.VARIABLE, str(tmp_path))
    assert compile_cache.enable() is None


def test_without_a_folder_the_command_works(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(compile_cache.VARIABLE, str(tmp_path / "file" / "cache"))
    assert compile_cache.enable() is None
