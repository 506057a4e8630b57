"""The commit recorded in a run's folder is right in every kind of checkout. Reading it runs no program of a repository."""

import os
import subprocess

import pytest

import otpe
from otpe.lab.runs import folder


@pytest.fixture
def git(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))  # without the git settings of the user

    def run(*args, cwd=tmp_path / "repo"):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *map(str, args)]
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()

    return run


@pytest.fixture
def source(tmp_path, git, monkeypatch):
    """Return a source folder with two files, in a repository with one commit."""
    place = tmp_path / "repo" / "src" / "package"
    (place / "inner").mkdir(parents=True)
    (place / "__init__.py").write_text("one\n")
    (place / "inner" / "fünf.py").write_text("two\n")
    (tmp_path / "repo" / ".gitignore").write_text("ignored/\n")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(otpe, "__file__", str(place / "__init__.py"))
    return place


def commit():
    return folder.provenance()["commit"]


def test_local_changes_are_marked(source, git):
    clean = git("rev-parse", "HEAD")
    assert commit() == clean
    for change, back in (
        (lambda: (source / "inner" / "fünf.py").write_text("three\n"), lambda: git("checkout", "-q", ".")),
        (lambda: (source / "__init__.py").unlink(), lambda: git("checkout", "-q", ".")),
        (lambda: (source / "new.py").write_text(""), lambda: (source / "new.py").unlink()),
    ):
        change()
        assert commit() == clean + "+"
        back()
        assert commit() == clean
    (source / "__init__.py").write_bytes(b"one\r\n")  # with the line endings of a checkout on Windows
    (source / "__pycache__").mkdir()
    (source.parent / "beside.py").write_text("not ours")
    assert commit() == clean


def test_packed_branches_are_read(source, git):
    git("gc", "-q")
    assert not (source.parents[1] / ".git" / "refs" / "heads" / "main").exists()
    assert commit() == git("rev-parse", "HEAD")


def test_a_detached_head_is_read(source, git):
    first = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "second")
    git("checkout", "-q", first)
    assert commit() == first


def test_a_worktree_is_read(source, git, tmp_path, monkeypatch):
    git("worktree", "add", "-q", "-b", "other", tmp_path / "tree")
    git("commit", "-q", "--allow-empty", "-m", "second", cwd=tmp_path / "tree")
    monkeypatch.setattr(otpe, "__file__", str(tmp_path / "tree" / "src" / "package" / "__init__.py"))
    assert commit() == git("rev-parse", "other") != git("rev-parse", "main")


def test_a_separate_git_folder_is_read(source, git, tmp_path):
    git("init", "-q", "--separate-git-dir", tmp_path / "elsewhere")
    assert (tmp_path / "repo" / ".git").is_file()
    assert commit() == git("rev-parse", "HEAD")


def test_source_at_the_repository_root_is_found(tmp_path, git, monkeypatch):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "__init__.py").write_text("")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(otpe, "__file__", str(tmp_path / "repo" / "__init__.py"))
    assert commit() == git("rev-parse", "HEAD")


def test_source_in_no_commit_has_no_commit(source, git, tmp_path, monkeypatch):
    """Such as a virtual environment inside another repository."""
    for place in ("repo/ignored/package", "outside/package"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "__init__.py").write_text("")
        monkeypatch.setattr(otpe, "__file__", str(tmp_path / place / "__init__.py"))
        assert commit() is None


def test_git_environment_variables_are_ignored(source, git, tmp_path, monkeypatch):
    expected = git("rev-parse", "HEAD")
    git("clone", "-q", tmp_path / "repo", tmp_path / "other")
    git("commit", "-q", "--allow-empty", "-m", "second", cwd=tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert commit() == expected


def test_no_program_of_the_repository_runs(source, git, tmp_path):
    """Git runs such programs when it compares files with a commit, or looks for missing objects."""
    marker, repo = tmp_path / "marker", tmp_path / "repo"
    clean = git("rev-parse", "HEAD")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 $* >> {marker}\ncat\n")
    program.chmod(0o755)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "post-index-change").symlink_to(program)
    (repo / ".git" / "info" / "attributes").write_text("* filter=mine diff=mine\n")
    settings = ("core.fsmonitor", "filter.mine.clean", "filter.mine.process", "diff.external", "diff.mine.textconv")
    for name in settings:
        git("config", name, program)
    git("config", "core.hooksPath", tmp_path / "hooks")
    (source / "__init__.py").write_text("one\n")  # the same content with another time, so git must compare
    os.utime(source / "__init__.py", (1, 1))
    assert commit() == clean
    assert not marker.exists()
    git("config", "remote.origin.url", f"ext::touch {marker}")
    git("config", "remote.origin.promisor", "true")
    git("config", "extensions.partialClone", "origin")
    git("config", "protocol.ext.allow", "always")
    tree = git("-c", "core.fsmonitor=false", "rev-parse", "HEAD:src")
    (repo / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert commit() is None
    assert not marker.exists()


@pytest.mark.parametrize(
    "head", ["ref: refs/heads/main/../../../../../secret", "ref: refs/heads/loop", "ref: refs/heads/none", "\xff", ""]
)
def test_an_invalid_head_gives_no_commit(source, tmp_path, head):
    (tmp_path / "secret").write_text("1" * 40)
    (tmp_path / "repo" / ".git" / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop")
    (tmp_path / "repo" / ".git" / "HEAD").write_text(head, encoding="latin-1")
    assert commit() is None


def test_a_head_that_is_a_pipe_is_not_read(source, tmp_path):
    (tmp_path / "repo" / ".git" / "HEAD").unlink()
    os.mkfifo(tmp_path / "repo" / ".git" / "HEAD")
    assert commit() is None


def test_the_commit_is_unknown_without_git(source, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit() is None
