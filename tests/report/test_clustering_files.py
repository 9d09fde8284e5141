"""Files of a clustering beside its page."""

import csv

import numpy as np
import pyarrow
import scipy.sparse as sp
from pyarrow import parquet

from softcut.graph import Graph
from softcut.metrics.summary import summarise
from softcut.report.clustering_files import (
    clustered_part,
    label_facts,
    write_clusters,
    write_labels,
    write_parquet,
)


def test_columns_of_parquet_are_those_pyarrow_makes(tmp_path):
    """They are made of buffers; pyarrow's own conversion says what they must be."""
    names = ["ä", "", "日本", "=1+1", "a\nb", "x" * 300, "e", "f", "g"]  # more than one byte of bits
    labels = np.array([0, 1, 2, -1, 0, 1, 2, 0, -1])
    soft = np.random.default_rng(0).random((9, 3), dtype=np.float32)
    write_parquet(tmp_path / "labels.parquet", Graph(sp.csr_array((9, 9)), node_names=names), soft, labels)
    written = parquet.read_table(tmp_path / "labels.parquet")
    written.validate(full=True)
    expected = pyarrow.table(
        {
            "node": names,
            "cluster": pyarrow.array(labels, mask=labels < 0),
            "probability": pyarrow.array(soft.max(1), mask=labels < 0),
            **{f"p{j}": soft[:, j] for j in range(3)},
        }
    )
    assert written.equals(expected)


def test_lines_of_labels_and_clusters(tmp_path):
    names = ["=a", "+b", "-c", "@d", "e", "f'"]
    graph = Graph.from_edges([[0, 1, 2, 3], [1, 2, 0, 4]], num_nodes=6, node_names=names)
    labels, soft = np.array([0, 0, 0, 1, 1, -1]), np.full((6, 2), 0.25)
    soft[np.arange(5), labels[:5]] = 0.75
    path = tmp_path / "labels.csv"
    write_labels(path=path, graph=graph, soft=soft, labels=labels)
    rows = ["=a,0,0.750000", "+b,0,0.750000", "-c,0,0.750000", "@d,1,0.750000", "e,1,0.750000", "f',,"]
    assert path.read_text().splitlines() == ["node,cluster,probability", *rows]
    write_labels(path, graph, soft, labels, spreadsheet_safe=True)
    assert path.read_text().splitlines()[1:] == [*(f"'{row}" for row in rows[:4]), *rows[4:]]
    summary = summarise(graph, labels)
    for safe, typical in ((False, "=a, +b, -c"), (True, "'=a, +b, -c")):
        write_clusters(path=path, summary=summary, spreadsheet_safe=safe)
        (_, first, second) = csv.reader(path.read_text().splitlines())
        assert first == ["0", "3", "0.6", "1.0", "0.75", "1.0", "", typical, "", ""]
        assert second[:6] == ["1", "2", "0.4", "1.0", "0.25", "1.0"]
    write_clusters(path, summary)  # as they are, unless asked for
    assert "'=a" not in path.read_text()


def test_nodes_without_a_cluster_are_counted_and_not_shown():
    graph = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)
    soft = np.eye(2)[[0, 0, 1, 1]]
    part, own = clustered_part(graph, soft, np.array([0, 0, 1, -1]))
    assert (part.num_nodes, own.tolist()) == (3, soft[:3].tolist())
    for labels in (np.array([0, 0, 1, 1]), np.full(4, -1)):
        assert clustered_part(graph, soft, labels)[0] is graph
    assert label_facts(graph, np.array([0, 0, 1, -1]), 2) == {"nodes_without_cluster": 1}
