"""What each column of a table is taken for, what it becomes, and the same again for a later table."""

import datetime
import inspect
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from softcut import Graph, read_features, read_graph
from softcut.errors import GraphError, ModelFileError, ParameterError
from softcut.tables.columns import Column, FeatureOptions, InputTable
from softcut.tables.dates import ISO, days_of_texts, formats_of_texts
from softcut.tables.feature_columns import feature_table
from softcut.tables.frames import table_of_frame
from softcut.tables.kinds import CATEGORY, NUMBER, WORD
from softcut.tables.schema import ColumnRule, TableSchema

RNG = np.random.default_rng(0)
ROWS = 60
CITY = [["Oslo", "Rome", "Lima"][i % 3] for i in range(ROWS)]


def made(frame, **options):
    return feature_table(table_of_frame(pd.DataFrame(frame), "x"), FeatureOptions.checked(**options))


def kinds(frame, **options):
    return {rule.title: rule.kind for rule in made(frame, **options).schema.columns}


def note(table, code):
    return next(note for note in table.notes if note.code == code)


# ------------------------------------------------------------------------------------------ the rule


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (RNG.normal(size=ROWS), "number"),
        (np.arange(ROWS) * 1e9, "number"),
        ([True, False] * 30, "number"),
        ([3.0] * ROWS, "constant"),
        (CITY, "category"),
        ([*CITY[:-1], None], "category"),
        (["Oslo"] * ROWS, "constant"),
        ([f"v{i % 30}" for i in range(ROWS)], "category"),  # two rows per value
        ([f"v{i % 31}" for i in range(ROWS)], "text"),
        ([f"n{i}" for i in range(ROWS)], "id"),
        ([f"row {i} says much" for i in range(ROWS)], "text"),
        ([None] * ROWS, "dropped"),
        ([f"2021-03-{1 + i % 28:02}" for i in range(ROWS)], "date"),
        ([f"2021-03-{1 + i % 28:02}T10:{i:02}:00Z" for i in range(ROWS)], "date"),
        (pd.date_range("2020-01-01", periods=ROWS), "date"),
        (pd.date_range("2020-01-01", periods=ROWS, tz="Europe/Oslo"), "date"),
        ([datetime.date(2020, 1, 1 + i % 28) for i in range(ROWS)], "date"),
        (pd.Categorical([i % 40 for i in range(ROWS)]), "category"),  # its type says so
    ],
)
def test_the_kind_of_a_column(values, kind):
    assert kinds({"size": RNG.normal(size=ROWS), "a": values}) == {"size": "number", "a": kind}


@pytest.mark.parametrize(
    ("values", "rows", "kind"),
    [
        (50, 100, "category"),
        (51, 102, "text"),
        (51, 510, "category"),
        (200, 2000, "category"),
        (201, 2010, "text"),
    ],
)
def test_how_many_values_a_category_has(values, rows, kind):
    column = [f"v{i % values}" for i in range(rows)]
    assert kinds({"a": column, "size": RNG.normal(size=rows)})["a"] == kind


def test_dates_in_front_are_no_ids():
    days = [f"2021-03-{i:02}" for i in range(1, 29)]
    assert kinds({"day": days, "size": RNG.normal(size=28)}) == {"day": "date", "size": "number"}


def test_ids_beside_the_one_that_joins():
    frame = {"user_id": range(ROWS), "account_id": range(500, 500 + ROWS), "size": RNG.normal(size=ROWS)}
    assert kinds(frame) == {"user_id": "id", "account_id": "id", "size": "number"}
    assert kinds(frame, ids=False) == {"user_id": "number", "account_id": "number", "size": "number"}


def test_words_are_many_columns_of_counts():
    counts = {f"w{j}": RNG.binomial(2, 0.1, size=ROWS) for j in range(12)}
    few = dict(list(counts.items())[:5])
    assert set(kinds(counts).values()) == {"words"}
    assert set(kinds({**counts, "city": CITY}).values()) == {"words", "category"}
    assert set(kinds({**few, "city": CITY}).values()) == {"number", "category"}  # too few beside another kind
    dummies = pd.get_dummies(pd.Series(CITY)).astype(float)
    table = made({**dummies, "size": 100 + RNG.normal(size=ROWS), "town": CITY})
    assert [rule.kind for rule in table.schema.columns] == [*["category"] * 3, "number", "category"]
    assert table.schema.kinds.tolist() == [*[CATEGORY] * 3, NUMBER, *[CATEGORY + 1] * 3]


