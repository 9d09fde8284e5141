"""Molecules as graphs: heavy atoms are nodes, bonds are edges; read from SMILES by rdkit, one by one or in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.errors import Argument, DataError, require
from softcut.graph.collection import GraphCollection, pointer
from softcut.io.feature_files import features_from
from softcut.io.text_files import stem_of
from softcut.tables.arrays import is_missing, listed, plural, shown
from softcut.tables.columns import Column, InputTable, is_value, looks_like_id

# Of the bond types 1, 2, 3 (single, double, triple) and 4 (aromatic).
BOND_ORDERS = np.array([0.0, 1.0, 2.0, 3.0, 1.5], np.float32)
NUMBERS = ("hydrogens", "charge")  # what is known of an atom besides its element
_TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet")
_TITLES = ("smiles", "smi", "canonical_smiles", "isomeric_smiles", "structure")


@dataclass(frozen=True)
class HeavyAtoms:
    """A molecule without the hydrogens that SMILES leave out."""

    symbols: list[str]  # the element of every atom
    numbers: list[tuple[int, int]]  # hydrogens at it, formal charge
    bonds: list[tuple[int, int, int]]  # both atoms, and the type: 1, 2, 3 or 4 for aromatic ones


def require_rdkit() -> Any:
    """rdkit's module of molecules, or a sentence that says how to get it."""
    return require("rdkit.Chem", "molecules", "reading molecules from SMILES")


def read_smiles(smiles: str) -> HeavyAtoms | None:
    """A molecule of its SMILES; None where rdkit cannot read it.

    >>> from softcut.datasets.molecules import read_smiles
    >>> read_smiles("C#N")
    HeavyAtoms(symbols=['C', 'N'], numbers=[(1, 0), (0, 0)], bonds=[(0, 1, 3)])
    """
    chem = require_rdkit()
    from rdkit.rdBase import BlockLogs

    kinds = chem.BondType
    types = {kinds.SINGLE: 1, kinds.DOUBLE: 2, kinds.TRIPLE: 3, kinds.AROMATIC: 4}
    with BlockLogs():  # what cannot be read is named by the caller
        molecule = chem.MolFromSmiles(smiles)
    if molecule is None or molecule.GetNumAtoms() == 0:
        return None
    atoms = list(molecule.GetAtoms())
    return HeavyAtoms(
        [atom.GetSymbol() for atom in atoms],
        [(atom.GetTotalNumHs(), atom.GetFormalCharge()) for atom in atoms],
        [  # bonds of other kinds, such as those of a metal, count as single
            (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), types.get(bond.GetBondType(), 1))
            for bond in molecule.GetBonds()
        ],
    )


def molecule_graphs(
    molecules: Sequence[HeavyAtoms], elements: Sequence[str] | None = None, name: str = "molecules"
) -> GraphCollection:
    """Graphs whose nodes have one feature per element, their hydrogens and charge; edges weigh what bonds are worth.

    >>> from softcut.datasets.molecules import molecule_graphs, read_smiles
    >>> graphs = molecule_graphs([read_smiles("C#N"), read_smiles("CO")])
    >>> graphs.feature_names, graphs.weight.tolist(), graphs.dense_features()[1].tolist()
    (('C', 'N', 'O', 'hydrogens', 'charge'), [3.0, 3.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0, 0.0])

    Parameters
    ----------
    molecules : sequence of HeavyAtoms
        As :func:`read_smiles` gives them.
    elements : sequence of str, optional
        Those that have a feature; by default all that occur, in alphabetical order.
    name : str
        A name for tables.
    """
    symbols = [symbol for molecule in molecules for symbol in molecule.symbols]
    known = sorted(set(symbols)) if elements is None else list(elements)
    place = {element: i for i, element in enumerate(known)}
    ptr = pointer([len(molecule.symbols) for molecule in molecules])
    counts = [len(molecule.bonds) for molecule in molecules]
    bonds = np.array([bond for m in molecules for bond in m.bonds], np.int64).reshape(-1, 3)
    first, second = bonds[:, :2].T + np.repeat(ptr[:-1], counts)
    nodes = len(symbols)
    half = sp.coo_array((BOND_ORDERS[bonds[:, 2]], (first, second)), shape=(nodes, nodes))
    matrix = sp.csr_array(half + half.T)
    matrix.sort_indices()
    value = np.zeros((nodes, len(known) + len(NUMBERS)), np.float32)
    value[np.arange(nodes), [place[symbol] for symbol in symbols]] = 1
    value[:, len(known) :] = np.array([row for m in molecules for row in m.numbers]).reshape(-1, len(NUMBERS))
    return GraphCollection(
        ptr=ptr,
        rowptr=matrix.indptr.astype(np.int64),
        col=(matrix.indices - np.repeat(ptr[:-1], 2 * np.array(counts, np.int64))).astype(np.int32),
        index=np.zeros((nodes, 0), np.int32),
        value=value,
        num_features=value.shape[1],
        weight=matrix.data.astype(np.float32),
        name=name,
        feature_names=(*known, *NUMBERS),
    )


