"""Two kinds of nodes in one edge list: user 3 and movie 3 are two nodes, whatever the edges come from."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.reading import quiet

import softcut as sc
from softcut.errors import GraphError, ParameterError
from softcut.graph import Graph
from softcut.io import read_graph, readers
from softcut.metrics import nmi
from softcut.tables.bipartite import name_two_kinds, separated
from softcut.tables.edge_columns import EdgeTable, choose_edge_columns

RATINGS = pd.DataFrame({"user_id": [1, 1, 2, 3], "movie_id": [1, 2, 3, 3], "rating": [5, 3, 4, 4]})
RATED = {
    ("user_id 1", "movie_id 1"),
    ("user_id 1", "movie_id 2"),
    ("user_id 2", "movie_id 3"),
    ("user_id 3", "movie_id 3"),
}


def pairs(graph: Graph) -> set[tuple[str, str]]:
    """Edges by the names of their nodes, users first."""
    assert graph.node_names is not None
    rows, columns = graph.adjacency.nonzero()
    named = ((graph.node_names[u], graph.node_names[v]) for u, v in zip(rows, columns, strict=True))
    return {pair for pair in named if pair[0].startswith("user")}


@pytest.mark.parametrize(
    ("first", "second", "two"),
    [
        ("user_id", "movie_id", True),
        ("userId", "movieId", True),
        ("user", "item", True),
        ("Author Name", "Paper", True),
        ("gene", "disease", True),
        ("source", "target", False),
        ("source_id", "movie_id", False),
        ("from_user", "to_user", False),
        ("user_1", "user_2", False),
        ("user_a", "user_b", False),
        ("UserA", "UserB", False),
        ("sender_id", "receiver_id", False),
        ("user_id", "friend_id", False),
        ("author", "coauthor", False),
        ("citing_paper", "cited_paper", False),
        ("employee", "employer", False),
        ("student", "studio", False),  # the same four letters
        ("movie", "movement", True),
        ("movie", "moviegoer", False),
        ("book", "booking", True),  # too short to tell
        ("tv_id", "movie_id", True),
        ("u", "movie_id", False),
        ("id1", "id2", False),
        ("id", "name", False),
        ("column 1", "column 2", False),
        ("", "", False),
        ("user", "users", False),
    ],
)
def test_titles(first: str, second: str, two: bool) -> None:
    assert name_two_kinds(first, second) == name_two_kinds(second, first) == two


def test_two_ids_are_the_ends_whatever_stands_beside_them() -> None:
    for titles in (
        ["user_id", "movie_id", "rating"],
        ["when", "userId", "movieId", "rating"],
        ["id", "user_id", "movie_id"],
    ):
        columns = choose_edge_columns(titles, "g.csv")
        ends = titles[columns.source], titles[columns.target]
        assert [end.lower().replace("_", "") for end in ends] == ["userid", "movieid"]


def test_every_route_keeps_them_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RATINGS.to_csv(tmp_path / "r.csv", index=False)
    RATINGS.to_parquet(tmp_path / "r.parquet")
    made = [quiet(tmp_path / "r.csv"), quiet(tmp_path / "r.parquet"), quiet(RATINGS), Graph.from_any(RATINGS)]
    monkeypatch.setattr(readers, "PLAIN_BYTES", 0)
    made.append(quiet(tmp_path / "r.csv"))
    said = "two kinds of nodes, 3 'user_id' and 3 'movie_id', kept apart (bipartite=False: equal ids are one node)"
    for graph in made:
        assert pairs(graph) == RATED
        assert graph.node_kinds == [name.split()[0] for name in graph.node_names or ()]
        assert said in graph.notes
        assert "2 kinds of nodes" in repr(graph)
    asked = {"bipartite": False, "self_loops": "keep"}
    for one in (quiet(tmp_path / "r.csv", **asked), Graph.from_frame(RATINGS, **asked)):
        assert one.num_nodes == 3
        assert one.node_kinds is None


def test_names_that_differ_are_left_as_they_are() -> None:
    graph = Graph.from_frame(pd.DataFrame({"user": ["ann", "bob"], "movie": ["Alien", "Alien"]}))
    assert graph.node_names == ["ann", "Alien", "bob"]
    assert graph.node_kinds == ["user", "movie", "user"]
    assert "two kinds of nodes, 2 'user' and 1 'movie'" in graph.notes
    # Numbers that do not overlap stay node indices.
    graph = Graph.from_frame(pd.DataFrame({"user": [0, 1, 1], "movie": [2, 2, 3]}), np.eye(4))
    assert (graph.node_names, graph.node_kinds) == (None, ["user", "user", "movie", "movie"])


def test_names_in_both_columns_are_one_node_each() -> None:
    frame = pd.DataFrame({"actor": ["ann", "bob"], "film": ["Alien", "ann"]})
    graph = Graph.from_frame(frame)
    assert (graph.num_nodes, graph.node_kinds) == (3, None)
    assert "1 id in both 'actor' and 'film' taken for one node each" in graph.notes[1]
    assert "(bipartite=True keeps them apart)" in graph.notes[1]
    apart = Graph.from_frame(frame, bipartite=True)
    assert apart.node_names == ["actor ann", "film Alien", "actor bob", "film ann"]


def test_numbers_that_mean_the_same_things_are_found_by_the_rows() -> None:
    """Two columns of numbers with titles of two kinds: rows in both directions, or never a number with itself."""
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 40, (2, 2000))
    assert Graph.from_frame(pd.DataFrame({"shop": u, "client": v})).node_kinds is not None
    never = pd.DataFrame({"shop": u, "client": v})[u != v]
    graph = Graph.from_frame(never, directed=False)
    assert (graph.num_nodes, graph.node_kinds) == (40, None)
    assert "since no row has the same number twice" in graph.notes[1]
    u, v = rng.integers(0, 4000, (2, 300))
    both = pd.DataFrame({"shop": np.r_[u, v], "client": np.r_[v, u]})
    assert "since many rows are there in both directions" in Graph.from_frame(both).notes[1]


def test_features_of_one_kind_are_joined_by_its_title(tmp_path: Path) -> None:
    users = pd.DataFrame({"user_id": [3, 2, 1], "age": [30.0, 20.0, 10.0]})
    for graph in (
        quiet(RATINGS, users, missing="zero"),
        quiet(RATINGS, users, missing="zero", ids="user_id"),
    ):
        ages = dict(zip(graph.node_names or (), graph.x[:, 0].tolist(), strict=True))
        assert ages == {f"user_id {i}": 10.0 * i for i in (1, 2, 3)} | {
            f"movie_id {i}": 0.0 for i in (1, 2, 3)
        }
    with pytest.raises(GraphError, match="no row for node 'movie_id 1'"):
        Graph.from_frame(RATINGS, users)
    more = pd.DataFrame({"movie_id": [1, 2, 3, 9], "year": [1.0, 2, 3, 4]})
    assert quiet(RATINGS, more, missing="zero").node_kinds[-1] == "movie_id", "known by its name alone"


def test_what_is_no_list_of_edges_has_no_two_columns(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("1,1\n1,2\n2,2\n")
    graph = quiet(tmp_path / "g.csv", bipartite=True)
    assert graph.node_names == ["column 1 1", "column 2 1", "column 2 2", "column 1 2"]
    np.save(tmp_path / "g.npy", np.array([[0, 0, 1], [0, 1, 1]]))
    assert quiet(tmp_path / "g.npy", bipartite=True).num_nodes == 4
    (tmp_path / "g.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n")
    with pytest.raises(ParameterError, match=r"bipartite=True needs a list of edges, which .*g\.mtx is not"):
        read_graph(tmp_path / "g.mtx", bipartite=True)
    with pytest.raises(ParameterError, match="needs a list of edges"):
        read_graph(features=np.eye(4), bipartite=True)


def test_kinds_are_kept_by_what_is_made_of_a_graph() -> None:
    graph = Graph.from_frame(RATINGS)
    kinds = graph.node_kinds
    assert kinds is not None
    assert graph.subgraph([1, 0]).node_kinds == [kinds[1], kinds[0]]
    both = Graph.batch([graph, graph])
    assert both.node_kinds == kinds * 2
    assert both.split()[1].node_kinds == kinds
    assert Graph.batch([graph, graph.with_node_kinds(None)]).node_kinds is None
    assert graph.with_features(np.eye(6)).node_kinds == kinds
    with pytest.raises(GraphError, match="node_kinds has 1 entries but the graph has 6 nodes"):
        graph.with_node_kinds(["user"])


def test_both_sides_are_clustered_together() -> None:
    """A planted graph of users and movies, numbered from 1 both: clusters of both, not the two sides."""
    rng = np.random.default_rng(0)
    users, movies = rng.integers(0, 3, 90), rng.integers(0, 3, 60)
    chance = np.where(users[:, None] == movies[None, :], 0.2, 0.01)
    u, v = (rng.random((90, 60)) < chance).nonzero()
    graph = Graph.from_frame(pd.DataFrame({"user_id": u + 1, "movie_id": v + 1}))
    planted = {f"user_id {i + 1}": c for i, c in enumerate(users)}
    planted |= {f"movie_id {i + 1}": c for i, c in enumerate(movies)}
    labels = sc.GraphClustering(3).fit(graph).labels_
    assert nmi([planted[name] for name in graph.node_names or ()], labels) > 0.8
    assert nmi(graph.node_kinds, labels) < 0.05
    est = sc.GraphClustering(3).fit(pd.DataFrame({"user_id": u + 1, "movie_id": v + 1}))
    assert (est.labels_ == labels).all()
    assert any(note.startswith("two kinds of nodes, ") for note in est.notes_)


def star(first: int, second: int) -> np.ndarray:
    """Rows in which 0 is that often the first number, and that often the second one, never both."""
    out = np.column_stack([np.zeros(first, int), 100 + np.arange(first)])
    return np.concatenate([out, np.column_stack([200 + np.arange(second), np.zeros(second, int)])])


def there_and_back(pairs: int) -> np.ndarray:
    """So many pairs in both directions, and a row with the same number twice."""
    ends = np.arange(2 * pairs).reshape(-1, 2)
    return np.concatenate([ends, ends[:, ::-1], [[999, 999]]])


def circle(nodes: int) -> np.ndarray:
    """Each number with the two before and the two behind it."""
    return np.concatenate(
        [np.column_stack([at := np.arange(nodes), (at + s) % nodes]) for s in (-2, -1, 1, 2)]
    )


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (star(20, 20), "no row has the same number twice"),  # 20 * 20 / 40: ten would have it by chance
        (star(20, 19), None),
        (there_and_back(5), "many rows are there in both directions"),  # ten rows with a reverse
        (there_and_back(4), None),
        (circle(12), "many rows are there in both directions"),  # 48 rows, by chance 16 have a reverse
        (circle(11), None),
    ],
)
def test_what_shows_that_equal_numbers_are_one_node(ends: np.ndarray, why: str | None) -> None:
    edges = EdgeTable(ends, None, None, ("user_id", "movie_id"))
    *_, (note,) = separated(edges, None)
    assert note.code == ("two_kinds_of_nodes" if why is None else "one_kind_of_nodes")
    assert why is None or f"since {why}" in note
