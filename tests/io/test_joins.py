"""Features joined to edges by id: against a dictionary, for names of any form and rows in any order."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.reading import quiet, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softcut.errors import FileFormatError, ParameterError
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
