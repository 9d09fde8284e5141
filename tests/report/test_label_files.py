"""Labels as a table that people open."""

from __future__ import annotations

import numpy as np

from softcut.report.clustering_files import write_labels

SOFT = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5], [0.1, 0.9]])


def test_a_line_per_node_and_names_that_no_spreadsheet_takes_for_formulas(tmp_path):
    names = ["=1+1", "ann,b", "-5", "@x"]
    write_labels(tmp_path / "a.csv", names, SOFT)
    write_labels(tmp_path / "b.csv", names, SOFT, spreadsheet_safe=True)
    write_labels(tmp_path / "c.csv", None, SOFT)
    rows = ["1,0.750000", "0,1.000000", "0,0.500000", "1,0.900000"]
    for file, shown in (
        ("a.csv", ["=1+1", '"ann,b"', "-5", "@x"]),
        ("b.csv", ["'=1+1", '"ann,b"', "'-5", "'@x"]),
        ("c.csv", ["0", "1", "2", "3"]),
    ):
        expected = ["node,cluster,probability", *map(",".join, zip(shown, rows, strict=True))]
        assert (tmp_path / file).read_text().splitlines() == expected
