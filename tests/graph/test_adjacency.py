"""Adjacency matrices: exact values, notes and warnings."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from softcut.errors import GraphError
from softcut.graph import Graph, adjacency


def caught(build, *arguments, **options):
    """What is built, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = build(*arguments, **options)
    return made, [str(w.message) for w in said]


# ------------------------------------------------------------------------------------------------ adjacency


def of_edges(source, target, weight=None, n=4, self_loops="drop", directed=None, weighted=True):
    notes: list[str] = []
    weight = None if weight is None else np.array(weight, dtype=float)
    ends = np.array(source), np.array(target)
    made, said = caught(adjacency.adjacency_of_edges, *ends, weight, n, self_loops, directed, notes, weighted)
    # The numbers that programs read are those that people read.
    assert [int(re.search(r"\d+", note)[0]) for note in notes] == [note.values["count"] for note in notes]
    return made.toarray().tolist(), notes, said


def test_edges_are_merged_and_symmetrised():
    made, notes, said = of_edges([0, 1], [1, 2], n=3)
    assert made == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert notes == said == []
    made, notes, _ = of_edges([0, 0], [1, 1], [2, 3], n=2)
    assert made == [[0, 5], [5, 0]]
    assert notes == ["1 repeated edge merged, their weights summed"]
    made, notes, _ = of_edges([0, 0, 0], [1, 1, 1], n=2)
    assert made == [[0, 3], [3, 0]]
    assert notes == ["2 repeated edges counted as weight (weighted=False: every edge weighs 1)"]
    for weight in (None, [2, 3, 4]):
        made, notes, _ = of_edges([0, 0, 0], [1, 1, 1], weight, n=2, weighted=False)
        assert made == [[0, 1], [1, 0]]
        assert notes == ["2 repeated edges merged"]


def test_a_log_of_messages_is_counted_in_both_directions():
    """Rows add up whoever wrote to whom; a list that has every edge in both directions is not doubled."""
    sender, receiver = [0, 0, 1, 2, 2], [1, 1, 0, 1, 1]
    assert of_edges(sender, receiver, n=3, directed=False)[0] == [[0, 3, 0], [3, 0, 2], [0, 2, 0]]
    both = sender + receiver, receiver + sender
    made, notes, said = of_edges(*both, n=3)
    assert made == [[0, 3, 0], [3, 0, 2], [0, 2, 0]]
    assert len(notes) == 1
    assert said == []
    once = [0, 1, 1, 2], [1, 0, 2, 1]
    for weight in (None, [2, 2, 5, 5]):
        made, notes, said = of_edges(*once, weight, n=3)
        a, b = (1, 1) if weight is None else (2, 5)
        assert made == [[0, a, 0], [a, 0, b], [0, b, 0]]
        assert notes == said == []


def test_loops_and_zeros():
    made, notes, said = of_edges([0, 1, 1], [1, 1, 1], [1, 7, 7], n=2)
    assert made == [[0, 1], [1, 0]]
    assert notes == ["2 self-loops dropped"]
    assert said == ["2 self-loops dropped; pass self_loops='keep' to keep them."]
    assert of_edges([1], [1], n=2)[2] == ["1 self-loop dropped; pass self_loops='keep' to keep it."]
    assert "1 self-loop dropped" in caught(Graph.from_scipy, sp.eye_array(1))[1][0]
    assert of_edges([0, 1], [1, 1], [1, 7], n=2, self_loops="keep")[0] == [[0, 1], [1, 7]]
    made, notes, _ = of_edges([0, 1, 0], [1, 2, 2], [1, 0, 0], n=3)
    assert made == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert notes == ["2 edges of weight 0 dropped"]


@pytest.mark.parametrize(
    ("directed", "ends", "note"),
    [
        (None, ([0, 1, 1], [1, 0, 2]), "directed (1 of 3 edges without a reverse), both directions summed"),
        (False, ([0, 1, 1], [1, 0, 2]), None),
        (True, ([0, 1, 1], [1, 0, 2]), "directed (1 of 3 edges without a reverse), both directions summed"),
        (None, ([0, 1], [1, 2]), None),
        (True, ([0, 1], [1, 2]), "directed (2 of 2 edges without a reverse), read without direction"),
    ],
)
def test_directed_edges(directed, ends, note):
    made, notes, said = of_edges(*ends, n=3, directed=directed)
    both = len(ends[0]) - 1
    assert made == [[0, both, 0], [both, 0, 1], [0, 1, 0]]
    assert notes == ([] if note is None else [note])
    assert len(said) == len(notes)
    if said:
        assert ("1 of 3 edges has no edge" in said[0]) == ("1 of 3" in note)