def test_numbers_with_mistakes_are_no_text():
    with pytest.raises(GraphError, match=r"x, row 3, column 1 \('age'\): 'abc' is not a number; correct it"):
        made({"age": [31, 45, 28, "abc"], "city": CITY[:4]})


def test_numbers_that_came_as_text():
    table = made({"age": ["31", "NA", "45", "31"], "size": ["1,5", "2,5", "3,5", "1,5"]}, missing="zero")
    assert table.x.tolist() == [[31, 1.5], [0, 2.5], [45, 3.5], [31, 1.5]]
    edges = pd.DataFrame({"source": ["01", "02"], "target": ["02", "1"]})
    graph = Graph.from_frame(edges, pd.DataFrame({"id": ["1", "01", "02"], "age": ["5", "6", "8"]}))
    assert graph.node_names == ["01", "02", "1"] and graph.x.ravel().tolist() == [6, 8, 5]


def test_one_note_names_every_column():
    names, codes = [f"n{i}" for i in range(ROWS)], [f"v{i % 31}" for i in range(ROWS)]
    frame = {"name": names, "age": RNG.normal(size=ROWS), "city": CITY, "bio": [*"ab"] * 30, "code": codes}
    table = made(frame, drop=["bio"])
    said = note(table, "columns")
    assert said == (
        "columns: 'name' id, 'age' number, 'city' category (3 values), 'bio' left out, 'code' text (left out)"
    )
    assert said.values["kinds"] == {
        "name": "id",
        "age": "number",
        "city": "category",
        "bio": "dropped",
        "code": "text",
    }
    left = note(table, "columns_left_out")
    assert left == (
        "left out as free text: 'code' with 31 different values in 60 rows (categories=['code'] makes a column of 0 "
        "and 1 of every value)"
    )
    many = made({**{f"c{j}": RNG.normal(size=ROWS) for j in range(20)}, "city": CITY})
    assert note(many, "columns") == "columns: 20 numbers, 'city' category (3 values)"
    for numbers, texts, said in (
        (15, 6, "columns: 15 numbers, 6 texts (left out)"),
        (16, 5, "columns: 16 numbers, 't0' text"),
    ):
        rules = [ColumnRule(f"n{i}", "number") for i in range(numbers)]
        rules += [ColumnRule(f"t{i}", "text") for i in range(texts)]
        assert TableSchema(tuple(rules)).note.startswith(said)
        assert TableSchema(tuple(rules[1:])).note.startswith("columns: 'n1' number, 'n2' number")
    assert len(note(many, "columns").values["kinds"]) == 21


# ------------------------------------------------------------------------------------------ what is asked for


def test_columns_drop_categories_and_dates():
    frame = {
        "age": range(30),
        "code": [i % 4 for i in range(30)],
        "city": CITY[:30],
        "day": ["3/12/2020", "28/2/2021"] * 15,
    }
    assert kinds(frame, columns=["age", "CITY"]) == {
        "age": "number",
        "code": "dropped",
        "city": "category",
        "day": "dropped",
    }
    assert (
        kinds(frame, columns="age,city") == kinds(frame, columns=[0, 2]) == kinds(frame, drop=["code", "day"])
    )
    table = made(frame, categories=["code"], dates=["day"], columns=["code", "day"])
    assert table.names == ["code=0", "code=1", "code=2", "code=3", "day"]
    assert table.x[:2, -1].tolist() == [18599.0, 18686.0]
    assert table.schema.columns[3].format == "%d/%m/%Y"
    assert kinds(frame, categories=True)["day"] == "category"


def test_dates_of_either_order_are_asked_about():
    frame = {"age": [1.0, 2.0, 4.0], "day": ["1/2/2020", "3/4/2020", "5/6/2020"]}
    with pytest.raises(
        GraphError, match=r"'1/2/2020' may be '%d/%m/%Y', '%m/%d/%Y'; .*dates=\['day=%d/%m/%Y'\]"
    ):
        made(frame, dates=["day"])
    for dates in ({"day": "%m/%d/%Y"}, ["day=%m/%d/%Y"]):
        assert made(frame, dates=dates).x[:, 1].tolist() == [18263.0, 18325.0, 18388.0]
    whole = made({"age": [1.0, 2.5], "day": [20200102, 20200103]}, dates=["day"])
    assert whole.x[:, 1].tolist() == [18263.0, 18264.0]


