"""A user's folder in the format of the TU data sets."""

from pathlib import Path

import numpy as np
import pytest

from softcut.datasets.tu import NodeFeatures, read_folder, read_tu_folder
from softcut.errors import DataError

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n5, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "7\n-1\n",
    "node_labels": "5\n9\n5\n9\n9\n",
    "node_attributes": "0.5, 1\n1.5, 1\n2.5, 1\n3.5, 1\n4.5, 1\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, text in FILES.items():
        (tmp_path / f"OWN_{part}.txt").write_text(text)
    return tmp_path


def test_graphs_labels_and_attributes(folder: Path) -> None:
    graphs, features = read_tu_folder(folder)
    dense = graphs.adjacency().toarray()
    expected = np.zeros((5, 5))
    for a, b in ((0, 1), (1, 2), (3, 4)):  # the self-loop is dropped
        expected[a, b] = expected[b, a] = 1
    assert np.array_equal(dense, expected)
    assert graphs.classes == ("-1", "7")
    assert graphs.y.tolist() == [1, 0]
    assert features == NodeFeatures([5, 9], [2.5, 1.0], [np.sqrt(2.0), 1.0])
    x = graphs.dense_features()
    assert x[:, 0].tolist() == [1, 0, 1, 0, 0]
    assert x[:, 1].tolist() == [0, 1, 0, 1, 1]
    np.testing.assert_allclose(x[:, 2], (np.arange(5) - 2) / np.sqrt(2), rtol=1e-6)
    assert x[:, 3].tolist() == [0] * 5


def test_the_features_of_training_graphs_are_used_for_others(folder: Path) -> None:
    known = NodeFeatures([3, 5, 9], [0.0, 0.0], [2.0, 1.0])
    (folder / "OWN_graph_labels.txt").unlink()
    graphs, same = read_tu_folder(folder, known)
    assert same is known
    assert graphs.y is None
    x = graphs.dense_features()
    assert x[0].tolist() == [0, 1, 0, 0.25, 1]
    with pytest.raises(DataError, match="holds the label 9, which no training graph had"):
        read_tu_folder(folder, NodeFeatures([3, 5], [0.0, 0.0], [1.0, 1.0]))
    with pytest.raises(DataError, match="must have the 1 attributes"):
        read_tu_folder(folder, NodeFeatures([5, 9], [0.0], [1.0]))
    with pytest.raises(DataError, match="trained without node labels"):
        read_tu_folder(folder, NodeFeatures([], [0.0, 0.0], [1.0, 1.0]))


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("A", "1, 9\n", "node numbers from 1 to 5"),
        ("A", "1, 4\n", "joins two graphs"),
        ("A", "1, x\n", "cannot be read as numbers"),
        ("A", "1, 2.5\n", "whole numbers"),
        ("graph_indicator", "2\n1\n1\n2\n2\n", "in rising order"),
        ("graph_indicator", "", "is empty"),
        ("graph_labels", "1\n", "a line for each of the 2 graphs, got 1"),
        ("node_labels", "1\n", "a line for each of the 5 nodes, got 1"),
        ("node_labels", "1, 2\n" * 5, "one label per node"),
        ("node_attributes", "nan\n" * 5, "not finite"),
        ("node_attributes", "1\n", "a line for each of the 5 nodes, got 1"),
    ],
)
def test_files_that_do_not_fit_are_named(folder: Path, part: str, text: str, message: str) -> None:
    (folder / f"OWN_{part}.txt").write_text(text)
    with pytest.raises(DataError, match=rf"OWN_{part}.txt.*{message}"):
        read_tu_folder(folder)


def test_published_attributes_are_whole_numbers(folder: Path) -> None:
    with pytest.raises(DataError, match=r"OWN_node_attributes.txt must hold whole numbers"):
        read_folder(folder, "OWN")


def test_a_folder_must_hold_one_data_set(folder: Path) -> None:
    (folder / "TWO_A.txt").write_text("1, 2\n")
    with pytest.raises(DataError, match="several data sets \\(OWN, TWO\\)"):
        read_tu_folder(folder)
    with pytest.raises(DataError, match="is not a folder"):
        read_tu_folder(folder / "OWN_A.txt")
    (folder / "TWO_A.txt").unlink()
    (folder / "OWN_graph_indicator.txt").unlink()
    with pytest.raises(DataError, match=r"OWN_A.txt and OWN_graph_indicator.txt, but one is missing"):
        read_tu_folder(folder)
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match="no file NAME_A"):
        read_tu_folder(folder / "empty")