@dataclass(frozen=True)
class MoleculeTable:
    """Molecules of a table: graphs, the numbers to predict, and where each came from."""

    graphs: GraphCollection
    smiles: list[str]
    rows: NDArray[np.int64]  # the row of each molecule in the table, from 1
    targets: NDArray[np.float64] | None  # [G, T]
    names: tuple[str, ...]  # of the targets
    elements: tuple[str, ...]
    notes: tuple[str, ...]  # what was understood, and which rows are left out


def read_molecules(
    path: str | Path,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    *,
    elements: Sequence[str] | None = None,
) -> MoleculeTable:
    """Molecules of a table (csv, tsv, txt, also .gz; xlsx, Parquet) with a column of SMILES, one molecule per row.

    Rows whose SMILES rdkit cannot read are left out, and so are those without a target; a note says how many.

    >>> import pathlib, tempfile
    >>> from softcut.datasets.molecules import read_molecules
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "boiling.csv"
    >>> _ = file.write_text("smiles,celsius\\nCO,64.7\\nCCO,78.2\\nC(C,1\\n")
    >>> table = read_molecules(file)
    >>> table.smiles, table.targets.tolist(), table.names, table.notes[1]
    (['CO', 'CCO'], [[64.7], [78.2]], ('celsius',), "1 row left out: rdkit cannot read 'C(C' (row 3)")

    Parameters
    ----------
    path : str or Path
        The table.
    smiles : str, optional
        The title of the column of SMILES; by default the one that is called so.
    targets : sequence of str, optional
        Titles of the columns to predict; by default the only column of numbers.
    elements : sequence of str, optional
        Those of the training molecules, for a model that was trained: others are refused, and targets may be missing.
    """
    require_rdkit()
    label, frame = Path(path).name, path
    if not label.lower().removesuffix(".gz").endswith(_TABLES):
        raise DataError(f"{label} is no table that can be read: name a file {', '.join(_TABLES)}.")
    if str(path).lower().endswith(".parquet"):
        frame = require("pandas", "tables", "reading Parquet files").read_parquet(path)
    table = features_from(frame, header=True)  # columns are named by their titles
    assert isinstance(table, InputTable)
    column = _smiles_column(table, smiles, label)
    texts, trained = column.text or [], elements is not None
    wanted = _target_columns(table, column, targets, label, trained)
    values = np.zeros((len(texts), len(wanted)))
    for j, each in enumerate(wanted):
        values[:, j] = each.numbers
    present: NDArray[np.bool_] = np.isfinite(values).all(axis=1) | np.array(trained)
    notes, molecules, kept = [], [], []
    unread: list[int] = []
    for row, text in enumerate(texts):
        if not present[row]:
            continue
        molecule = None if is_missing(text) else read_smiles(text)
        if molecule is None:
            unread.append(row)
            continue
        molecules.append(molecule)
        kept.append(row)
    if not molecules:
        raise DataError(
            f"{label}: no row has SMILES in column {column.title!r} that rdkit can read, and a target."
        )
    if not present.all():
        names = listed([c.title for c in wanted])
        notes.append(f"{plural(int((~present).sum()), 'row')} left out: without a value of {names}")
    if unread:
        first = f"{shown(texts[unread[0]])} (row {unread[0] + 1})"
        notes.append(f"{plural(len(unread), 'row')} left out: rdkit cannot read {first}")
    _check_elements(molecules, elements, [texts[row] for row in kept], label)
    graphs = molecule_graphs(molecules, elements, stem_of(path))
    seen = tuple(graphs.feature_names or ())[: -len(NUMBERS)]
    count = f"{len(kept):,} molecule{'s' * (len(kept) > 1)}"
    said = (
        f"{label}: {count} of column {column.title!r}; nodes are heavy atoms (features: element "
        f"{', '.join(seen)}; hydrogens; charge), edges are bonds (weight: bond order)"
    )
    goal = f"; to predict: {listed([c.title for c in wanted])}" if wanted else ""
    return MoleculeTable(
        graphs,
        [texts[row] for row in kept],
        np.array(kept) + 1,
        values[kept] if wanted else None,
        tuple(c.title for c in wanted),
        seen,
        (said + goal, *notes),
    )