def test_directed_weights():
    made, notes, said = of_edges([0, 1, 1, 2], [1, 0, 2, 1], [1, 3, 5, 5], n=3)
    assert made == [[0, 4, 0], [4, 0, 10], [0, 10, 0]]
    assert notes == ["1 edge directed, both directions summed"]
    assert "1 edge out of 2 has another weight" in said[0]
    assert of_edges([0, 1], [1, 0], [1, 3], n=2, directed=False)[1:] == ([], [])
    close = of_edges([0, 1], [1, 0], [1, 1 + 1e-13], n=2)
    assert close[1:] == ([], []), "the last bits are not worth a word"
    assert of_edges([0, 1], [1, 0], [1e6, 1e6 * (1 + 1e-13)], n=2)[1:] == ([], [])
    assert of_edges([0, 1], [1, 0], [1, 1 + 1e-11], n=2)[1] != []
    single = sp.csr_array(np.array([[0, 1], [1 + 1e-6, 0]], dtype=np.float32))
    assert caught(adjacency.symmetrised, single, None, "a", [])[1] == []
    notes = []
    single = sp.csr_array(np.array([[0, 1], [1 + 1e-4, 0]], dtype=np.float32))
    assert len(caught(adjacency.symmetrised, single, None, "a", notes)[1]) == len(notes) == 1
    both = of_edges([0, 1, 0, 2], [1, 0, 2, 0], [1, 3, 5, 6], n=3)
    assert both[1] == ["2 edges directed, both directions summed"]
    assert "2 edges out of 2 have another weight" in both[2][0]


def test_loops_do_not_count_as_edges_with_a_reverse():
    kept = sp.csr_array(np.array([[3.0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    made, said = caught(adjacency.symmetrised, kept, None, "a", [])
    assert said == []
    assert made.toarray().tolist() == [[3, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert of_edges([0, 0, 1], [0, 1, 0], [3, 1, 2], n=2, self_loops="keep")[0] == [[3, 3], [3, 0]]


def test_directions_whose_sum_is_too_large():
    matrix = sp.csr_array(np.array([[0, 1e308], [1.5e308, 0]]))
    with pytest.raises(GraphError, match=r"adjacency is too large: the repeated edge \(0, 1\) sums to more"):
        Graph.from_scipy(matrix, directed=False)


def test_the_type_of_indices_and_values():
    matrix = sp.csr_array(np.array([[0, 2], [2, 0]], dtype=np.int8))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    made = adjacency.canonical_csr(matrix, "a")
    assert made.indices.dtype == made.indptr.dtype == np.int32
    assert made.dtype == np.float64
    assert adjacency.canonical_csr(matrix.astype(np.float32), "a").dtype == np.float32


@pytest.mark.parametrize(
    "matrix",
    [
        sp.csr_array(([1.0, 2.0, *[1e308] * 4], [1, 0, 1, 1, 2, 2], [0, 1, 2, 6]), shape=(3, 3)),
        sp.coo_array(([1.0, *[1e308] * 4], ([0, 2, 2, 2, 2], [1, 1, 1, 2, 2])), shape=(3, 3)),
    ],
)
def test_repeats_whose_sum_is_too_large(matrix):
    with pytest.raises(GraphError, match=r"the repeated edge \(2, 1\) sums to more"):
        adjacency.canonical_csr(matrix, "a")


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.float32, bool])
def test_repeats_are_summed_in_a_type_that_holds_the_sum(dtype):
    """In uint8, 200 + 100 is 44; booleans are there or not."""
    value = {np.uint8: 200, np.int8: 100, np.int64: 2**62}.get(dtype, 1)
    matrix = sp.coo_array((np.array([value] * 4, dtype=dtype), ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    wanted = 1 if dtype is bool else 2 * float(value)
    made = adjacency.canonical_csr(matrix, "a")
    assert made.toarray().tolist() == [[0, wanted], [wanted, 0]]
    assert made.dtype == (np.float32 if dtype is np.float32 else np.float64)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo"])
def test_repeats_of_a_boolean_matrix_are_one_entry(kind):
    """Row 0 says (0, 1) twice, row 1 says (1, 0) with True and False; no weights come from nowhere."""
    said, indices, indptr = np.array([True, True, True, False]), [1, 1, 0, 0], [0, 2, 4]
    if kind == "coo":
        matrix = sp.coo_array((said, ([0, 0, 1, 1], indices)), shape=(2, 2))
    elif kind == "bsr":
        matrix = sp.bsr_array((said.reshape(4, 1, 1), indices, indptr), shape=(2, 2))
    else:
        matrix = {"csr": sp.csr_array, "csc": sp.csc_array}[kind]((said, indices, indptr), shape=(2, 2))
    assert adjacency.canonical_csr(matrix, "a").toarray().tolist() == [[0, 1], [1, 0]]
    graph = Graph.from_scipy(matrix, x=matrix)
    assert graph.num_edges == 1 and not graph.weighted
    assert graph.x.toarray().tolist() == [[0, 1], [1, 0]]
    assert matrix.dtype == bool and matrix.nnz == 4, "the caller's matrix is left alone"
