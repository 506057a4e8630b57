"""The commit of a folder of source, without running a program that a repository names.

`git status` runs what the repository configures: file system monitors, hooks, filters. That repository need not be the
user's: any folder above may have a `.git`. So this module reads the commit from git's files itself. It runs git only to
list the files of the commit, in an empty temporary repository that uses the objects of the real one. So git never reads
the settings of the real repository. Changed files are found by their hashes.
"""

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

DEEPEST = 5  # the longest chain of symbolic references


def of(source: Path) -> str | None:
    """Return the commit of a folder, with a + if files were changed, removed or added. None if it is in no commit."""
    source = source.resolve()
    try:
        root = next((folder for folder in (source, *source.parents) if (folder / ".git").exists()), None)
        if root is None:
            return None
        own, shared = _folders(root / ".git")
        commit = _resolved(own, shared)
        files = _files(shared / "objects", commit, source.relative_to(root)) if commit else {}
        return f"{commit}{'+' * _changed(source, files)}" if files else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _folders(git: Path) -> tuple[Path, Path]:
    """Return the folder with HEAD and the one with objects and branches. In a worktree they differ."""
    own = git if git.is_dir() else git.parent / _text(git).removeprefix("gitdir: ")
    return own, own / _text(own / "commondir") if (own / "commondir").exists() else own


def _resolved(own: Path, shared: Path) -> str | None:
    name = _text(own / "HEAD")
    for _ in range(DEEPEST):
        if re.fullmatch("[0-9a-f]{40}", name):
            return name
        name = name.removeprefix("ref: ")
        if not name.startswith("refs/") or ".." in name:
            return None
        loose = next((folder / name for folder in (own, shared) if (folder / name).is_file()), None)
        name = _text(loose) if loose else _packed(shared, name)
    return None


def _packed(shared: Path, name: str) -> str:
    lines = _text(shared / "packed-refs").splitlines()
    return next((line.split()[0] for line in lines if line.split()[1:] == [name]), "")


def _text(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""  # reading a named pipe would block


def _files(objects: Path, commit: str, place: Path) -> dict[str, str]:
    """Return the hash of every file that the commit has in this folder."""
    where = "" if place == Path() else place.as_posix()
    with tempfile.TemporaryDirectory(prefix="otpe-git-") as empty:
        for name in ("objects", "refs"):
            (Path(empty) / name).mkdir()
        (Path(empty) / "HEAD").write_text(commit)
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_DIR": empty, "GIT_OBJECT_DIRECTORY": str(objects)}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        command = ["git", "ls-tree", "-r", "-z", f"{commit}:{where}"]
        ran = subprocess.run(command, cwd=empty, env=env, capture_output=True, timeout=10, check=True)
    found = (line.split("\t", 1) for line in os.fsdecode(ran.stdout).split("\0") if line)
    return {name: about.split()[2] for about, name in found}


def _changed(source: Path, files: dict[str, str]) -> bool:
    """Return whether a file differs from the commit, is missing, or is a source file that the commit does not have."""
    there = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    return bool(there - files.keys()) or any(not _is(source / name, wanted) for name, wanted in files.items())


def _is(path: Path, wanted: str) -> bool:
    """Return whether the file has this hash. Its line ends may be those of Windows, where git may change them."""
    content = path.read_bytes() if path.is_file() else None
    return content is not None and wanted in (_hash(content), _hash(content.replace(b"\r\n", b"\n")))


def _hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
