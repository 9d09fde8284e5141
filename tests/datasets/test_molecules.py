"""Molecules of SMILES as graphs, and tables of them: what is read, left out and refused."""

import sys

import numpy as np
import pytest
from helpers.refusals import refuses

from softcut.datasets.molecules import molecule_graphs, read_molecules, read_smiles
from softcut.errors import DataError, DependencyError

pytest.importorskip("rdkit")

TABLE = (
    "name,smiles,log P,boils\nmethanol,CO,-0.77,64.7\nbenzene,c1ccccc1,2.13,80.1\nsalt,[Na+].[Cl-],,1465\n"
)


@pytest.fixture
def table(tmp_path):
    """Writes a table; its path."""

    def write(text=TABLE, name="liquids.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_atoms_of_any_element_and_bonds_of_any_order():
    graphs = molecule_graphs(
        [read_smiles(smiles) for smiles in ("C[Si](C)(C)C", "[O-][N+](=O)c1ccccc1", "[Fe]")]
    )
    assert graphs.feature_names == ("C", "Fe", "N", "O", "Si", "hydrogens", "charge")
    assert graphs.sizes.tolist() == [5, 9, 1] and np.diff(graphs.entries_ptr).tolist() == [8, 18, 0]
    x, adjacency = graphs.dense_features(), graphs.adjacency().toarray()
    assert (x[:, :5].sum(1) == 1).all()
    assert x[0].tolist() == [1, 0, 0, 0, 0, 3, 0] and x[1].tolist() == [0, 0, 0, 0, 1, 0, 0]
    assert x[5:8, -1].tolist() == [-1, 1, 0]  # the charges of a nitro group
    assert (adjacency == adjacency.T).all() and set(adjacency[5:14, 5:14].flatten()) == {0, 1, 1.5, 2}
    assert adjacency.sum() == 2 * (4 * 1 + 1 + 2 + 1 + 6 * 1.5)


def test_a_table_says_what_was_understood(table):
    molecules = read_molecules(table(), targets=["boils"])
    assert molecules.smiles == ["CO", "c1ccccc1", "[Na+].[Cl-]"] and molecules.rows.tolist() == [1, 2, 3]
    assert molecules.targets.tolist() == [[64.7], [80.1], [1465]] and molecules.graphs.name == "liquids"
    (said,) = molecules.notes
    assert said == (
        "liquids.csv: 3 molecules of column 'smiles'; nodes are heavy atoms (features: element C, Cl, Na, O; "
        "hydrogens; charge), edges are bonds (weight: bond order); to predict: 'boils'"
    )


def test_rows_that_cannot_be_used_are_left_out_and_counted(table):
    molecules = read_molecules(table(TABLE + "broken,C(C,1,1\nempty,,1,1\n"), targets=["log P", "boils"])
    assert molecules.rows.tolist() == [1, 2] and molecules.names == ("log P", "boils")
    assert molecules.notes[1:] == (
        "1 row left out: without a value of 'log P', 'boils'",
        "2 rows left out: rdkit cannot read 'C(C' (row 4)",
    )


def test_a_trained_model_takes_tables_without_targets_and_refuses_unknown_elements(table):
    bare = table("SMILES\nCO\nC(C\nCC\n", "bare.csv")
    molecules = read_molecules(bare, targets=["boils"], elements=["C", "N", "O"])
    assert (
        molecules.targets is None and molecules.smiles == ["CO", "CC"] and molecules.rows.tolist() == [1, 3]
    )
    assert molecules.graphs.feature_names == ("C", "N", "O", "hydrogens", "charge")
    partly = read_molecules(table(), targets=["log P"], elements=["C", "O", "Cl", "Na"])
    assert np.isnan(partly.targets[2, 0]) and len(partly.smiles) == 3
    strange = (
        r"liquids.csv: '\[Na\+\].\[Cl-\]' has the element Cl, which no training molecule had; they had C, O\."
    )
    refuses(DataError, strange, read_molecules, table(), targets=["boils"], elements=["C", "O"])


def test_other_kinds_of_tables_hold_the_same(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(table())
    frame.to_parquet(tmp_path / "liquids.parquet")
    frame.to_excel(tmp_path / "liquids.xlsx", index=False)
    for name in ("liquids.parquet", "liquids.xlsx"):
        molecules = read_molecules(tmp_path / name, targets=["boils"])
        assert molecules.targets.tolist() == [[64.7], [80.1], [1465]] and len(molecules.graphs) == 3


def test_what_is_missing_is_named(table, tmp_path, monkeypatch):
    refuses(
        DataError,
        r"has 2 columns of numbers; name the one to predict .*'log P', 'boils'",
        read_molecules,
        table(),
    )
    refuses(
        DataError, r"no column of numbers 'melts'; it has 'log P'", read_molecules, table(), targets=["melts"]
    )
    refuses(DataError, r"no column of text 'log P'", read_molecules, table(), "log P")
    untitled = table("a,b\nx,1\ny,2\n", "other.csv")
    refuses(DataError, r"other.csv has no column of text called smiles.*'a', 'b'", read_molecules, untitled)
    refuses(DataError, r"no row has SMILES in column 'a' that rdkit can read", read_molecules, untitled, "a")
    words = table("smiles,kind\nCO,a\nCC,b\n", "words.csv")
    refuses(DataError, r"words.csv has no column of numbers", read_molecules, words)
    named = r"words.csv: 'a' in line 2, column 2 \('kind'\) is no number"
    refuses(DataError, named, read_molecules, words, targets=["kind"])
    refuses(
        DataError, r"x.npy is no table that can be read: name a file .csv", read_molecules, tmp_path / "x.npy"
    )
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    refuses(
        DependencyError,
        r"needs the package 'rdkit': run pip install 'softcut\[molecules\]'",
        read_smiles,
        "C",
    )
