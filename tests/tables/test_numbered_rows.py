"""Numbers that count the rows or the nodes of a table: when they are ids, when a feature, when neither."""

import numpy as np
import pytest

from softcut.errors import GraphError
from softcut.tables.columns import Column, FeatureOptions, Table
from softcut.tables.edge_columns import choose_edge_columns
from softcut.tables.feature_columns import feature_table

NAMES = [("ann", "bob"), ("bob", "cy"), ("cy", "ann")]


def ends(rows, titles=("row", "employee", "manager")):
    columns = choose_edge_columns(titles, "t", rows=rows)
    return columns.source, columns.target


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_column_that_counts_the_rows_is_no_node(first):
    rows = [(str(i + first), u, v) for i, (u, v) in enumerate(NAMES)]
    assert ends(rows) == (1, 2)
    assert ends([*rows, ("total", "3")]) == (1, 2), "a short row says nothing"


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
    assert ends(rows) == (0, 1)


def test_a_titled_weight_is_no_node():
    rows = [("1", "1", "2"), ("2", "2", "1"), ("3", "1", "1")]
    assert ends(rows, ("employee", "manager", "Weight ")) == (0, 1)


# ------------------------------------------------------------------------------------------ ids or a feature


def ids_of(values: list[int], known: list[str]) -> list[str] | None:
    """The ids found in a table whose second column holds these values."""
    columns = [Column("age", np.full(len(values), 0.5)), Column("level", np.array(values))]
    return feature_table(Table("x", columns), FeatureOptions(), known, ordered=False).ids


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


@pytest.mark.parametrize(("nodes", "refused"), [(9, False), (10, True)])
def test_a_later_column_that_counts_ten_nodes_in_another_order_is_asked_about(nodes, refused):
    columns = [Column("age", np.full(nodes, 0.5)), Column("rank", np.arange(nodes)[::-1].copy())]
    table, known = Table("x", columns), [str(i) for i in range(nodes)]
    if refused:
        with pytest.raises(
            GraphError, match="column 'rank': the values are the ids of the nodes in another order"
        ):
            feature_table(table, FeatureOptions(), known)
    else:
        assert feature_table(table, FeatureOptions(), known).names == ["age", "rank"]
