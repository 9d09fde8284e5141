"""Edge lists between two kinds of nodes, such as users and movies: known by titles and values, and kept apart.

Where no id stands in both columns, it makes no difference to the graph. Where some do, user 3 and movie 3 must not
become one node: names in both columns are one node each, numbers are not if the titles name two kinds of things and
the rows do not show that both columns number the same ones.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from softcut.errors import Argument, Note, Sentence
from softcut.tables.arrays import plural
from softcut.tables.columns import Column, FeatureOptions, FeatureTable, InputTable
from softcut.tables.edge_columns import END_NAMES, EdgeTable

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_A-Za-z]+")
# Words in titles of ids that do not name the kind of thing.
_ID_WORDS = frozenset(re.findall("[a-z]+", "id ids key code no nr num number name names index uuid guid"))
# Titles that name a role, not a kind of thing: both ends are of one kind.
_ROLES = frozenset(
    re.findall(
        "[a-z]+",
        """origin destination dest sender receiver recipient caller callee follower followee followed following friend
        parent child ancestor descendant manager supervisor boss mentor citing cited citation reference referrer link
        neighbour neighbor giver taker lender borrower buyer seller payer payee creditor debtor ego alter first second
        left right one two self other partner peer predecessor successor previous next upstream downstream node vertex
        column """
        + " ".join(title.replace("_", " ") for pair in END_NAMES for title in pair),
    )
)
_SHOWN = 1_000_000  # rows that are looked at
_ENOUGH = 10  # pairs that must be expected by chance, or be seen, before they count as a sign
_TIMES = 3  # as often as by chance


def name_two_kinds(first: str, second: str) -> bool:
    """Whether two titles name two kinds of things, rather than two roles of one kind.

    >>> name_two_kinds("user_id", "movieId"), name_two_kinds("from_user", "to_user"), name_two_kinds("source", "target")
    (True, False, False)
    """
    words = [
        [w for w in map(str.lower, _WORDS.findall(title)) if w not in _ID_WORDS] for title in (first, second)
    ]
    if not all(words) or any(word in _ROLES or len(word) == 1 for side in words for word in side):
        return False
    a, b = (side[-1].removesuffix("s") for side in words)  # the noun stands last
    alike = a[:4] == b[:4] and min(len(a), len(b)) > 4  # employer and employee
    return not (alike or a.endswith(b) or b.endswith(a))  # author and coauthor


def separated(
    edges: EdgeTable,
    bipartite: bool | None,
    features: InputTable | FeatureTable | None = None,
    options: FeatureOptions | None = None,
) -> tuple[EdgeTable, InputTable | FeatureTable | None, FeatureOptions, list[Note]]:
    """The edges with two kinds of nodes where there are two, features and their options to match, and what to say.

    ``bipartite`` None decides by titles and values. An id that stands in both columns becomes two nodes, called by
    title and id; then a column of the features with one of the titles holds ids of that kind.
    """
    options = options or FeatureOptions()
    titles = edges.titles or ("source", "target")
    if bipartite is False or (bipartite is None and not name_two_kinds(*titles)):
        return edges, features, options, []
    sides = [np.unique(edges.ends[:, side]) for side in (0, 1)]
    counts = len(sides[0]), len(sides[1])
    shared = len(np.intersect1d(sides[0], sides[1], assume_unique=True))
    if shared and bipartite is None:
        why = _one_set(edges)
        if why is not None:
            both = f"{plural(shared, 'id')} in both {titles[0]!r} and {titles[1]!r}"
            taken = Sentence(f"{both} taken for one node each, since {why} (", Argument("bipartite", True))
            note = Note("one_kind_of_nodes", taken, " keeps them apart)", shared=shared)
            return edges, features, options, [note]
    made = _apart(edges, titles) if shared else replace(edges, kinds=titles)
    said = f"two kinds of nodes, {counts[0]:,} {titles[0]!r} and {counts[1]:,} {titles[1]!r}"
    more: tuple[str | Argument, ...] = ()
    if shared:
        more = (", kept apart (", Argument("bipartite", False), ": equal ids are one node)")
    note = Note("two_kinds_of_nodes", said, *more, kinds=titles, counts=counts, shared=shared)
    if shared and isinstance(features, InputTable):
        features, options = _ids_of_a_kind(features, options, titles)
    return made, features, options, [note]


def _one_set(edges: EdgeTable) -> str | None:
    """What shows that ids in both columns mean the same nodes; None where nothing does."""
    if edges.names is not None and not all(name.isdecimal() for name in edges.names):
        return "names mean the same everywhere"
    _, codes = np.unique(edges.ends[:_SHOWN], return_inverse=True)
    ends = codes.reshape(-1, 2)
    n, rows = int(ends.max()) + 1, len(ends)
    first, second = (np.bincount(side, minlength=n) for side in ends.T)
    # Numbers of two kinds of things are sometimes equal by chance; nodes of one kind rarely link to themselves.
    if not np.any(ends[:, 0] == ends[:, 1]) and float(first @ second) / rows >= _ENOUGH:
        return "no row has the same number twice"
    pairs = np.unique(ends[:, 0] * n + ends[:, 1])
    u, v = np.divmod(pairs, n)
    back = int(np.count_nonzero(np.isin(v * n + u, pairs) & (u != v)))
    chance = float((first[v] * second[u]).sum()) / rows
    return "many rows are there in both directions" if back >= max(_ENOUGH, _TIMES * chance) else None


def _apart(edges: EdgeTable, titles: tuple[str, str]) -> EdgeTable:
    """The ids of the two columns as different nodes, in the order in which the table mentions them."""
    shift = int(edges.ends.max()) + 1
    nodes = edges.ends + np.array([0, shift])
    ids, first, inverse = np.unique(nodes.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    side, own = np.divmod(ids[order], shift)
    of = own.tolist() if edges.names is None else [edges.names[i] for i in own.tolist()]
    names = [f"{titles[s]} {name}" for s, name in zip(side.tolist(), of, strict=True)]
    return replace(edges, ends=rank[inverse].reshape(-1, 2), names=names, kinds=titles)


def _ids_of_a_kind(
    table: InputTable, options: FeatureOptions, titles: tuple[str, str]
) -> tuple[InputTable, FeatureOptions]:
    """A table about nodes of one kind: its ids are called as in the graph."""
    for at, column in enumerate(table.columns):
        labels = column.labels()
        if column.title in titles and options.ids in (None, column.title, at) and labels is not None:
            named = Column(column.title, text=[f"{column.title} {label}" for label in labels])
            columns = [*table.columns[:at], named, *table.columns[at + 1 :]]
            return replace(table, columns=columns), replace(options, ids=column.title)
    return table, options