def _smiles_column(table: InputTable, asked: str | None, label: str) -> Column:
    titles = [column.title for column in table.columns]
    if asked is not None:
        chosen = [column for column in table.columns if column.title == asked]
    else:
        chosen = [column for column in table.columns if column.title.strip().lower() in _TITLES]
    if not chosen or chosen[0].text is None:
        why = "has no column of text called smiles" if asked is None else f"has no column of text {asked!r}"
        raise DataError(
            f"{label} {why}; name the column of SMILES with ", Argument("smiles"), f": {listed(titles)}."
        )
    return chosen[0]


def _target_columns(
    table: InputTable, smiles: Column, asked: Sequence[str] | None, label: str, may_be_missing: bool
) -> list[Column]:
    numbers = [c for c in table.columns if c is not smiles and c.numbers is not None]
    titles = [column.title for column in numbers]
    if asked is None:
        numbers = [c for c in numbers if not looks_like_id(c.title)]
        if len(numbers) != 1:
            has = f"has {len(numbers)} columns of numbers" if numbers else "has no column of numbers"
            choice = f": {listed([c.title for c in numbers])}" if numbers else ""
            raise DataError(f"{label} {has}; name the one to predict with ", Argument("target"), f"{choice}.")
        return numbers
    unknown = [name for name in asked if name not in titles]
    if unknown and may_be_missing:
        return []
    for number, column in enumerate(table.columns):
        if column.title in unknown and column.text is not None:
            row = next(i for i, text in enumerate(column.text) if not is_value(text))
            value = shown(column.text[row])
            raise DataError(f"{label}: {value} in {table.spot(row, number)} is no number.")
    if unknown:
        raise DataError(f"{label} has no column of numbers {unknown[0]!r}; it has {listed(titles)}.")
    return [numbers[titles.index(name)] for name in dict.fromkeys(asked)]


def _check_elements(
    molecules: Sequence[HeavyAtoms], elements: Sequence[str] | None, smiles: Sequence[str], label: str
) -> None:
    if elements is None:
        return
    for molecule, text in zip(molecules, smiles, strict=True):
        strange = sorted(set(molecule.symbols) - set(elements))
        if strange:
            raise DataError(
                f"{label}: {shown(text)} has the element {strange[0]}, which no training molecule had; "
                f"they had {', '.join(elements)}."
            )
