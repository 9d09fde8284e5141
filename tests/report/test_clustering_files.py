"""Files of a clustering beside its page."""

import numpy as np
import pyarrow
import scipy.sparse as sp
from pyarrow import parquet

from softcut.graph import Graph
from softcut.report.clustering_files import write_parquet


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
