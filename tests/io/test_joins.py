"""Features joined to edges by id: against a dictionary, for names of any form and rows in any order."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from helpers.reading import quiet, write
from helpers.refusals import refuses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softcut.errors import FileFormatError, ParameterError, SoftcutError
from softcut.io import read_graph

NAMES = {
    "words": lambda i: f"n{i}",
    "counted": lambda i: str(i),
    "from one": lambda i: str(i + 1),
    "gaps": lambda i: str(1000 + 17 * i),
    "zeros": lambda i: f"{i:05d}",
    "floats": lambda i: f"{i}e3",
    "versions": lambda i: f"1.{i}",
    "negative": lambda i: str(-i),
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("kind", NAMES)
@given(data=st.data())
def test_every_node_gets_its_row(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(4, 12))
    names = [NAMES[kind](i) for i in range(n)]
    edges = list(pairwise(names))
    data.draw(st.randoms(use_true_random=False)).shuffle(edges)
    rows = data.draw(st.permutations(range(n)))
    place = data.draw(st.sampled_from(["first", "titled", "both"]))
    values = {name: (round(0.5 + 3 * i, 1), 7 * i % 5) for i, name in enumerate(names)}
    title = "user_id" if place != "first" else "who"
    cells = [(title, "a", "b"), *((names[i], *values[names[i]]) for i in rows)]
    last = place == "titled"
    lines = [",".join(map(str, (*row[1:], row[0]) if last else row)) for row in cells]
    graph = write(tmp_path, "g.csv", "source,target\n" + "".join(f"{u},{v}\n" for u, v in edges))
    g = quiet(graph, features=write(tmp_path, "x.csv", "\n".join(lines)))
    assert g.feature_names == ["a", "b"]
    known = g.node_names or [str(i) for i in range(g.num_nodes)]
    assert set(known) == set(names)
    np.testing.assert_array_equal(g.x, np.array([values[name] for name in known], np.float32))


def test_names_that_look_like_nothing(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "a,NA\nNA,True\n")
    x = write(tmp_path, "x.csv", "id,v\nTrue,3\nNA,2\na,1\n")
    g = quiet(graph, features=x)
    assert g.node_names == ["a", "NA", "True"]
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])


def test_ids_that_nothing_names_are_asked_about(tmp_path: Path) -> None:
    """A later column with the ids in another order may also be a rank: neither is guessed."""
    graph = write(tmp_path, "g.csv", "".join(f"{i},{i + 1}\n" for i in range(11)))
    order = np.random.default_rng(0).permutation(12)
    rows = "".join(f"{10.5 * i},{i}\n" for i in order)
    x = write(tmp_path, "x.csv", "age,who\n" + rows)
    with pytest.raises(
        FileFormatError, match=r"column 'who': the values are the ids .* ids='who' .* ids=False"
    ):
        read_graph(graph, x)
    np.testing.assert_array_equal(quiet(graph, features=x, ids="who").x.ravel(), 10.5 * np.arange(12))
    g = quiet(graph, features=x, ids=False)
    np.testing.assert_array_equal(g.x, np.stack([10.5 * order, order], axis=1))
    assert "rows joined by position" in "; ".join(g.notes)
    with pytest.raises(FileFormatError, match="ids=1 "):
        read_graph(graph, write(tmp_path, "bare.csv", rows))
    # In the order of the rows both mean the same, and other numbers are a feature.
    for values in (range(12), range(1, 13), [*range(11), 0]):
        other = write(tmp_path, "y.csv", "age,who\n" + "".join(f"{i}.5,{v}\n" for i, v in enumerate(values)))
        assert quiet(graph, features=other).x[:, 1].tolist() == list(values)
    with pytest.raises(ParameterError, match="or False for none"):
        read_graph(graph, x, ids=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["g.csv", "g.graphml", "g.npy", "g.parquet"])
def test_ids_that_match_no_node_are_refused(tmp_path: Path, name: str) -> None:
    """001 and 1 are two ids: the rows are in the order of neither."""
    graph = nx.path_graph(4)
    if name == "g.csv":
        write(tmp_path, name, "0,1\n1,2\n2,3\n")
    elif name == "g.graphml":
        nx.write_graphml(graph, tmp_path / name)
    elif name == "g.npy":
        np.save(tmp_path / name, np.array(graph.edges))
    else:
        pd.DataFrame(list(graph.edges), columns=["source", "target"]).to_parquet(tmp_path / name)
    rows = "".join(f"{i:03},{10 * i}\n" for i in (2, 0, 3, 1))
    x = write(tmp_path, "x.csv", f"id,a\n{rows}")
    said = r"no id of column 'id' is a node; the ids are '002', .*, the nodes '0', '1', .*drop=\['id'\]"
    for missing in ("error", "zero"):
        refuses(SoftcutError, said, read_graph, tmp_path / name, x, missing=missing)
    assert quiet(tmp_path / name, features=x, drop=["id"]).x.ravel().tolist() == [20, 0, 30, 10]


def test_titles_that_are_numbers(tmp_path: Path) -> None:
    values = "40,1.5\n30,2.5\n20,0.5\n10,4.5\n"
    x = write(tmp_path, "x.csv", f"2019,2020\n{values}")
    for edges in ("0,1\n1,2\n2,3\n", "1,2\n2,3\n3,4\n"):
        graph = write(tmp_path, "g.csv", edges)
        with pytest.warns(
            UserWarning, match="one row more than .*g.csv has nodes; pass features_header=True if row 1"
        ):
            assert read_graph(graph, x).num_nodes == 5
        g = quiet(graph, features=x, features_header=True)
        assert (g.feature_names, g.x[:, 0].tolist()) == (["2019", "2020"], [40, 30, 20, 10])
        assert quiet(graph, features=x, features_header=False).num_nodes == 5
    matrix = write(tmp_path, "g.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 2\n2 1\n4 3\n")
    refuses(FileFormatError, r"5 rows but .* has 4 nodes: give one row per node \(features_header=True", read_graph,
            matrix, x)  # fmt: skip
    # A title of ids is a title beside years, too; pandas writes none above an index.
    graph = write(tmp_path, "g.csv", "a,b\nb,c\nc,d\n")
    rows = "".join(f"{name},{row}\n" for name, row in zip("abcd", values.split(), strict=True))
    for title in ("id", "name", "user_id", ""):
        g = quiet(graph, features=write(tmp_path, "y.csv", f"{title},2019,2020\n{rows}"))
        assert (g.node_names, g.feature_names) == (["a", "b", "c", "d"], ["2019", "2020"])
        np.testing.assert_array_equal(g.x[:, 0], [40, 30, 20, 10])