def test_dates():
    days, wrong = days_of_texts(["1970-01-02", "NA", "1970-01-01 06:00", "1970-01-01T01:00+01:00"], ISO)
    assert wrong is None
    np.testing.assert_array_equal(days, [1, np.nan, 0.25, 0])
    assert days_of_texts(["1970-01-02", "1970-13-02"], ISO)[1] == 1
    assert formats_of_texts(["2 Jan 1970"]) == ["%d %b %Y"]
    assert formats_of_texts(["soon"]) == formats_of_texts([""]) == []
    assert formats_of_texts(["03.04.2020 10:30"]) == ["%d.%m.%Y %H:%M"]
    with pytest.raises(GraphError, match=r"row 59, column 1 \('a'\): 'soon' is not a date like the others"):
        made({"a": [*["2021-03-04"] * (ROWS - 1), "soon"], "b": range(ROWS)})


def test_gaps_of_each_kind():
    frame = {
        "age": [1.0, None, 3.0, 5.0],
        "day": ["1970-01-03", "1970-01-05", "", "1970-01-07"],
        "city": ["a", "b", None, "a"],
    }
    with pytest.raises(
        GraphError, match=r"2 problems: \(1\) row 1, column 1 .*, \(2\) row 2, column 2 .*missing='zero'"
    ):
        made(frame, categories=["city"])
    table = made(frame, categories=["city"], missing="mean")
    np.testing.assert_array_equal(table.x, [[1, 2, 1, 0], [3, 4, 0, 1], [3, 4, 0, 0], [5, 6, 1, 0]])
    assert note(table, "category_gaps") == "1 gap in 'city' taken for no value"
    assert note(table, "missing_filled").values == {"count": 2}
    zeros = made(frame, categories=["city"], missing="zero")
    assert zeros.x[1:3, :2].tolist() == [[0, 4], [3, 0]]
    dropped = made({**frame, "size": [1.0, 2.0, 3.0, 5.0]}, categories=["city"], missing="drop")
    assert dropped.names == ["size"]


def test_all_problems_come_in_one_message():
    frame = pd.DataFrame({
        "age": [31, None, 28, 50.0],
        "salary": ["40", "41", "a lot", "39"],
        "size": [1.0, np.inf, 2.0, 3.0],
        "day": ["2020-01-01", "2020-01-02", "2020-13-01", "2020-01-05"],
    })  # fmt: skip
    with pytest.raises(GraphError) as caught:
        made(frame, drop=["town"], categories=["colour"])
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(
        "x has 6 problems: (1) drop names 'town', which is no column of x, (2) categories names"
    )
    for words in ("row 1, column 1 ('age'): the value is missing", "row 2, column 2 ('salary'): 'a lot' is not a",
                  "row 1, column 3 ('size'): inf is not finite", "'2020-13-01' is not a date", "missing='zero'",
                  "drop=['salary']", "choose from 'age', 'salary', 'size', 'day'"):  # fmt: skip
        assert words in said
    gaps = pd.DataFrame({f"c{j}": [1.0, None, 2.0] for j in range(14)})
    with pytest.raises(
        GraphError, match=r"x has 14 problems: .* \(10\) .*'c9'\): the value is missing and 4 more; fill"
    ):
        made(gaps)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"columns": ["age"], "categories": ["city"]},
            "categories names 'city', which is left out, of x; name a column",
        ),
        ({"drop": ["city"], "dates": ["city"]}, "dates names 'city', which is left out"),
        ({"categories": ["city"], "dates": ["city"]}, "dates names 'city', which is one of the categories"),
        ({"columns": [7]}, "columns names 7, which is no column of x; choose from 'age', 'city'"),
    ],
)
def test_options_that_contradict_each_other(options, words):
    with pytest.raises(ParameterError, match=words):
        made({"age": range(ROWS), "city": CITY}, **options)


def test_options_of_tables_need_a_table():
    edges = pd.DataFrame({"source": [0, 1], "target": [1, 2]})
    with pytest.raises(ParameterError, match="drop names columns of a table, but x is none"):
        Graph.from_frame(edges, np.eye(3), drop=["age"])
    with pytest.raises(ParameterError, match="categories names columns of a table, but features is none"):
        read_graph(edges, features=np.eye(3), categories=["age"])


