"""Tables of edges and features: which columns are taken for what, how rows are joined, at every boundary."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import refuses, sentence_of

from softcut.errors import GraphError, Note, ParameterError
from softcut.tables.columns import (
    Column,
    FeatureOptions,
    FeatureTable,
    InputTable,
    column_of_fields,
    column_of_values,
    looks_like_id,
    position_of,
    text_of,
)
from softcut.tables.edge_columns import EdgeTable, choose_edge_columns, edges_of_table, rows_of_nodes
from softcut.tables.feature_columns import feature_table
from softcut.tables.schema import TableSchema

# ------------------------------------------------------------------------------------------ columns of edges


@pytest.mark.parametrize(
    ("titles", "options", "wanted"),
    [
        (["source", "target"], {}, (0, 1, None)),
        (["Target", " Source "], {}, (1, 0, None)),
        (["id", "source", "target", "weight"], {}, (1, 2, 3)),
        (["source", "target", "year"], {}, (0, 1, None)),
        (["source", "target", "W"], {}, (0, 1, 2)),
        (["source", "target", "year", "Strength"], {}, (0, 1, 3)),
        (["year", "source", "target", "id", "similarity"], {}, (1, 2, 4)),
        (["source", "target", "value", "weight"], {}, (0, 1, 3)),
        (["source", "target", "weight"], {"weighted": False}, (0, 1, None)),
        (["source", "target", "weight"], {"weighted": True}, (0, 1, 2)),
        (["source", "target", "year"], {"weight": "year"}, (0, 1, 2)),
        (["source", "target", "year"], {"weight": 2, "weighted": False}, (0, 1, 2)),
        (["source", "target", "other"], {"target": "other"}, (0, 2, None)),
        (["source", "target", "other"], {"source": "other"}, (2, 1, None)),
        (["a", "b"], {}, (0, 1, None)),
        (["a", "b", "c"], {}, (0, 1, None)),
        (["id", "b", "c"], {}, (1, 2, None)),
        (["id", "b"], {}, (0, 1, None)),
        (["user_id", "a", "b", "c"], {}, (1, 2, None)),
        (["a", "weight", "b"], {}, (0, 2, 1)),
        (["a", "b"], {"source": "b"}, (1, 0, None)),
        (["a", "b"], {"target": "a"}, (1, 0, None)),
        (["a", "b", "c"], {"source": "c", "target": "a"}, (2, 0, None)),
        (["i", "j", "count"], {}, (0, 1, 2)),
    ],
)
def test_which_columns_are_ends_and_weight(titles, options, wanted):
    columns = choose_edge_columns(titles, "t", **options)
    assert (columns.source, columns.target, columns.weight) == wanted
    rest = [title for i, title in enumerate(titles) if i not in wanted]
    assert list(columns.ignored) == rest
    assert ("ignored" in columns.note()) == bool(rest)
    assert ("no weight" in columns.said) == (wanted[2] is None)


@pytest.mark.parametrize(
    ("titles", "options", "words"),
    [
        (["a"], {}, "name two of them source and target"),
        (["a", "b", "c", "d"], {}, "name two of them source and target"),
        (["a", "weight"], {}, "name two of them source and target"),
        (["a", "weight", "w"], {}, "name two of them source and target"),
        (["a", "b", "c"], {"source": "a"}, "name two of them source and target"),
        (["a"], {"source": "a"}, "name two of them source and target"),
        (["a", "b"], {"source": "a", "target": "A"}, "source and target are both column 'a'"),
        (["source", "target"], {"weight": "target"}, "weight is column 'target' of t, which holds the ids"),
        (["source", "target", "year"], {"weighted": True}, "weighted=True but no column"),
    ],
)
def test_columns_that_cannot_be_chosen(titles, options, words):
    assert words in sentence_of((GraphError, ParameterError), choose_edge_columns, titles, "t", **options)


def test_columns_by_title_and_position():
    titles = ["a", "A", "1", "b"]
    assert [position_of(which, titles, "w", "t") for which in ("A", "a", "B", "1", "0", "3", 0, np.int64(3))] == [
        1, 0, 3, 2, 0, 3, 0, 3,
    ]  # fmt: skip
    for bad in ("c", "4", "01", 4, -1, True, 1.0):
        refuses(ParameterError, "which is no column of t", position_of, bad, titles, "w", "t")


# ----------------------------------------------------------------------------------------- what ids mean


def made(ends, names=None, table=None, missing="error"):
    edges = EdgeTable(np.asarray(ends), names, None)
    return edges_of_table(edges, "g", table, FeatureOptions(missing=missing))


@pytest.mark.parametrize(
    ("ends", "count", "names", "said"),
    [
        ([[0, 1], [1, 2]], 3, None, "ids are node indices"),
        ([[0, 5], [5, 3]], 6, None, "ids are node indices"),
        ([[0, 6], [6, 3]], 3, ["0", "6", "3"], "numbers with gaps"),
        ([[1, 2], [2, 3]], 3, ["1", "2", "3"], "count nodes from 1"),
        ([[6, 1], [1, 3]], 6, ["1", "2", "3", "4", "5", "6"], "count nodes from 1"),
        ([[7, 1], [1, 3]], 3, ["7", "1", "3"], "numbers with gaps"),
        ([[2, 3], [3, 4]], 3, ["2", "3", "4"], "numbers with gaps"),
    ],
)
def test_integers_count_nodes_or_name_them(ends, count, names, said):
    parts = made(ends)
    assert parts["num_nodes"] == count
    assert parts["node_names"] == names
    assert said in parts["notes"][0]
    back = parts["edge_index"].T
    shown = back if names is None else np.array([[int(names[i]) for i in row] for row in back])
    assert shown.tolist() == ends


def test_rows_with_other_ids_are_refused():
    columns = table(id=["007", "008", "009"], age=[1, 2, 3])
    for ends, names in (
        ([[0, 1], [1, 2]], None),
        ([[1, 2], [2, 3]], None),
        ([[7, 8], [8, 9]], None),
        ([[0, 1], [1, 2]], ["7", "b", "c"]),
    ):
        for missing in ("error", "zero"):
            said = "no id of column 'id' is a node; the ids are '007', '008', '009', the nodes '.*drop=\\['id'\\]"
            refuses(GraphError, said, made, ends, names, columns, missing)
    assert chosen(columns, ["0", "1", "2"], named=False) == (None, ["age"])  # nobody wrote these numbers


@pytest.mark.parametrize(
    ("ends", "n", "names"),
    [([[0, 2]], 3, None), ([[0, 2]], 5, None), ([[1, 3]], 3, ["1", "2", "3"]), ([[2, 3]], 3, ["1", "2", "3"]),
     ([[1, 3]], 4, None), ([[0, 3]], 3, "refused"), ([[1, 3]], 2, "refused")],
)  # fmt: skip
def test_rows_without_ids_belong_to_nodes_counted_from_0_or_1(ends, n, names):
    if names == "refused":
        refuses(GraphError, f"x has {n} rows but g has node 3", made, ends, table=rows(n))
        return
    parts = made(ends, table=rows(n))
    assert (parts["num_nodes"], parts["node_names"]) == (n, names)
    assert parts["edge_index"].T.tolist() == [[end - (names is not None) for end in ends[0]]]


@pytest.mark.parametrize(
    ("ends", "n", "more"), [([0, 2], 4, 1), ([0, 2], 3, 0), ([0, 2], 5, 0), ([1, 3], 4, 1), ([1, 3], 5, 0)]
)
def test_one_row_more_than_nodes_may_hold_titles(ends, n, more):
    doubt = Note("header", "no titles", titles_in_doubt=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made([ends], table=rows(n, notes=(doubt,)))
        made([ends], table=rows(n))
    assert ["if row 1 holds titles" in str(each.message) for each in said] == [True] * more


def rows(n, ids=None, **options):
    x = np.arange(2.0 * n, dtype=np.float32).reshape(n, 2)
    return FeatureTable("x", x, ids=ids, id_origin="column 'id'", **options)


@pytest.mark.parametrize(
    ("ends", "ids", "names", "index"),
    [
        ([[2, 0]], ["0", "1", "2"], None, [[2, 0]]),
        ([[3, 1]], ["1", "2", "3"], ["1", "2", "3"], [[2, 0]]),
        ([[4, 2]], ["2", "3", "4"], ["4", "2", "3"], [[0, 1]]),
        ([[3, 0]], ["0", "1", "3"], ["3", "0", "1"], [[0, 1]]),
        ([[2, 0]], ["0", "1", "2", "a"], ["2", "0", "1", "a"], [[0, 1]]),
    ],
)
def test_integer_ids_that_fill_a_range_keep_their_order(ends, ids, names, index):
    parts = made(ends, table=rows(len(ids), ids))
    assert parts["node_names"] == names
    assert parts["edge_index"].T.tolist() == index
    assert parts["notes"][0] == "ids are integers"
    shown = names or ["0", "1", "2"]
    assert parts["x"].tolist() == [[2 * ids.index(n), 2 * ids.index(n) + 1] for n in shown]


def test_rows_that_are_missing():
    table = rows(2, ["a", "b"])
    x, said = rows_of_nodes(table, ["b", "z", "a"], "zero", "g")
    assert x.tolist() == [[2, 3], [0, 0], [0, 1]]
    assert said == "joined by column 'id', 1 node without a row filled with zeros"
    x, said = rows_of_nodes(table, ["z", "a", "y"], "mean", "g")
    assert x.tolist() == [[1, 2], [0, 1], [1, 2]]
    assert "2 nodes without a row filled with means" in said
    refuses(GraphError, "no row for node 'z' of g", rows_of_nodes, table, ["z"], "error", "g")
    with pytest.raises(GraphError, match="missing rows of sparse features cannot be filled"):
        rows_of_nodes(FeatureTable("x", sp.csr_array((1, 2)), ids=["a"]), ["z"], "zero", "g")
    with pytest.raises(GraphError, match="more than one row for node 'a'"):
        rows_of_nodes(rows(2, ["a", "a"]), ["a"], "error", "g")
    refuses(GraphError, "'07' is another id", rows_of_nodes, rows(1, ["07"]), ["7"], "error", "g")
    said = sentence_of(GraphError, rows_of_nodes, rows(1, ["07"]), ["8"], "error", "g")
    assert "another id" not in said


# --------------------------------------------------------------------------------------- tables of features


def table(**columns) -> InputTable:
    def column(title, values):
        if isinstance(values[0], str):
            return Column(title, text=values)
        return Column(title, numbers=np.array(values))

    return InputTable("x", [column(title, values) for title, values in columns.items()])


def chosen(made_of: InputTable, known=None, ordered=True, named=True, **options):
    features = feature_table(made_of, FeatureOptions(**options), known, ordered, named)
    return features.ids, features.names


@pytest.mark.parametrize(
    ("columns", "known", "ids", "names"),
    [
        # A column whose values are the names of the nodes.
        ({"age": [30, 40], "who": ["b", "a"]}, ["a", "b"], ["b", "a"], ["age"]),
        ({"who": ["b", "a"], "age": [30, 40]}, ["a", "b"], ["b", "a"], ["age"]),
        ({"user_id": [7, 5], "age": [31.0, 45.0]}, ["5", "7"], ["7", "5"], ["age"]),
        ({"age": [31.0, 45.0], "number": [9000, 5000]}, ["5000", "9000"], ["9000", "5000"], ["age"]),
        # Rows for more nodes than the graph has.
        ({"id": ["a", "b", "c"], "age": [1, 2, 3]}, ["b"], ["a", "b", "c"], ["age"]),
        # Whole floats as text.
        ({"id": ["7.0", "5.00"], "age": [1, 2]}, ["5", "7"], ["7", "5"], ["age"]),
        # Counts from 0 or 1 are believed in a first column only, and where they count.
        ({"a": [2, 0, 1], "b": [5.5, 6.5, 7.5]}, ["0", "1", "2"], ["2", "0", "1"], ["b"]),
        ({"a": [2, 3, 1], "b": [5.5, 6.5, 7.5]}, ["1", "2", "3"], ["2", "3", "1"], ["b"]),
        ({"b": [5.5, 6.5, 7.5], "a": [2, 0, 1]}, ["0", "1", "2"], None, ["b", "a"]),
        ({"a": [1, 0], "b": [5.5, 6.5]}, ["0", "1"], None, ["a", "b"]),
        ({"a": [2, 0, 1, 9], "b": [5.5, 6.5, 7.5, 8.5]}, ["0", "1", "2"], None, ["a", "b"]),
        # Titles that say "id", without a graph.
        ({"age": [1, 2], "id": [5, 6]}, None, ["5", "6"], ["age"]),
        ({"age": [1, 2], "size": [5, 6]}, None, None, ["age", "size"]),
        # A title that says "id" above values that repeat: the next such column is taken.
        ({"name": [5, 5], "user_id": [7, 8], "age": [1, 2]}, None, ["7", "8"], ["name", "age"]),
        # Numbers that repeat are a feature.
        ({"a": [5000, 5000, 9000], "b": [1.5, 2.5, 3.5]}, ["5000", "9000"], None, ["a", "b"]),
        # Words in front are ids, also where half of them are numbers.
        ({"who": ["a", "7"], "age": [1, 2]}, None, ["a", "7"], ["age"]),
    ],
)
def test_which_column_holds_the_ids(columns, known, ids, names):
    assert chosen(table(**columns), known) == (ids, names)


def test_rows_of_numbered_nodes_are_joined_by_position_where_they_are_as_many():
    known = ["0", "1", "2"]
    for ids in ([77, 78], [7, 8, 9, 10]):
        assert chosen(table(id=ids, age=range(len(ids))), known, named=False)[0] == [str(i) for i in ids]
    assert chosen(table(id=[77, 78, 79], age=[1, 2, 3]), known, named=False) == (None, ["age"])


def test_an_id_that_is_empty_is_named():
    for known in (["a", "b"], None):
        refuses(
            GraphError,
            r"x, row 1, column 1 \('id'\): the node id is empty",
            chosen,
            table(id=["a", "", "b"], age=[1, 2, 3]),
            known,
        )


@pytest.mark.parametrize("columns", [{"who": ["1", "0", "1"]}, {"user_id": [1, 0, 1]}])
def test_names_of_nodes_that_repeat_are_a_mistake(columns):
    with pytest.raises(GraphError, match="x, row 2: node '1' has a row already"):
        chosen(table(**columns, age=[1, 2, 3]), ["0", "1"])


def test_ids_by_request():
    made_of = table(age=[1, 2], size=[5, 6])
    assert chosen(made_of, ids="size") == (["5", "6"], ["age"])
    assert chosen(made_of, ids=0) == (["1", "2"], ["size"])
    for bad in ("weight", 2, -1):
        refuses(ParameterError, f"ids is {bad!r}, which is no column", chosen, made_of, ids=bad)
    with pytest.raises(ParameterError, match="column 1 of x, whose values are no ids"):
        chosen(table(age=[1.5, 2.0], size=[5, 6]), ids="age")


def test_categories():
    ids = chosen(table(city=["p", "q"], who=["b", "a"], age=[1, 2]), ["a", "b"], categories=("city",))
    assert ids == (["b", "a"], ["city=p", "city=q", "age"])
    numbers = feature_table(table(age=[1.5, 2.5, 1.5]), FeatureOptions(categories=("age",)))
    assert numbers.names == ["age=1.5", "age=2.5"]
    assert numbers.x.tolist() == [[1, 0], [0, 1], [1, 0]]
    thousand = table(age=[1] * 1000, city=[f"c{i}" for i in range(1000)])
    assert feature_table(thousand, FeatureOptions(categories=("city",))).x.shape == (1000, 1001)
    gap = feature_table(table(age=[1, 2], city=["b", ""]), FeatureOptions(categories=True))
    assert gap.x.tolist() == [[1, 1], [2, 0]], "a gap is no value, not an error"
    again = InputTable("x", [Column(title, np.ones(1)) for title in ("a", "a", "a (2)", "a")])
    assert chosen(again)[1] == ["a", "a (3)", "a (2)", "a (4)"]


def test_every_column_a_feature():
    assert chosen(table(id=[5, 6], age=[1, 2]), ids=False) == (None, ["id", "age"])
    with pytest.raises(GraphError, match="expected at least one feature beside the node id"):
        feature_table(table(id=[5, 6]), FeatureOptions())


@pytest.mark.parametrize(
    ("title", "wanted"),
    [("id", True), ("ID", True), (" Node ", True), ("", True), ("user_id", True), ("user-ids", True), ("userId", True),
     ("userID", True), ("paid", False), ("PAID", False), ("idea", False), ("age", False), ("grid", False)],
)  # fmt: skip
def test_titles_of_ids(title, wanted):
    assert looks_like_id(title) is wanted


def test_values_as_ids():
    assert Column("a", numbers=np.array([3.0, -1.0])).labels() == ["3", "-1"]
    assert Column("a", numbers=np.array([3.5, 1.0])).labels() is None
    assert Column("a", numbers=np.array([np.nan, 1.0])).labels() is None
    assert Column("a", numbers=np.array([2.0**53 - 1])).labels() == [str(2**53 - 1)]
    assert Column("a", numbers=np.array([2.0**53])).labels() is None
    assert Column("a", numbers=np.array([-(2.0**53)])).labels() is None
    assert Column("a", numbers=np.array([True])).labels() is None
    assert Column("a", numbers=np.array([], dtype=float)).labels() == []
    assert [text_of(v) for v in (7.0, 7.5, 7, "7.0", float("inf"))] == ["7", "7.5", "7", "7.0", "inf"]


def test_columns_of_objects():
    numbers = column_of_values("a", np.array([1, None, 2.5, float("nan")], dtype=object))
    assert numbers.text is None
    np.testing.assert_array_equal(numbers.numbers, [1, np.nan, 2.5, np.nan])
    mixed = column_of_values("a", np.array([7.0, None, "x"], dtype=object))
    assert mixed.numbers is None
    assert mixed.text == ["7", "", "x"]
    assert column_of_values("a", np.array([None, None], dtype=object)).text == ["", ""]
    assert column_of_values("a", np.array([1, 2])).numbers.tolist() == [1, 2]
    for values, declared in ((["1970-01-03T12", "NaT"], "date"), ([60, "NaT"], "")):
        days = column_of_values("a", np.array(values, dtype="M8[h]" if declared else "m8[h]"))
        np.testing.assert_array_equal(days.numbers, [2.5, np.nan])
        assert days.declared == declared


@pytest.mark.parametrize(
    ("title", "fields", "first", "ids"),
    [("a", ["1.5", "2"], True, True), ("a", ["1.5", "2"], False, False), ("id", ["1.5", "2"], False, True),
     ("a", ["1", "2"], False, True), ("a", ["1", "1"], True, False), ("a", ["1", ""], True, False)],
)  # fmt: skip
def test_numbers_in_text_that_may_be_ids_are_kept_as_written(title, fields, first, ids):
    assert column_of_fields(title, fields, ",", first)[0].text == (fields if ids else None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"missing": "no"}, "missing is 'no'"), ({"categories": [1.5]}, "categories must be a list"),
     ({"drop": [True]}, "drop must be a list"), ({"columns": 1.5}, "columns must be a list"),
     ({"ids": True}, "ids is True"), ({"ids": 1.5}, "ids is 1.5"), ({"dates": {"a": 3}}, "dates has the format 3"),
     ({"schema": "x"}, "schema must be"),
     ({"schema": TableSchema(()), "drop": ["a"]}, "drop has no effect: what columns are was decided with the model")],
)  # fmt: skip
def test_options_are_checked(arguments, words):
    with pytest.raises(ParameterError, match=words):
        FeatureOptions.checked(**arguments)


def test_options_as_they_may_be_given():
    assert FeatureOptions.checked(0, "drop", categories="city") == FeatureOptions(
        0, "drop", categories=("city",)
    )
    formats = (("joined", "%d/%m/%Y"), ("left", ""))
    assert FeatureOptions.checked(dates=["joined=%d/%m/%Y", "left"]).dates == formats
    assert FeatureOptions.checked(dates=dict(formats)).dates == formats


# ------------------------------------------------------- numbers that count the rows or the nodes


NAMES = [("ann", "bob"), ("bob", "cy"), ("cy", "ann")]


def ends_of(rows, titles=("row", "employee", "manager")):
    columns = choose_edge_columns(titles, "t", rows=rows)
    return columns.source, columns.target


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_column_that_counts_the_rows_is_no_node(first):
    rows = [(str(i + first), u, v) for i, (u, v) in enumerate(NAMES)]
    assert ends_of([*rows, ("total", "3")]) == (1, 2), "a short row says nothing"


@pytest.mark.parametrize(
    "rows",
    [
        [(str(i + 2), u, v) for i, (u, v) in enumerate(NAMES)],  # counts from elsewhere
        [("0", *NAMES[0]), ("2", *NAMES[1]), ("1", *NAMES[2])],  # in another order
        [(str(i), u, v) for i, (u, v) in enumerate(NAMES[:2])],  # too few to tell
        [("0", "ann", "2001"), ("1", "bob", "2002"), ("2", "cy", "2001")],  # two columns of other things
        [(str(i), u, v, "x") for i, (u, v) in enumerate(NAMES)],  # not the columns of the titles
    ],
)
def test_otherwise_the_first_two_columns_are_the_ends(rows):
    assert ends_of(rows) == (0, 1)


# ------------------------------------------------------------------------------------------ ids or a feature


def ids_of(values: list[int], known: list[str]) -> list[str] | None:
    """The ids found in a table whose second column holds these values."""
    columns = [Column("age", np.full(len(values), 0.5)), Column("level", np.array(values))]
    return feature_table(InputTable("x", columns), FeatureOptions(), known, ordered=False).ids


@pytest.mark.parametrize(
    ("known", "ids"),
    [
        (["1", "2", "6"], False),  # as many as half of the numbers up to 6: nodes that are counted
        (["1", "2", "7"], True),  # names that happen to be numbers
        (["0", "1", "5"], False),
        (["0", "1", "6"], True),
    ],
)
def test_a_later_column_is_ids_only_where_the_names_do_not_count(known, ids):
    values = [*map(int, known), 9]
    assert ids_of(values, known) == ([str(v) for v in values] if ids else None)


@pytest.mark.parametrize(("nodes", "start", "refused"), [(9, 0, False), (10, 0, True), (10, 1, True)])
def test_a_later_column_that_counts_ten_nodes_in_another_order_is_asked_about(nodes, start, refused):
    columns = [Column("age", np.full(nodes, 0.5)), Column("rank", np.arange(nodes)[::-1] + start)]
    table, known = InputTable("x", columns), [str(i + start) for i in range(nodes)]
    if refused:
        with pytest.raises(
            GraphError,
            match=r"column 'rank': the values are the ids of the nodes in another order.*pass ids='rank' to join "
            "rows by them, or ids=False if row i",
        ):
            feature_table(table, FeatureOptions(), known)
    else:
        assert feature_table(table, FeatureOptions(), known).names == ["age", "rank"]
