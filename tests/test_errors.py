"""The files directly in softcut/: errors and notes, where results come from, files that are whole or not there."""

import ast
import copy
import datetime
import json
import pickle
import sys
from pathlib import Path

import pytest

from softcut import Graph, provenance
from softcut.errors import Argument, Detail, GraphError, Note, ParameterError, Sentence
from softcut.files import atomic_json, atomic_write
from softcut.io import read_features, read_graph

ROOT = Path(__file__).resolve().parents[1]


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


# Parameter errors that name no argument: options by their own names; no argument is at fault; rooms still to do.
WITHOUT_ARGUMENT = (
    "cli/",
    "paper/commands.py",
    "serve/jobs.py",
)


def test_parameter_errors_say_which_argument_is_wrong():
    unnamed = []
    for path in sorted((ROOT / "softcut").rglob("*.py")):
        name = path.relative_to(ROOT / "softcut").as_posix()
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "ParameterError":
                said = [keyword.arg for keyword in call.keywords]
                said += [getattr(piece.func, "id", "") for piece in call.args if isinstance(piece, ast.Call)]
                if not {"argument", "Argument"} & set(said) and not name.startswith(WITHOUT_ARGUMENT):
                    unnamed.append(f"{name}:{call.lineno}")
    assert unnamed == []


def test_a_note_is_a_text_with_a_code_and_values():
    note = Note("lines_skipped", "3 lines skipped (", Argument("comments", ""), " reads them)", lines=3)
    assert note == "3 lines skipped (comments='' reads them)"
    assert json.loads(json.dumps([note])) == [note]
    for each in (copy.deepcopy(note), pickle.loads(pickle.dumps(note))):
        assert (each, each.code, each.values, each.pieces) == (note, note.code, {"lines": 3}, note.pieces)
    sentence = Sentence("a; ", note).worded(lambda a: f"--{a.name}")
    assert sentence == "a; 3 lines skipped (--comments reads them)"


def test_what_reading_says_can_be_told_by_code(tmp_path):
    (tmp_path / "g.csv").write_text("source,target,year\na,b,1\na,b,2\nb,b,3\n")
    with pytest.warns(UserWarning, match="pass self_loops='keep' to keep it") as told:
        graph = read_graph(tmp_path / "g.csv")
    assert told[0].message.args[0].pieces[1] == Argument("self_loops", "keep")
    codes = {note.code: note.values for note in pickle.loads(pickle.dumps(graph)).notes}
    assert list(codes) == ["format", "edge_columns", "ids", "self_loops_dropped", "edges_counted", "size"]
    assert codes["edge_columns"] == {"source": 0, "target": 1, "weight": None, "ignored": ("year",)}
    assert codes["self_loops_dropped"] == {"count": 1} and codes["size"] == {"nodes": 2, "edges": 1}
    (tmp_path / "x.csv").write_text("id,city\na,Rome\nb,Oslo\n")
    with pytest.raises(GraphError) as caught:
        Graph.from_edges([[0], [1]], edge_weight=[1.0, 2.0])
    assert caught.value.argument is None
    with pytest.raises(ValueError, match="no column that tells nodes apart") as refused:
        read_features(tmp_path / "x.csv")
    assert refused.value.argument == "categories"


@pytest.mark.parametrize(
    ("original", "script", "wanted"),
    [
        (["-m", "softcut.paper.quality", "-k", "3"], "quality.py", "python -m softcut.paper.quality -k 3"),
        (["x"], "/somewhere/bin/softcut", "softcut -k 3"),
        (["x"], str(ROOT / "benchmarks/halo.py"), "python benchmarks/halo.py -k 3"),
        (["x"], "/somewhere/own.py", "python own.py -k 3"),
    ],
)
def test_the_origin_names_commit_device_and_command_as_typed(monkeypatch, original, script, wanted):
    monkeypatch.setenv("SOFTCUT_COMMIT", "1234567")
    monkeypatch.setattr(sys, "orig_argv", ["python", *original])
    monkeypatch.setattr(sys, "argv", [script, "-k", "3"])
    device = provenance.device_name("cpu")
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    told = {"commit": "1234567", "device": device, "command": wanted, "date": today}
    assert provenance.origin("cpu") == told


def test_a_failed_write_leaves_the_old_file(tmp_path):
    atomic_json(tmp_path / "a.json", [1])

    def half(file):
        file.write(b"[2")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        atomic_write(tmp_path / "a.json", half)
    assert json.loads((tmp_path / "a.json").read_text()) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_details_stay_details_when_they_are_sent_to_another_process():
    for made in (Note("a", "b ", Argument("missing", "zero"), n=1), Detail("a", "b")):
        again = pickle.loads(pickle.dumps(made))
        assert (type(again), again, again.code, again.values) == (type(made), made, "a", made.values)
