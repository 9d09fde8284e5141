"""QM9 (Ramakrishnan et al., 2014): small molecules as graphs of their heavy atoms, with nine properties to predict.

The 130,831 molecules are QM9's 133,885 without the 3,054 that failed its authors' consistency check. Reading the table
of SMILES needs rdkit; the compact file that is written from it does not.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcut.datasets import fetching
from softcut.datasets.molecules import BOND_ORDERS, read_smiles, require_rdkit
from softcut.errors import DataError
from softcut.files import atomic_write
from softcut.graph.collection import pointer

ATOMS = ("C", "N", "O", "F")
PROPERTIES = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0_atom", "cv")

_PACKED = ("graphs/QM9.npz", "QM9.npz")
_TABLE = "qm9/qm9.csv.gz"
_TABLE_SHA256 = "4ac988ea98607e728bc39c4193ebac0de37b170c9f44b09048dd50a7a345318d"
_CONTENT_SHA256 = "ba5ee38d4bd9b88ef6dcc92509f98a9caeeb4c2cf656418dc5d76aef96e5cdf4"


@dataclass(frozen=True)
class Molecules:
    """Molecules one after another: heavy atoms, the bonds between them, and numbers to predict."""

    sizes: NDArray[Any]  # heavy atoms of every molecule [G]
    atoms: NDArray[Any]  # positions in ATOMS, molecule after molecule
    num_bonds: NDArray[Any]  # bonds of every molecule [G]
    bonds: NDArray[Any]  # [2, E], atom numbers local to the molecule, each bond once
    bond_type: NDArray[Any]  # [E]: 1, 2, 3 for single, double and triple bonds, 4 for aromatic ones
    targets: NDArray[Any]  # [G, 9], the columns of PROPERTIES in the units of the source
    number: NDArray[Any]  # QM9's own number of every molecule [G]

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"Molecules({len(self)} molecules, {len(self.atoms)} heavy atoms, {self.bonds.shape[1]} bonds)"

    def __getitem__(self, chosen: Sequence[int] | NDArray[Any] | slice) -> Molecules:
        """Some of the molecules, in their own order."""
        keep = np.zeros(len(self), bool)
        keep[chosen] = True
        of_bond = np.repeat(keep, self.num_bonds)
        return replace(
            self,
            sizes=self.sizes[keep],
            atoms=self.atoms[np.repeat(keep, self.sizes)],
            num_bonds=self.num_bonds[keep],
            bonds=self.bonds[:, of_bond],
            bond_type=self.bond_type[of_bond],
            targets=self.targets[keep],
            number=self.number[keep],
        )

    def dense_features(self) -> NDArray[np.float32]:
        """One-hot atom types [G, N, 4], N being the atoms of the largest molecule; zeros in the padding."""
        x = np.zeros((len(self), int(self.sizes.max(initial=0)), len(ATOMS)), np.float32)
        molecule = np.repeat(np.arange(len(self)), self.sizes)
        x[molecule, np.arange(len(self.atoms)) - pointer(self.sizes)[molecule], self.atoms] = 1.0
        return x

    def dense_adjacency(self, bond_orders: bool = False) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Adjacency matrices [G, N, N] and which rows are atoms [G, N].

        `bond_orders`: bonds weigh 1, 2, 3, and 1.5 for aromatic ones; by default all of them weigh 1.
        """
        widest = int(self.sizes.max(initial=0))
        adjacency = np.zeros((len(self), widest, widest), np.float32)
        molecule = np.repeat(np.arange(len(self)), self.num_bonds)
        first, second = self.bonds
        weight = BOND_ORDERS[self.bond_type] if bond_orders else 1.0
        adjacency[molecule, first, second] = adjacency[molecule, second, first] = weight
        return adjacency, np.arange(widest) < self.sizes[:, None]

    def checksum(self) -> str:
        """Of all arrays."""
        return fetching.checksum(getattr(self, field.name) for field in fields(self))


def load_molecules(root: str | os.PathLike[str] | None = None) -> Molecules:
    """QM9 from the compact file ``QM9.npz``, or from the table ``qm9/qm9.csv.gz`` (needs rdkit, half a minute).

    Both are looked for in `root`, or in ``$SOFTCUT_DATA`` and in the cache, where the compact file is kept once it was
    made.
    """
    roots = fetching.search_roots(root)
    packed, table = fetching.find_file(roots, _PACKED), fetching.find_file(roots, [_TABLE])
    if packed is not None:
        return _verified(_read_packed(packed), str(packed))
    if table is not None:
        content = table.read_bytes()
        fetching.check_sha256(content, _TABLE_SHA256, str(table))
        molecules = _verified(read_table(gzip.decompress(content).decode("ascii")), str(table))
        if root is None:
            with suppress(OSError):  # a cache that cannot be written costs time, nothing else
                write_molecules(fetching.cache_dir() / _PACKED[0], molecules)
        return molecules
    places = " or ".join(str(place) for place in roots)
    raise DataError(
        f"The data set 'QM9' is not in {places}: it would be {_PACKED[1]} (as written by python -m "
        f"softcut.datasets.pack QM9) or {_TABLE} there; copy one of them there."
    )


def _verified(molecules: Molecules, where: str) -> Molecules:
    if molecules.checksum() != _CONTENT_SHA256:
        raise DataError(
            f"{where} does not hold the 130,831 molecules of QM9, its content differs; delete it and make it again "
            "with python -m softcut.datasets.pack QM9."
        )
    return molecules


def read_table(text: str) -> Molecules:
    """Molecules from a table with the columns mol_id, smiles and those of ``PROPERTIES``."""
    require_rdkit()
    sizes, atoms, num_bonds, bonds, targets, number = [], [], [], [], [], []
    for row in csv.DictReader(io.StringIO(text)):
        molecule = read_smiles(row["smiles"])
        if molecule is None:
            raise DataError(f"{row['mol_id']}: {row['smiles']!r} is not a molecule that rdkit can read.")
        sizes.append(len(molecule.symbols))
        atoms += [ATOMS.index(symbol) for symbol in molecule.symbols]
        num_bonds.append(len(molecule.bonds))
        bonds += molecule.bonds
        targets.append([float(row[name]) for name in PROPERTIES])
        number.append(int(row["mol_id"].removeprefix("gdb_")))
    ends = np.array(bonds, np.int64).reshape(-1, 3)
    return Molecules(
        sizes=np.array(sizes, np.int64),
        atoms=np.array(atoms, np.int64),
        num_bonds=np.array(num_bonds, np.int64),
        bonds=np.sort(ends[:, :2], axis=1).T,
        bond_type=ends[:, 2],
        targets=np.array(targets, np.float32).reshape(-1, len(PROPERTIES)),
        number=np.array(number, np.int64),
    )


def write_molecules(path: str | Path, molecules: Molecules) -> Path:
    """The compact file: compressed arrays of small types, no pickles."""
    kinds: dict[str, Any] = {"targets": np.float32, "number": np.int32}
    names = [field.name for field in fields(molecules)]
    arrays: dict[str, Any] = {n: getattr(molecules, n).astype(kinds.get(n, np.uint8)) for n in names}
    return atomic_write(path, lambda file: np.savez_compressed(file, **arrays))


def _read_packed(path: Path) -> Molecules:
    with fetching.reading(f"{path} cannot be read as packed molecules", "; delete it"):
        with np.load(path, allow_pickle=False) as file:
            arrays = {field.name: file[field.name] for field in fields(Molecules)}
        return Molecules(**{n: a if a.dtype.kind == "f" else a.astype(np.int64) for n, a in arrays.items()})