def test_tables_without_a_feature():
    with pytest.raises(
        GraphError, match=r"x has no column that tells nodes apart: 'b' left out.*categories=\['b'\]"
    ):
        made({"id": range(4), "b": ["p", "q", "r", "s"]})
    with pytest.raises(GraphError, match="x has no column left that holds values"):
        made({"id": range(4), "age": [1, 2, 3, 4]}, drop=["age"])


def test_options_have_one_name_everywhere():
    def names(call):
        return set(inspect.signature(call).parameters)

    for call in (read_graph, read_features, Graph.from_frame):
        assert names(FeatureOptions) <= names(call)
    assert names(Graph.from_frame) - {"frame", "x", "name"} <= names(read_graph)


# ------------------------------------------------------------------------------------------ a later table


TRAIN = {
    "age": RNG.normal(40, 5, ROWS),
    "city": CITY,
    "day": [f"2021-03-{1 + i % 28:02}" for i in range(ROWS)],
    "bio": [f"row {i} says much" for i in range(ROWS)],
}
SCHEMA = made(TRAIN).schema


def test_a_later_table_is_read_the_same_way():
    table = made(
        {"day": ["2022-01-01", "2022-01-02"], "city": ["Rome", "Bonn"], "age": [1.0, 2.0], "extra": [1, 2]},
        schema=SCHEMA,
    )
    assert table.names == ["age", "city=Lima", "city=Oslo", "city=Rome", "day"]
    np.testing.assert_array_equal(table.x, [[1, 0, 0, 1, 18993], [2, 0, 0, 0, 18994]])
    assert table.schema is SCHEMA
    assert (
        note(table, "unknown_values") == "values that the fit did not have taken for none: 'Bonn' of 'city'"
    )
    assert note(table, "columns_ignored") == "columns that the fit did not have ignored: 'extra'"
    with pytest.raises(
        GraphError, match=r"not those of the fit \(missing: 'city', 'day'; not known: 'town'\)"
    ):
        made({"age": [1.0], "town": ["Rome"]}, schema=SCHEMA)
    with pytest.raises(
        GraphError, match=r"'many' is not a number.*'soon' is not a date like those of the fit"
    ):
        made({"age": ["many"], "city": ["Rome"], "day": ["soon"]}, schema=SCHEMA)


def test_gaps_of_a_later_table():
    gap = {"age": [None, 40.0], "city": ["Rome", None], "day": ["2022-01-01", "2022-01-02"]}
    with pytest.raises(
        GraphError, match="the value is missing; fill it in, or pass missing='zero' or 'mean'"
    ):
        made(gap, schema=SCHEMA)
    assert made(gap, schema=SCHEMA, missing="mean").x[0, 0] == pytest.approx(np.mean(TRAIN["age"]), rel=1e-6)
    means = made({**TRAIN, "age": [None, *TRAIN["age"][1:]]}, missing="mean").schema
    assert made(gap, schema=means).x[0, 0] == pytest.approx(np.mean(TRAIN["age"][1:]), rel=1e-6)


def test_gaps_of_a_column_that_had_no_values_are_zero():
    empty = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [np.nan] * 3})
    schema = Graph.from_features(empty, n_neighbors=1, missing="zero").schema
    later = empty.assign(b=[7.0, np.nan, 9.0])
    assert Graph.from_features(later, n_neighbors=1, schema=schema).x[:, 1].tolist() == [7, 0, 9]


def test_tables_without_titles_are_read_by_position():
    table = InputTable(
        "t", [Column("1", np.array([1.0, 2.0, 4.0, 3.0])), Column("2", text=["a", "b", "a", "b"])], False
    )
    first = feature_table(table, FeatureOptions())
    assert first.names is None and first.x.tolist() == [[1, 1, 0], [2, 0, 1], [4, 1, 0], [3, 0, 1]]
    later = InputTable("t", [Column("1", np.array([5.0])), Column("2", text=["b"])], False)
    assert feature_table(later, FeatureOptions(schema=first.schema)).x.tolist() == [[5, 0, 1]]
    with pytest.raises(GraphError, match="has 1 feature column, but the table of the fit had 2"):
        feature_table(InputTable("t", later.columns[:1], False), FeatureOptions(schema=first.schema))


def test_the_column_of_ids_is_remembered():
    edges = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]})
    nodes = pd.DataFrame({"age": [3.5, 1.5, 2.5, 0.5], "rank": [3, 1, 2, 0]})
    graph = Graph.from_frame(edges, nodes, ids="rank")
    assert graph.schema.ids == "rank"
    other = Graph.from_frame(edges, nodes.iloc[::-1].reset_index(drop=True), schema=graph.schema)
    np.testing.assert_array_equal(other.x, graph.x)


