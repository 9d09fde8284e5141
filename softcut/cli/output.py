"""Output, all or nothing: everything is written beside its place and put there by renaming at the end."""

from __future__ import annotations

import fnmatch
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from softcut.cli.interrupts import INTERRUPTS
from softcut.errors import ParameterError

__all__ = ["Device", "Output", "Overwrite", "Target"]

Device = Annotated[str, typer.Option(help="'auto', 'cpu' or 'cuda'.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the results of an earlier run in the same place.")
]


@dataclass(frozen=True)
class Target:
    """A place for results: a whole folder, or single files inside `path`."""

    path: Path
    whole: bool


class Output:
    """Checks places before the work, and fills all of them after it, or none.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     output = Output()
    ...     folder = output.folder("--out", Path(temporary, "result"), ["*.txt"])
    ...     with output:
    ...         _ = (output.staged(folder) / "a.txt").write_text("done")
    ...         early = folder.path.exists()
    ...     early, (folder.path / "a.txt").read_text()
    (False, 'done')
    """

    def __init__(self, overwrite: bool = False) -> None:
        self.overwrite = overwrite
        self._targets: list[Target] = []
        self._staged: dict[Target, Path] = {}

    def folder(self, option: str, path: Path, ours: Sequence[str]) -> Target:
        """A folder that will hold these results and nothing else.

        Parameters
        ----------
        option : str
            The option that named it, for messages.
        path : path
            The folder; it need not exist.
        ours : sequence of str
            Patterns of the files such a folder holds. A folder with any other file is never replaced.
        """
        target = Path(os.path.realpath(path))
        if target.exists():
            if not target.is_dir():
                raise ParameterError(f"{option} {path} is a file; name a folder.")
            here = Path.cwd()
            if here == target or target in here.parents:
                raise ParameterError(f"{option} {path} is the folder you are in; name a new folder.")
            inside = sorted(p.name for p in target.iterdir())
            others = [name for name in inside if not any(fnmatch.fnmatch(name, o) for o in ours)]
            if others:
                raise ParameterError(
                    f"{option} {path} holds other files ({others[0]}) and is not replaced; name another folder."
                )
            if inside and not self.overwrite:
                raise ParameterError(
                    f"{option} {path} holds the results of an earlier run; name another folder or add --overwrite."
                )
        _check_writable(option, path, target.parent)
        return self._add(Target(target, whole=True))

    def files(self, option: str, path: Path, names: Sequence[str]) -> Target:
        """The folder of `path`, into which files called `names` will go beside what is there."""
        folder = Path(os.path.realpath(path.parent))
        for name in names:
            if (folder / name).is_dir():
                raise ParameterError(f"{option} {path} cannot be written: {name} is a folder.")
            if (folder / name).exists() and not self.overwrite:
                raise ParameterError(
                    f"{option} {path}: {name} exists; choose another name or add --overwrite."
                )
        for target in self._targets:
            if target.whole and target.path == folder:
                return target  # part of that folder, which is replaced as a whole
        _check_writable(option, path, folder)
        return self._add(Target(folder, whole=False))

    def _add(self, target: Target) -> Target:
        self._targets.append(target)
        return target

    def staged(self, target: Target) -> Path:
        """The temporary folder to write to."""
        return self._staged[target]

    def files_to_come(self) -> list[Path]:
        """Where the files written so far will be."""
        return [t.path / file.name for t, staged in self._staged.items() for file in sorted(staged.iterdir())]

    def __enter__(self) -> Output:
        try:
            for target in self._targets:
                beside = _existing(target.path.parent if target.whole else target.path)
                self._staged[target] = Path(tempfile.mkdtemp(dir=beside, prefix=".softcut-"))
        except BaseException:
            self._clean()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with INTERRUPTS.shielded():
            try:
                if kind is None:
                    for target, staged in self._staged.items():
                        _put(staged, target)
            finally:
                self._clean()

    def _clean(self) -> None:
        for staged in self._staged.values():
            shutil.rmtree(staged, ignore_errors=True)
        self._staged = {}


def _put(staged: Path, target: Target) -> None:
    """Rename what was written to where it belongs."""
    if not target.whole:
        target.path.mkdir(parents=True, exist_ok=True)
        for file in staged.iterdir():
            os.replace(file, target.path / file.name)
        return
    umask = os.umask(0)
    os.umask(umask)
    staged.chmod(0o777 & ~umask)  # mkdtemp makes private folders
    target.path.parent.mkdir(parents=True, exist_ok=True)
    if not target.path.exists():
        staged.rename(target.path)
        return
    # The old results move out of the way first, and come back if the new ones cannot take their place.
    old = Path(tempfile.mkdtemp(dir=target.path.parent, prefix=".softcut-"))
    try:
        target.path.rename(old / "old")
        try:
            staged.rename(target.path)
        except OSError:
            (old / "old").rename(target.path)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _existing(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def _check_writable(option: str, path: Path, folder: Path) -> None:
    """Say before the work, not after it, that nothing can be written there."""
    parent = _existing(folder)
    if not parent.is_dir():
        raise ParameterError(f"{option} {path} cannot be written: {parent} is a file.")
    try:
        os.rmdir(tempfile.mkdtemp(dir=parent, prefix=".softcut-"))
    except OSError as error:
        raise ParameterError(
            f"{option} {path} cannot be written: {parent}: {error.strerror or error}."
        ) from error
