"""QM9 as molecules: reading SMILES, the compact file, padded matrices."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from helpers.refusals import refuses

from softcut.datasets import qm9
from softcut.datasets.pack import pack
from softcut.datasets.qm9 import ATOMS, PROPERTIES, load_molecules, read_table, write_molecules
from softcut.errors import DataError

SMILES = {"gdb_1": "C", "gdb_7": "CC#N", "gdb_9": "c1ccoc1", "gdb_12": "OC(F)=O"}


def table() -> str:
    lines = ["mol_id,smiles,A," + ",".join(PROPERTIES)]
    for row, (name, smiles) in enumerate(SMILES.items()):
        lines.append(f"{name},{smiles},0," + ",".join(f"{row}.{column}5" for column in range(9)))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def molecules() -> qm9.Molecules:
    pytest.importorskip("rdkit")
    return read_table(table())


def test_smiles_become_heavy_atoms_and_bonds(molecules):
    assert molecules.sizes.tolist() == [1, 3, 5, 4]
    assert [ATOMS[a] for a in molecules.atoms] == list("C" + "CCN" + "CCCOC" + "OCFO")
    assert molecules.num_bonds.tolist() == [0, 2, 5, 3]
    assert molecules.bonds.T[:2].tolist() == [[0, 1], [1, 2]]
    assert molecules.bond_type[:7].tolist() == [1, 3, 4, 4, 4, 4, 4]
    assert sorted(molecules.bond_type[-3:].tolist()) == [1, 1, 2]
    assert molecules.number.tolist() == [1, 7, 9, 12]
    np.testing.assert_allclose(molecules.targets[1], [1.05, 1.15, 1.25, 1.35, 1.45, 1.55, 1.65, 1.75, 1.85])


def test_padded_matrices_of_all_and_of_some_molecules(molecules):
    adjacency, mask = molecules.dense_adjacency()
    weighted, _ = molecules.dense_adjacency(bond_orders=True)
    x = molecules.dense_features()
    assert (mask.sum(1) == molecules.sizes).all()
    assert (x.sum(-1) == mask).all()
    assert (adjacency.sum((1, 2)) == 2 * molecules.num_bonds).all()
    assert (adjacency == adjacency.transpose(0, 2, 1)).all()
    assert ((weighted > 0) == (adjacency > 0)).all()
    assert weighted[1, :3, :3].tolist() == [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    assert set(weighted[2].flatten().tolist()) == {0.0, 1.5}  # an aromatic ring
    assert not adjacency[0].any()
    none = molecules[[]]
    assert none.dense_features().shape == (0, 0, 4) and none.dense_adjacency()[0].shape == (0, 0, 0)
    part = molecules[[3, 1]]
    assert part.number.tolist() == [7, 12]
    np.testing.assert_array_equal(part.dense_adjacency()[0], adjacency[[1, 3], :4, :4])
    np.testing.assert_array_equal(part.dense_features(), x[[1, 3], :4])


def test_compact_file_has_the_same_content_and_another_is_refused(molecules, tmp_path, monkeypatch):
    path = write_molecules(tmp_path / "QM9.npz", molecules)
    refuses(DataError, r"does not hold the 130,831 molecules", load_molecules, tmp_path)
    monkeypatch.setattr(qm9, "_CONTENT_SHA256", molecules.checksum())
    again = load_molecules(tmp_path)
    assert again.checksum() == molecules.checksum()
    assert pack("qm9", tmp_path / "copy", tmp_path).read_bytes()
    assert load_molecules(tmp_path / "copy").checksum() == molecules.checksum()
    path.write_bytes(b"not a file of numpy")
    refuses(DataError, r"QM9\.npz cannot be read as packed molecules", load_molecules, tmp_path)


def test_the_table_is_read_once(molecules, tmp_path, monkeypatch):
    """What was read is kept in the cache, unless a folder was named."""
    packed = gzip.compress(table().encode())
    monkeypatch.setattr(qm9, "_TABLE_SHA256", hashlib.sha256(packed).hexdigest())
    monkeypatch.setattr(qm9, "_CONTENT_SHA256", molecules.checksum())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path))
    (tmp_path / "qm9").mkdir()
    (tmp_path / "qm9/qm9.csv.gz").write_bytes(packed)
    kept = tmp_path / "cache/softcut/graphs/QM9.npz"
    assert len(load_molecules(tmp_path)) == 4 and not kept.exists()
    assert len(load_molecules()) == 4 and kept.is_file()
    monkeypatch.setattr(qm9, "read_table", None)
    assert load_molecules().checksum() == molecules.checksum()


def test_missing_data_a_wrong_table_and_a_row_that_is_no_molecule_are_named(tmp_path: Path):
    refuses(DataError, r"'QM9' is not in .*python -m softcut.datasets.pack QM9", load_molecules, tmp_path)
    (tmp_path / "qm9").mkdir()
    (tmp_path / "qm9/qm9.csv.gz").write_bytes(b"something else")
    refuses(DataError, "is not the published file", load_molecules, tmp_path)
    pytest.importorskip("rdkit")
    refuses(DataError, r"gdb_7: 'C\(C' is not a molecule", read_table, table().replace("CC#N", "C(C"))
