"""Edge lists against an oracle, and every mistake named with its line."""

import gzip
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from helpers.reading import MTX, PATH, line_of, named_edges, quiet, write
from helpers.refusals import refuses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softcut.errors import FileFormatError, GraphError, ParameterError
from softcut.io import read_graph


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".edges", ".edgelist", ".csv.gz", ".TXT"])
@pytest.mark.parametrize("separator", [",", "\t", ";", " ", "  ", ", "])
@pytest.mark.parametrize("header", ["", "source{0}target\n", "one{0}other\n", "# a comment\n\n% more\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_plain_edge_lists(tmp_path: Path, suffix: str, separator: str, header: str, end: str) -> None:
    text = header.format(separator) + "".join(f"{i}{separator}{i + 1}\n" for i in range(3))
    g = quiet(write(tmp_path, "path" + suffix, text.replace("\n", end)))
    np.testing.assert_array_equal(g.adjacency.toarray(), PATH)
    assert g.name == "path"
    assert g.node_names is None
    assert not g.weighted


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.text(st.characters(categories=["L", "N"], exclude_characters="{}"), min_size=1, max_size=4),
        unique=True, min_size=2, max_size=6,
    ),
    data=st.data(),
)  # fmt: skip
def test_any_names_in_first_seen_order(tmp_path: Path, names: list[str], data: st.DataObject) -> None:
    pairs = list(itertools.combinations(range(len(names)), 2))
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(chosen), max_size=len(chosen)))
    text = "source,target,weight\n" + "".join(
        f"x{names[u]},x{names[v]},{w}\n" for (u, v), w in zip(chosen, weights, strict=True)
    )
    g = quiet(write(tmp_path, "g.csv", text))
    seen = list(dict.fromkeys("x" + names[i] for pair in chosen for i in pair))
    assert g.node_names == seen
    pairs = (sorted(("x" + names[u], "x" + names[v])) for u, v in chosen)
    assert named_edges(g) == {(*pair, float(w)) for pair, w in zip(pairs, weights, strict=True)}


def test_columns_by_name(tmp_path: Path) -> None:
    for text in (
        "Source,Target,Type,Id,Label,Weight\na,b,Undirected,0,,2.5\nb,c,Undirected,1,,1\n",
        "weight;dst;src\n2.5;b;a\n1;c;b\n",
        '"from","to","weight"\n"a","b",2.5\n"b","c",1\n',
        "u v weight\na b 2.5\nb c 1\n",
        "node_1\tnode_2\tw\na\tb\t2.5\nb\tc\t1\n",
    ):
        assert named_edges(quiet(write(tmp_path, "g.csv", text))) == {("a", "b", 2.5), ("b", "c", 1.0)}
    # A letter that other lines mention is a node, not a title.
    assert quiet(write(tmp_path, "g.txt", "u v\nv w\n")).node_names == ["u", "v", "w"]
    assert quiet(write(tmp_path, "g.txt", "person friend hours\nann bob 3\n")).num_edges == 1


def test_weights_that_are_words_or_absent(tmp_path: Path) -> None:
    words = write(tmp_path, "t.csv", "0,1,friend\n1,2,colleague\n")
    assert quiet(words, weighted=False).num_edges == 2
    for option in ({"header": True}, {"source": 0}):
        with pytest.raises(FileFormatError, match="line 1: expected 2 or 3 columns, found 1: 'abc'"):
            read_graph(write(tmp_path, "g.csv", "abc\ndef\n"), **option)
    with pytest.raises(FileFormatError, match="no column of weights"):
        read_graph(write(tmp_path, "g.csv", "0,1\n"), weighted=True)


def test_directed_files_warn_and_one_way_lists_do_not(tmp_path: Path) -> None:
    quiet(write(tmp_path, "a.csv", "0,1\n1,2\n"))
    path = write(tmp_path, "a.csv", "0,1\n1,0\n1,2\n")
    with pytest.warns(UserWarning, match="directed: 1 of 3"):
        assert "directed (1 of 3 edges without a reverse), both directions summed" in line_of(
            read_graph(path)
        )
    quiet(path, directed=False)
    mtx = write(tmp_path, "g.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n")
    assert quiet(mtx, directed=False).num_edges == 1
    assert quiet(write(tmp_path, "a.csv", "0,0\n0,1\n"), self_loops="keep").has_self_loops


