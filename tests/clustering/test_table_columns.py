"""Tables as people have them: what a fit makes of their columns, and a prediction for another table."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import softcut as sc
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, ModelFileError
from softcut.metrics import nmi

RNG = np.random.default_rng(0)
PLANTED = attributed_communities(300, 3, 8, 0, edge_signal=0.7, seed=1)
Y = PLANTED.y
NAMES = [f"p{i}" for i in range(300)]
ENDS = sp.coo_array(sp.triu(PLANTED.adjacency))
EDGES = pd.DataFrame({"source": [NAMES[i] for i in ENDS.row], "target": [NAMES[i] for i in ENDS.col]})
PEOPLE = pd.DataFrame({
    "name": NAMES,
    "salary": 40e3 + 8e3 * Y + 1e3 * RNG.standard_normal(300),
    "age": 30.0 + 9 * (Y == 1) + RNG.standard_normal(300),
    "city": RNG.choice(["Oslo", "Rome", "Paris", "Lima"], 300),
})  # fmt: skip
NUMBERS = PEOPLE[["name", "salary", "age"]]
# One column of every kind beside the numbers, and what it is.
COLUMNS = {
    "number": RNG.normal(size=300) * 1e-6,
    "date": [f"20{10 + i % 12}-0{1 + i % 9}-11" for i in range(300)],
    "category": PEOPLE["city"],
    "id": [f"K{i:03}" for i in range(300)],
    "text": [f"number {i} likes graphs" for i in range(300)],
    "constant": np.full(300, 7.0),
    "words": RNG.binomial(2, 0.1, size=(300, 12)),
    "dropped": RNG.normal(size=300),
}


def fit(*arguments, **options):
    return sc.GraphClustering(3, random_state=0, n_init=4, **options).fit(*arguments)


def score(est, graph):
    return nmi(Y[[int(name[1:]) for name in graph.node_names]], est.labels_)


def found(nodes):
    graph = sc.Graph.from_frame(EDGES, nodes)
    return score(fit(graph), graph)


def test_an_irrelevant_text_column_takes_nothing(tmp_path):
    alone = found(NUMBERS)
    assert alone > 0.9
    assert abs(found(PEOPLE) - alone) < 0.05
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    graph = sc.read_graph(tmp_path / "edges.csv", tmp_path / "people.csv")
    est = fit(graph)
    assert abs(score(est, graph) - alone) < 0.05
    assert est.notes_[1] == "columns: 'name' id, 'salary' number, 'age' number, 'city' category (4 values)"
    assert est.notes_[1].values["kinds"] == {
        "name": "id",
        "salary": "number",
        "age": "number",
        "city": "category",
    }
    # The same through fit itself, with names in the index.
    est = fit(EDGES, PEOPLE.set_index("name"))
    assert "columns: 'salary' number, 'age' number, 'city' category (4 values)" in est.notes_


@pytest.mark.parametrize("kind", COLUMNS)
def test_predict_after_save_and_load_for_every_kind(kind, tmp_path):
    more = COLUMNS[kind]
    extra = pd.DataFrame({"extra": more}) if np.ndim(more) == 1 else pd.DataFrame(more).add_prefix("w")
    nodes = pd.concat([NUMBERS, extra], axis=1)
    graph = sc.Graph.from_frame(EDGES, nodes, drop=["extra"] if kind == "dropped" else ())
    assert graph.schema.columns[-1].kind == kind
    est = fit(graph)
    again = sc.GraphClustering.load(est.save(tmp_path / "model"))
    assert again.schema_ == est.schema_ == graph.schema
    np.testing.assert_array_equal(again.predict(graph), est.labels_)
    # Another order of rows and columns, and no rows of some nodes.
    some = nodes.iloc[::-1][nodes.columns[::-1]][20:]
    kept = EDGES[EDGES.source.isin(some.name) & EDGES.target.isin(some.name)]
    small = sc.Graph.from_frame(kept, some, schema=again.schema_)
    np.testing.assert_array_equal(small.kinds, graph.kinds)
    np.testing.assert_array_equal(again.predict(small), again.predict(kept, some))
    place = {name: i for i, name in enumerate(graph.node_names)}
    rows = [place[name] for name in small.node_names]
    np.testing.assert_array_equal(small.x, graph.x[rows])
    assert np.mean(again.predict(small) == est.labels_[rows]) > 0.85


@pytest.fixture(scope="module")
def est():
    return fit(sc.Graph.from_frame(EDGES, PEOPLE))


def test_nobody_lives_in_oslo(est):
    elsewhere = PEOPLE[PEOPLE.city != "Oslo"]
    kept = EDGES[EDGES.source.isin(elsewhere.name) & EDGES.target.isin(elsewhere.name)]
    wanted = est.predict(kept, elsewhere)
    # A graph whose table was read on its own has other columns.
    own = sc.Graph.from_frame(kept, elsewhere)
    assert own.feature_names != est.feature_names_in_.tolist()
    np.testing.assert_array_equal(est.predict(own), wanted)


def test_graphs_whose_tables_were_read_each_on_its_own(est):
    rome, lima = (
        PEOPLE[PEOPLE.city.isin(cities)] for cities in (["Rome", "Oslo"], ["Lima", "Paris", "Rome"])
    )
    graphs = []
    for nodes in (rome, lima):
        kept = EDGES[EDGES.source.isin(nodes.name) & EDGES.target.isin(nodes.name)]
        graphs.append(sc.Graph.from_frame(kept, nodes))
    for graph, labels in zip(graphs, est.predict(graphs), strict=True):
        np.testing.assert_array_equal(labels, est.predict(graph))
    with pytest.raises(GraphError, match=r"read the others with schema=graphs\[0\].schema"):
        fit(graphs)


def test_a_table_for_a_graph_that_is_there(est):
    bare = sc.Graph.from_frame(EDGES)
    np.testing.assert_array_equal(
        est.predict(bare, PEOPLE[PEOPLE.name.isin(bare.node_names)]),
        est.predict((EDGES, PEOPLE))[: bare.num_nodes],
    )


def test_of_a_table_of_edges_only_what_could_mean_something_else_is_said():
    seen = pd.DataFrame({"user_id": [0, 0, 1, 1, 2, 2], "movie_id": [0, 1, 1, 2, 2, 3], "stars": 5})
    with pytest.warns(UserWarning, match="may have no clusters"):
        notes = sc.GraphClustering(2, random_state=0).fit(seen).notes_
    codes = ["clusters_from", "compared_with_random", "two_kinds_of_nodes", "no_clusters"]
    assert [note.code for note in notes] == codes


def test_unknown_values_and_extra_columns_are_said(est):
    moved = PEOPLE.assign(shoe=42.0, city=["Bonn", *PEOPLE.city[1:]])
    gone = PEOPLE.assign(city=[None, *PEOPLE.city[1:]])
    with pytest.warns(UserWarning, match="values that the fit did not have taken for none: 'Bonn' of 'city'"):
        labels = est.predict(EDGES, moved)
    np.testing.assert_array_equal(labels, est.predict(EDGES, gone))
    for words in ("columns that the fit did not have ignored: 'shoe'", "1 gap in 'city' taken for no value"):
        assert est.notes_.count(words) == 1
    own = sc.Graph.from_frame(EDGES, moved.replace({"city": {"Lima": "Bonn"}}))
    with pytest.warns(UserWarning, match="taken for none: 'city=Bonn'"):
        est.predict(own)


def test_a_missing_column_is_one_sentence(est):
    with pytest.raises(GraphError, match=r"x: the columns are not those of the fit \(missing: 'age'\)"):
        est.predict(EDGES, PEOPLE.drop(columns="age"))
    with pytest.raises(
        GraphError,
        match=r"\(missing: 'city=Lima', 'city=Oslo', 'city=Paris' and 1 more\).*schema=est.schema_",
    ):
        est.predict(sc.Graph.from_frame(EDGES, NUMBERS))


def test_errors_of_fit_advise_what_exists():
    gap = PEOPLE.assign(age=[None, *PEOPLE.age[1:]])
    where = r"Such options are arguments of Graph.from_frame\(edges, nodes, ...\) and read_graph"
    for call in (
        lambda: fit(EDGES, gap),
        lambda: fit((EDGES, gap)),
        lambda: fit(PLANTED.adjacency, gap.drop(columns="name")),
        lambda: PLANTED.with_features(gap.drop(columns="name")),
    ):
        with pytest.raises(
            GraphError, match=rf"the value is missing.*missing='zero', 'mean' or 'drop'\. {where}\.$"
        ):
            call()
    with pytest.raises(GraphError) as refused:
        sc.Graph.from_frame(EDGES, gap)
    assert "Such options" not in str(refused.value)
    assert sc.Graph.from_frame(EDGES, gap, missing="mean").num_features == 6


def test_models_with_a_damaged_table_are_refused(est, tmp_path, monkeypatch):
    from softcut.clustering import estimator
    from softcut.clustering.storage import pack

    for change, words in (
        (lambda schema: schema["columns"].pop(), "schema does not fit the rest"),
        (lambda schema: schema["columns"][1].update(kind="colour"), "unknown kind: 'colour'"),
        (lambda schema: schema.update(ids="age"), "names a column of ids that is none"),
    ):
        tensors, meta = pack(est)
        change(meta["schema"])
        monkeypatch.setattr(estimator, "read_model", lambda path, made=(tensors, meta): made)
        with pytest.raises(ModelFileError, match=words):
            sc.GraphClustering.load("model")


def test_arrays_say_what_their_columns_are():
    x = np.column_stack([PEOPLE[["salary", "age"]], pd.get_dummies(PEOPLE.city)]).astype(float)
    est = fit(PLANTED.with_features(x))
    assert est.schema_ is None
    assert est.notes_[1] == "features taken for 2 numbers, 1 category (4 columns)"
    assert est.notes_[1].values["kinds"] == {f"feature {j}": ["number", "category"][j > 1] for j in range(6)}