def test_graphs_keep_the_schema():
    graph = Graph.from_edges([[0, 1], [1, 2]], x=pd.DataFrame({"age": [1.0, 2.0, 3.0], "code": [1, 2, 1]}))
    assert graph.schema.names == graph.feature_names == ["age", "code"]
    for other in (graph.subgraph([0, 1]), Graph.batch([graph, graph]), Graph.batch([graph, graph]).split()[0],
                  graph.with_notes("a")):  # fmt: skip
        assert other.schema == graph.schema
    assert graph.with_features(np.eye(3)).schema is None
    assert Graph.batch([graph, graph.with_features(graph.x, graph.feature_names)]).schema is None
    with pytest.raises(GraphError, match="schema is that of other features"):
        graph.with_features(np.eye(3), schema=graph.schema)
    frame = pl.DataFrame({"age": [1.0, 2.0, 3.0], "city": pl.Series(["a", "b", "a"], dtype=pl.Categorical)})
    polars = graph.with_features(frame)
    assert polars.kinds.tolist() == [NUMBER, CATEGORY, CATEGORY]
    words = Graph.from_edges([[0], [1]], x=pd.DataFrame(np.eye(2)))
    assert words.kinds.tolist() == [WORD, WORD]


# ------------------------------------------------------------------------------------------ JSON


def test_json_and_back():
    assert TableSchema.from_json(json.loads(json.dumps(SCHEMA.to_json()))) == SCHEMA


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda given: given.pop("ids"), "is not that of a table"),
        (lambda given: given.update(columns=[]), "has no columns"),
        (lambda given: given.update(missing="x"), "options that are not known"),
        (lambda given: given.update(titled=1), "options that are not known"),
        (lambda given: given.update(ids="age"), "names a column of ids"),
        (lambda given: given["columns"].append(3), "a column that is not described"),
        (lambda given: given["columns"][0].update(more=1), "a column that is not described"),
        (lambda given: given["columns"][0].update(kind="colour"), "unknown kind: 'colour'"),
        (lambda given: given["columns"][0].update(kind=[1]), "unknown kind"),
        (lambda given: given["columns"][0].update(title=3), "unknown kind"),
        (lambda given: given["columns"][0].update(fill="a"), "fills gaps of 'age'"),
        (lambda given: given["columns"][0].update(fill=float("inf")), "fills gaps of 'age'"),
        (lambda given: given["columns"][0].update(group=True), "no category for 'age'"),
        (lambda given: given["columns"][0].update(group=0), "does not say which category 'age' is"),
        (lambda given: given["columns"][0].update(kind="category", group=1), "not counted from 0"),
        (lambda given: given["columns"][0].update(values=["a"]), "'age', which is no category"),
        (lambda given: given["columns"][0].update(format="iso"), "'age', which is no date"),
        (lambda given: given["columns"][1].update(values=["a", "a"]), "not those of a category"),
        (lambda given: given["columns"][1].update(values=[1]), "not those of a category"),
        (lambda given: given["columns"][1].update(values=[]), "not those of a category"),
        (
            lambda given: given["columns"][1].update(values=[str(i) for i in range(1001)]),
            "not those of a category",
        ),
        (lambda given: given["columns"][1].update(values=None), "does not say which category"),
    ],
)
def test_nonsense_is_refused(change, words):
    given = SCHEMA.to_json()
    change(given)
    with pytest.raises(ModelFileError, match=words):
        TableSchema.from_json(given)


def test_constants_have_no_kind_of_their_own():
    of_words = TableSchema((ColumnRule("a", "words"), ColumnRule("b", "constant")))
    assert of_words.kinds.tolist() == [WORD, WORD]
    assert TableSchema((ColumnRule("a", "constant"),)).kinds.tolist() == [NUMBER]


def test_files_and_frames_are_read_alike(tmp_path):
    frame = pd.DataFrame({"id": [f"n{i}" for i in range(ROWS)], **TRAIN})
    frame.to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_allclose(read_features(tmp_path / "x.csv"), made(frame).x, rtol=1e-6)
    np.testing.assert_allclose(read_features(pl.from_pandas(frame)), made(frame).x, rtol=1e-6)
