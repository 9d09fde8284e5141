"""Errors and notes: plain sentences that know their arguments, codes and values."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from softcut import Graph
from softcut.errors import Argument, GraphError, Note, ParameterError, Sentence
from softcut.io import read_features, read_graph


@pytest.mark.parametrize(
    ("error", "text", "argument"),
    [
        (GraphError("no nodes."), "no nodes.", None),
        (ParameterError("n_init is 0.", argument="n_init"), "n_init is 0.", "n_init"),
        (ParameterError("use more.", argument="n_init"), "use more.", "n_init"),
        (
            GraphError("pass ", Argument("missing", "zero"), " or 'mean'."),
            "pass missing='zero' or 'mean'.",
            "missing",
        ),
        (GraphError("g: ", GraphError(Argument("ids", 1), ".").sentence), "g: ids=1.", "ids"),
    ],
)
def test_an_error_is_a_sentence_that_knows_its_argument(error, text, argument):
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (str(each), each.argument, each.args) == (text, argument, (text,))
        marked = each.sentence.worded(lambda a: f"--{a.name}")
        assert ("--" in marked) == any(isinstance(piece, Argument) for piece in each.sentence.pieces)


def test_a_note_is_a_text_with_a_code_and_values():
    note = Note("lines_skipped", "3 lines skipped (", Argument("comments", ""), " reads them)", lines=3)
    assert note == "3 lines skipped (comments='' reads them)"
    assert json.loads(json.dumps([note])) == [note]
    for each in (copy.deepcopy(note), pickle.loads(pickle.dumps(note))):
        assert (each, each.code, each.values, each.pieces) == (note, note.code, {"lines": 3}, note.pieces)
    assert (
        Sentence("a; ", note).worded(lambda a: f"--{a.name}") == "a; 3 lines skipped (--comments reads them)"
    )


def test_what_reading_says_can_be_told_by_code(tmp_path):
    (tmp_path / "g.csv").write_text("source,target,year\na,b,1\na,b,2\nb,b,3\n")
    with pytest.warns(UserWarning, match="pass self_loops='keep' to keep it") as told:
        graph = read_graph(tmp_path / "g.csv")
    assert told[0].message.args[0].pieces[1] == Argument("self_loops", "keep")
    codes = {note.code: note.values for note in pickle.loads(pickle.dumps(graph)).notes}
    assert list(codes) == ["format", "edge_columns", "ids", "self_loops_dropped", "edges_merged", "size"]
    assert codes["edge_columns"] == {"source": 0, "target": 1, "weight": None, "ignored": ("year",)}
    assert codes["self_loops_dropped"] == {"count": 1} and codes["size"] == {"nodes": 2, "edges": 1}
    (tmp_path / "x.csv").write_text("id,city\na,Rome\nb,\n")
    with pytest.raises(GraphError) as caught:
        Graph.from_edges([[0], [1]], edge_weight=[1.0, 2.0])
    assert caught.value.argument is None
    with pytest.raises(ValueError, match="is not a number") as refused:
        read_features(tmp_path / "x.csv")
    assert refused.value.argument == "one_hot"
