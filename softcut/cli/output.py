"""Output, all or nothing: everything is written beside its place and put there by renaming at the end."""

from __future__ import annotations

import errno
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
from softcut.files import check_writable, exchange, nearest

Device = Annotated[str, typer.Option(help="'auto', 'cpu' or 'cuda'.")]
ModelOut = Annotated[Path | None, typer.Option(help="Save the fitted model under this name.")]
OutFolder = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for the results; by default named after the input.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the results of an earlier run in the same place.")
]


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass
class Place:
    """Where results will be: a whole folder, or single files inside `path`. They are written into `staged`."""

    path: Path
    whole: bool
    staged: Path = Path()


class Output:
    """Checks places before the work, and fills all of them after it, or none: write into ``place.staged`` meanwhile."""

    def __init__(self, overwrite: bool = False) -> None:
        self.overwrite = overwrite
        self.written: list[Path] = []
        self._places: list[Place] = []
        self._temporary: list[Path] = []
        self._claimed: dict[Path, str] = {}  # files that will be written, and the option that names them

    def folder(
        self, path: Path, ours: Sequence[str], model: Path | None = None, export: Path | None = None
    ) -> Place:
        """A folder of ``--out`` that will hold these results, perhaps a model and an export, and nothing else.

        `ours` are patterns of the files such a folder holds: a folder with any other file is never replaced.
        """
        from softcut.io.model_files import model_file

        target = Path(os.path.realpath(path))
        if target.exists():
            if not target.is_dir():
                raise ParameterError(f"--out {path} is a file; name a folder.")
            here = Path.cwd()
            if here == target or target in here.parents:
                raise ParameterError(f"--out {path} is the folder you are in; name a new folder.")
            inside = sorted(p.name for p in target.iterdir())
            more = [export, model and model_file(model)]
            added = [file.name for file in more if file and os.path.realpath(file.parent) == str(target)]
            patterns = (*ours, *added)
            others = [name for name in inside if not any(fnmatch.fnmatch(name, p) for p in patterns)]
            if others:
                raise ParameterError(
                    f"--out {path} holds other files ({others[0]}) and is not replaced; name another folder."
                )
            if inside and not self.overwrite:
                raise ParameterError(
                    f"--out {path} holds the results of an earlier run; name another folder or add --overwrite."
                )
            check_writable("--out", path, target)
            if os.path.ismount(target):
                raise ParameterError(
                    f"--out {path} is a mounted disk and cannot be replaced; name a folder in it."
                )
        check_writable("--out", path, target.parent)
        self._claim("--out", path, target, ("", *ours))
        return self._add(Place(target, whole=True))

    def model(self, path: Path | None) -> Place | None:
        """The place of the file of ``--model-out``, where it is given."""
        if path is None:
            return None
        from softcut.io.model_files import model_file, place_for_model

        place = self.file("--model-out", model_file(path))
        place_for_model(path)
        return place

    def file(self, option: str, path: Path) -> Place:
        """The folder of `path`, into which this file will go beside what is there."""
        folder = Path(os.path.realpath(path.parent))
        self._claim(option, path, folder, [path.name])
        if (folder / path.name).is_dir():
            raise ParameterError(f"{option} {path} cannot be written: {path.name} is a folder.")
        if (folder / path.name).exists() and not self.overwrite:
            raise ParameterError(f"{option} {path} exists; choose another name or add --overwrite.")
        for place in self._places:
            if place.path == folder:
                return place  # part of that folder, which is replaced as a whole
        check_writable(option, path, folder)
        return self._add(Place(folder, whole=False))

    def check_room(self, needed: int) -> None:
        """Refuse disks that have less than `needed` bytes left."""
        for place in self._places:
            check_writable("--out", place.path, place.path.parent if place.whole else place.path, needed)

    def _claim(self, option: str, path: Path, folder: Path, names: Sequence[str]) -> None:
        """Refuse two files of one name; `names` may be patterns."""
        for name in names:
            for claimed, other in self._claimed.items():
                if other != option and fnmatch.fnmatch(str(folder / name), str(claimed)):
                    what = f"{name or path.name} of {other}"
                    raise ParameterError(f"{option} {path} would replace {what}; choose another name.")
            self._claimed[folder / name] = option

    def _add(self, place: Place) -> Place:
        self._places.append(place)
        return place

    def __enter__(self) -> Output:
        try:
            for place in self._places:
                beside = nearest(place.path.parent if place.whole else place.path)
                place.staged = Path(tempfile.mkdtemp(dir=beside, prefix=".softcut-"))
                self._temporary.append(place.staged)
        except BaseException:
            self._clean()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *where: object) -> None:
        with INTERRUPTS.shielded():
            try:
                if kind is None:
                    for place in self._places:
                        self.written += [place.path / name for name in sorted(os.listdir(place.staged))]
                        _put(place)
            finally:
                self._clean()
        if isinstance(error, OSError) and error.errno in (None, *_FULL):  # None: numpy counts what it wrote
            reason = error.strerror or "the disk is full"
            raise ParameterError(f"--out {self._places[0].path} cannot be written: {reason}.") from error

    def _clean(self) -> None:
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)


def _put(place: Place) -> None:
    """Rename what was written to where it belongs."""
    if not place.whole:
        place.path.mkdir(parents=True, exist_ok=True)
        for file in place.staged.iterdir():
            os.replace(file, place.path / file.name)
        return
    umask = os.umask(0)
    os.umask(umask)
    place.staged.chmod(0o777 & ~umask)  # mkdtemp makes private folders
    place.path.parent.mkdir(parents=True, exist_ok=True)
    if not place.path.exists():
        place.staged.rename(place.path)
        return
    if exchange(place.staged, place.path):  # the old results are removed with the folder of the staged ones
        return
    # The old results move out of the way first, and come back if the new ones cannot take their place.
    old = Path(tempfile.mkdtemp(dir=place.path.parent, prefix=".softcut-"))
    try:
        place.path.rename(old / "old")
        try:
            place.staged.rename(place.path)
        except OSError:
            (old / "old").rename(place.path)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