def test_delimiter_and_format(tmp_path: Path) -> None:
    path = write(tmp_path, "links", "a|b\nb|c\n")
    assert quiet(path, format="edges", delimiter="|").node_names == ["a", "b", "c"]
    for wrong in ("", "ab", "1", '"', "\n"):
        refuses(ParameterError, "delimiter", read_graph, path, format="edges", delimiter=wrong)
    refuses(FileFormatError, r"extension '': use one of .csv", read_graph, path)
    for options, words in (
        ({"format": "xml"}, "format is 'xml'"),
        ({"weighted": "yes"}, "weighted"),
        ({"self_loops": "no"}, "self_loops"),
        ({"path": 3}, "path is a int"),
    ):
        refuses(ParameterError, words, read_graph, **{"path": path, **options})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("g.csv", "", "g.csv is empty"),
        ("g.csv", " \n\n", "g.csv is empty"),
        ("g.csv", "# only\n", "no edges, only comments"),
        ("g.csv", "source,target\n", "has no edges"),
        ("g.csv", "0,1\n1,2\nabc\n", r"g.csv, line 3: expected 2 or 3 columns, found 1: 'abc'"),
        ("g.csv", "abc\n", r"g.csv, line 1: expected 2 or 3 columns, found 1: 'abc'"),
        ("g.csv", "0,1\n1,2\n2,3,4\n", r"line 3: expected 2 columns as on line 1, found 3: '2,3,4'"),
        ("g.csv", "a,b,c,d\n1,2,3,4\n", r"has the columns 'a', 'b', 'c', 'd': name two .*source= and target="),
        ("g.csv", "5,6,7,8\n1,2,3,4\n", r"line 1: expected 2 or 3 .*, found 4.*source, target and weight"),
        ("g.csv", "0,1,1\n1,2,heavy\n", r"line 2: the weight 'heavy' is not a number; .*weighted=False"),
        ("g.csv", "0,1,1\n#\n1,2,nan\n", r"line 3: the weight 'nan' is not finite"),
        ("g.csv", "0,1,1\n1,2,1e999\n", r"line 2: the weight '1e999' is not finite"),
        ("g.csv", "0,1,1\n1,2,-3\n2,3,-4\n", r"line 2: the weight '-3' is negative"),
        ("g.csv", "0,1,1\n1,2,-inf\n", r"line 2: the weight '-inf' is not finite"),
        ("g.csv", "0,1,1\n1,2,\n", r"line 2: the weight '' is not a number"),
        ("g.csv", "a,b\n,c\n", r"line 2: a node id is empty"),
        ("g.csv", b"0,1\n1,\xff\n", r"line 2: byte 0xff is not UTF-8"),
        ("g.csv", b"0,1\n\x00\x01", r"line 2: a zero byte"),
        ("g.csv", b"\x00,1\n", r"line 1: a zero byte"),
        ("g.txt", "a " + "b" * 10_000 + " c d e\n", r"found 5: 'a b+\.\.\.'"),
        ("g.csv", '"' + "b" * 200_000 + '",c\n', r"line 1: field larger"),
        ("g.mtx", "1 2 3\n", "line 1: a Matrix Market file starts with"),
        ("g.mtx", MTX + "999999999 999999999 1\n1 5 1\n", "announces"),
        ("g.graphml", "<graphml", "g.graphml is not valid GraphML"),
        ("g.graphml", "<!DOCTYPE x><graphml/>", "document type"),
        ("g.graphml", "<graphml/>".encode("utf-16"), "must be UTF-8 XML"),
        ("g.gml", "graph [ node", "g.gml is not valid GML"),
        ("g.npz", "PK\x03\x04 no", "g.npz is not a valid .npz file"),
        ("g.docx", "junk", "extension '.docx'"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(FileFormatError, match=sentence) as caught:
        read_graph(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "bad.csv.gz").write_bytes(b"0,1\n")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"0,1\n" * 1000)[:-12])
    write(tmp_path, "blank.csv", gzip.compress(b" \n"))
    for name, words in (
        ("none.csv", "does not exist"),
        ("folder.csv", "is a folder"),
        ("bad.csv.gz", "not a valid gzip file"),
        ("cut.csv.gz", "not a valid gzip file"),
        ("blank.csv", "is empty"),
        ("nul\0byte.csv", "cannot be opened"),
    ):
        refuses(FileFormatError, words, read_graph, str(tmp_path / name))
    # A compressed file is known by its content, too.
    assert quiet(write(tmp_path, "packed.csv", gzip.compress(b"0,1\n"))).num_edges == 1
    with pytest.raises(GraphError, match=r"w.csv: .*sums to more than float64"):
        read_graph(write(tmp_path, "w.csv", "0,1,1e308\n0,1,1e308\n"))


@pytest.mark.parametrize("delimiter", [" ", ",", "\t", "|"])
def test_weights_in_braces_as_networkx_writes_them(tmp_path: Path, delimiter: str) -> None:
    g = nx.Graph()
    weights = [0.6, np.float64(0.6), np.float32(0.25), np.int64(3), 2, Decimal("1.5"), "7.5", 1e-300]
    for i, weight in enumerate(weights):
        more = {"note": "it's \"'weight': 9\", {5}", "year": 2020} if i % 2 else {}
        g.add_edge(f"n{i}", f"n{i + 1}", **more, weight=weight)
    nx.write_edgelist(g, tmp_path / "g.edgelist", delimiter=delimiter)
    read = quiet(tmp_path / "g.edgelist")
    assert named_edges(read) == {(f"n{i}", f"n{i + 1}", float(w)) for i, w in enumerate(weights)}
    assert "attributes in braces, weight 'weight', ignored 'note', 'year'" in line_of(read)
    assert not quiet(tmp_path / "g.edgelist", weighted=False).weighted
    assert quiet(tmp_path / "g.edgelist", weight="year", weighted=True).adjacency.max() == 2020


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("None", "the weight 'None' is not a number"),
        ("'heavy'", "the weight 'heavy' is not a number"),
        ("nan", "the weight 'nan' is not finite"),
        ("np.float64(inf)", "the weight 'inf' is not finite"),
        ("-1", "the weight '-1' is negative"),
        ("True", "the weight 'True' is not a number"),
        ("sqrt(4)", r"the weight 'sqrt\(4\)' is not a number"),
        ("{'weight': 5}", "the weight .* is not a number"),
        ("[2]", r"the weight '\[2\]' is not a number"),
        ("2", None),
        ("'2", "expected two nodes and attributes in braces"),
        ("-" * 10_000 + "x", "expected two nodes and attributes in braces"),
        ("(" * 2000 + "2", "expected two nodes and attributes in braces"),
    ],
)
def test_weights_in_braces_that_are_none(tmp_path: Path, value: str, said: str | None) -> None:
    path = write(tmp_path, "g.edgelist", f"# two edges\na b {{'weight': 2}}\nb c {{'weight': {value}}}\n")
    if said is None:
        assert named_edges(quiet(path)) == {("a", "b", 2.0), ("b", "c", 2.0)}
    else:
        refuses(FileFormatError, f"line 3: {said}", read_graph, path)
